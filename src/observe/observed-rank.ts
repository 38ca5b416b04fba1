// What observers may know of the rank they watch, and the one thing they can do to it.

import type { Log } from '../console/log.ts';
import type { Channel } from '../engine/channel.ts';
import type { StepClock } from '../engine/step-clock.ts';
import type { HorovodError } from '../errors.ts';

export interface ObservedRank {
  readonly rank: number;
  readonly size: number;
  readonly host: string;
  /** Tells this job from others. */
  readonly job: string;
  /** Name of the transport. */
  readonly transport: string;
  readonly log: Log;
  readonly steps: StepClock;
  processSets(): readonly ObservedSet[];
  /** Process of a rank of this host; 0 or undefined: of another host, or not known. */
  pidOf(rank: number): number | undefined;
  /** Ends the job: for what has waited longer than the user allows. */
  fail(error: HorovodError): void;
}

export interface ObservedSet {
  readonly id: number;
  readonly ranks: readonly number[];
  /** Undefined where this rank is not a member. */
  readonly channel: Channel | undefined;
}

export function channelsOf(rank: ObservedRank): Channel[] {
  return rank.processSets().flatMap(({ channel }) => channel ?? []);
}
