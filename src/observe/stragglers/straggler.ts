// Which rank comes last, found without any message. Each rank measures how long it has something in flight in a step. A
// collective ends for all at about the same time and begins when a rank comes to it, so the rank that comes last waits
// least, and the difference is how late it is. The averages are in the ranks' status pages, where all can compare them.

import type { RankStatus } from '../status/rank-status.ts';

/** Averages are over so many steps. */
export const stragglerSteps = 100;
/** Smaller differences are noise, however short the steps are. */
const minLateMs = 1;
/**
 * A clock is read for each collective of this size; of smaller ones for the first of a step, which are those that wait for a
 * late rank, and then for every 16th or so.
 */
const timedBytes = 16 * 1024;
const timedPerStep = 16;
const averageStride = 16;

/** Time of one rank that has something in flight, step by step. */
export class WaitMeter {
  readonly #waits = new Float64Array(stragglerSteps);
  readonly #ends = new Float64Array(stragglerSteps);
  #steps = 0;
  #sum = 0;
  #current = 0;
  #inFlight = 0;
  #since = 0;
  #stride = 1;
  #countdown = 1;
  #random = 1;
  #timedLeft = timedPerStep;
  #isSampled = false;

  /** A request begins; several may overlap. */
  enter(nowMs: number): void {
    if (this.#inFlight++ === 0) this.#since = nowMs;
  }

  /** A request is over. */
  leave(nowMs: number): void {
    if (--this.#inFlight === 0) this.#current += nowMs - this.#since;
  }

  /** Is the clock to be read for this blocking operation? Small ones are sampled, because a look costs as much as they do. */
  wants(bytes: number): boolean {
    if (bytes >= timedBytes) this.#isSampled = false;
    else if (this.#timedLeft > 0) {
      this.#timedLeft--;
      this.#isSampled = false;
    } else {
      this.#isSampled = true;
      return --this.#countdown <= 0;
    }
    return true;
  }

  /** Of an operation that was wanted. */
  add(waitedMs: number): void {
    if (!this.#isSampled) {
      this.#current += waitedMs;
      return;
    }
    this.#current += waitedMs * this.#stride;
    // Strides change, so that the same operation of each step is not the one that is always seen.
    this.#random = (Math.imul(this.#random, 1_103_515_245) + 12_345) & 0x7fffffff;
    this.#stride = 1 + ((this.#random >> 8) % (2 * averageStride - 1));
    this.#countdown = this.#stride;
  }

  /** A step has ended. */
  endStep(nowMs: number): void {
    if (this.#inFlight > 0) {
      this.#current += nowMs - this.#since;
      this.#since = nowMs;
    }
    const place = this.#steps++ % stragglerSteps;
    this.#sum += this.#current - (this.#waits[place] as number);
    this.#waits[place] = this.#current;
    this.#ends[place] = nowMs;
    this.#current = 0;
    this.#timedLeft = timedPerStep;
  }

  /** Averages of the last steps; undefined before there are enough. */
  averages(): { readonly waitMs: number; readonly stepMs: number } | undefined {
    if (this.#steps <= stragglerSteps) return undefined;
    const newest = this.#ends[(this.#steps - 1) % stragglerSteps] as number;
    const oldest = this.#ends[this.#steps % stragglerSteps] as number;
    return {
      waitMs: Math.max(this.#sum, 0) / stragglerSteps,
      stepMs: (newest - oldest) / (stragglerSteps - 1),
    };
  }
}

export interface Straggler {
  readonly rank: number;
  readonly host: string;
  readonly pid: number;
  /** How much less it waits than the others do, in each step. */
  readonly lateMs: number;
  /** Of a step, 0 to 1. */
  readonly share: number;
}

/** The rank that the others wait for. Undefined: fewer than two ranks have said how long they wait. */
export function findStraggler(
  statuses: readonly (RankStatus | undefined)[],
  stepMs: number,
): Straggler | undefined {
  const known = statuses.flatMap((status) =>
    status?.waitMsPerStep === undefined || status.hasLeft === true
      ? []
      : [{ ...status, waitMs: status.waitMsPerStep }],
  );
  if (known.length < 2 || stepMs <= 0) return undefined;
  const [last, ...others] = known.sort((a, b) => a.waitMs - b.waitMs) as [(typeof known)[0], ...typeof known];
  const median = (others[(others.length - 1) >> 1] as (typeof known)[0]).waitMs;
  const lateMs = median - last.waitMs;
  return { rank: last.rank, host: last.host, pid: last.pid, lateMs, share: lateMs / stepMs };
}

/** `percent`: HOROVOD_STRAGGLER_PERCENT; 0: never. */
export function isTooLate({ lateMs, share }: Straggler, percent: number): boolean {
  return percent > 0 && lateMs >= minLateMs && share * 100 >= percent;
}

export function stragglerText({ rank, host, pid, lateMs, share }: Straggler): string {
  return (
    `rank ${rank} (${host}, pid ${pid}) arrives last: over the last ${stragglerSteps} steps, the other ranks waited ` +
    `${lateMs.toFixed(lateMs < 10 ? 1 : 0)} ms per step for it (${Math.round(share * 100)} % of a step)`
  );
}
