// Functions of map() for bench/data.mjs: they run in threads and in compute workers.

/** Takes a certain time of the clock. */
export function work(element, { args }) {
  const until = performance.now() + args.ms;
  while (performance.now() < until);
  return element;
}

/** Takes as long as so many multiplications: on a processor with other work, longer. */
export function turn({ image, label }, { args }) {
  let state = image.data[0] + label.data[0];
  for (let each = 0; each < args.turns; each++) state = (Math.imul(state, 1664525) + 1013904223) | 0;
  return { image, label, turned: state & 255 };
}

let made;

/** A block of bytes that is there already. */
export function block(id, { args }) {
  if (made?.length !== args.bytes) made = new Uint8Array(args.bytes).fill(7);
  return {
    id: { data: Float64Array.of(id), shape: [1], dtype: 'float64' },
    block: { data: made, shape: [args.bytes], dtype: 'uint8' },
  };
}
