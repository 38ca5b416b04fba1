// The clock of the engine and of everything that watches it: milliseconds of the host's monotonic clock, which all its
// processes share. performance.now() is that clock from another origin, and much cheaper to read than process.hrtime.

const originMs = readOrigin();

export function nowMs(): number {
  return originMs + performance.now();
}

/** For timelines. */
export function nowUs(): number {
  return nowMs() * 1e3;
}

/**
 * The distance between the two clocks. A process that is preempted between two readings measures its pause as well, and
 * processes would disagree by milliseconds; so the closest of several readings counts.
 */
function readOrigin(): number {
  let origin = 0;
  let closestMs = Number.POSITIVE_INFINITY;
  for (let i = 0; i < 20; i++) {
    const before = process.hrtime.bigint();
    const now = performance.now();
    const tookMs = Number(process.hrtime.bigint() - before) / 1e6;
    if (tookMs >= closestMs) continue;
    closestMs = tookMs;
    origin = Number(before) / 1e6 + tookMs / 2 - now;
  }
  return origin;
}
