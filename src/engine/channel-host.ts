// What a channel needs of the rank it belongs to.

import type { HorovodError } from '../errors.ts';
import type { Description } from './description.ts';
import type { Observers } from './observer.ts';
import type { Request } from './request.ts';
import type { TrainingPosition } from './step-clock.ts';

export interface ChannelHost {
  /** Global rank of this process. */
  readonly rank: number;
  /** Number of the process set. */
  readonly processSet: number;
  /** Global ranks of the members. */
  readonly members: readonly number[];
  /** The same on all ranks whenever they plan the same batch; it may change while nothing is in flight. */
  readonly fusionThresholdBytes: number;
  /** Requests of one tick are coalesced; this adds a window of time. */
  readonly cycleTimeMs: number;
  /** Observers hear of a blocking wait about this often. */
  readonly stallAfterMs: number;
  readonly observers: Observers;
  /** The clock of Request.submittedAtMs. */
  nowMs(): number;
  /** The job cannot go on: ends every channel and tells every rank. */
  fail(error: HorovodError): void;
  /** Called on all ranks for an optional request that not all of them asked for at the same time. */
  onGivenUp?(key: string): void;
  /** Where in its training the rank is. */
  position?(): TrainingPosition | undefined;
  /** Called on all ranks: they are at different points of their training, and their operations fit all the same. */
  onUneven?(text: string): void;
  /** Several requests are in flight: they might go together. */
  onBatch?(): void;
  /** The part of a rank that has joined: the same operation with zeros. */
  zeroRequest(description: Description): Request;
}
