// The clock of the engine and of everything that watches it: milliseconds of the host's monotonic clock, which all its
// processes share. performance.now() is that clock from another origin, and much cheaper to read than process.hrtime.

const originMs = Number(process.hrtime.bigint()) / 1e6 - performance.now();

export function nowMs(): number {
  return originMs + performance.now();
}

/** For timelines. */
export function nowUs(): number {
  return nowMs() * 1e3;
}
