// Ratios of two builds that were measured in pairs, one right after the other: what slows the machine down for longer than a pair is in
// both. The interval comes from resampling the pairs, with a seed.

/** `pairs`: [other, ours] each. `ratio`: the median of ours / other; `low` and `high`: 95 % of its bootstrap. */
export function comparePairs(pairs, resamples = 2000) {
  const ratios = pairs.map(([other, ours]) => ours / other);
  const random = generator(pairs.length);
  const medians = Array.from({ length: resamples }, () =>
    median(ratios.map(() => ratios[Math.floor(random() * ratios.length)])),
  ).sort((a, b) => a - b);
  const at = (share) => medians[Math.round(share * (medians.length - 1))];
  return {
    other: median(pairs.map(([other]) => other)),
    ours: median(pairs.map(([, ours]) => ours)),
    ratio: median(ratios),
    low: at(0.025),
    high: at(0.975),
  };
}

export function median(numbers) {
  const sorted = [...numbers].sort((a, b) => a - b);
  return (sorted[(sorted.length - 1) >> 1] + sorted[sorted.length >> 1]) / 2;
}

/** Numbers from 0 to 1, the same for the same seed (mulberry32). */
function generator(seed) {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
