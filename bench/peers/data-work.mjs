// A function of map() that takes a certain time of the processor, for peers/data-pipelines.mjs.

export function work(element, { args }) {
  const until = performance.now() + args.ms;
  while (performance.now() < until);
  return element;
}
