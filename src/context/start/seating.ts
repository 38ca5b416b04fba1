// How a worker of an elastic job comes into a generation: its place there, and what it keeps from one generation to the next.

import type { SettledResults } from '../../engine/autotune/settled-results.ts';
import type { StepClock } from '../../engine/step-clock.ts';
import type { TimelineHistory } from '../../observe/timeline/timeline.ts';
import type { Seat } from '../../rendezvous/elastic-messages.ts';
import type { JoinedJob } from '../../rendezvous/join.ts';
import type { ReachableMemory } from '../../transport/native/reachable-memory.ts';
import type { KeptWatch } from '../host-watch/host-watch.ts';

export interface Seating {
  readonly seat: Pick<Seat, 'generation' | 'rank' | 'size'>;
  /** Of every key by which the workers of the generation find each other. */
  readonly prefix: string;
  /** The job as this generation sees it. */
  readonly job: JoinedJob;
  /** Of this process, in all generations. */
  readonly number: number;
  readonly timelines: TimelineHistory;
  readonly memory: ReachableMemory;
  readonly watch: KeptWatch;
  readonly steps: StepClock;
  readonly tuning: SettledResults;
}

/** Of every key in the store: other ranks of the job may start apart from these, and other generations have theirs. */
export function prefixOf({
  seating,
  ranks,
}: {
  readonly seating?: Seating | undefined;
  readonly ranks: readonly number[] | undefined;
}): string {
  if (seating !== undefined) return seating.prefix;
  return ranks === undefined ? '' : `ranks ${ranks.join(',')}/`;
}
