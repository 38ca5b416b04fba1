// How long a slot or a host is left alone after a failure. A slot whose worker has died may start the next one at once, then
// after 1, 2, 4 … s; a host that was lost waits from the first time. Pure functions.

export interface CooldownRange {
  /** Both 0: what has failed once is never used again. */
  readonly minMs: number;
  readonly maxMs: number;
}

/** What a slot or a host has done. */
export interface Penalty {
  /** Failures in a row. */
  readonly failures: number;
  /** The time before which it is not used; Infinity: never again. */
  readonly until: number;
}

export const noPenalty: Penalty = { failures: 0, until: Number.NEGATIVE_INFINITY };

/** After this long as a member, a worker's slot has a clean record again. */
export const forgivenAfterMs = 30_000;

/** `random`: from 0 to 1, so that hosts that failed together do not come back together. */
export function cooldownMs({ minMs, maxMs }: CooldownRange, count: number, random: number): number {
  if (maxMs === 0) return Number.POSITIVE_INFINITY;
  return Math.min(Math.max(minMs * 2 ** count + random * minMs, minMs), maxMs);
}

/** A worker died in this slot. */
export function punishSlot(penalty: Penalty, now: number, range: CooldownRange, random: number): Penalty {
  const failures = penalty.failures + 1;
  const isFirst = failures === 1 && range.maxMs > 0;
  return { failures, until: isFirst ? now : now + cooldownMs(range, failures - 2, random) };
}

/** This host was lost or could not be used. */
export function punishHost(penalty: Penalty, now: number, range: CooldownRange, random: number): Penalty {
  const failures = penalty.failures + 1;
  return { failures, until: now + cooldownMs(range, failures, random) };
}

export function isBlocked({ until }: Penalty, now: number): boolean {
  return now < until;
}
