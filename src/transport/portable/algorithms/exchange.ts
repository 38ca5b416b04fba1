// What the algorithms of the portable transport stand on: posts and slots. It knows nothing of files.
//
// A round begins with a *post* of every member: small operations travel in it altogether (the *payload*), larger ones
// only say how large they are. Then follow *steps*: in each a member may put bytes into its slot, publishes
// that it has, waits until all members have, and gets what it needs from their slots.
//
// An algorithm is a generator that yields where others must act first ('waiting') and between steps ('progress');
// whoever drives it decides whether to block the thread meanwhile or to go back to the event loop.

import { HorovodError } from '../../../errors.ts';
import type { ReduceKernels } from '../../../tensor/wasm-reduce.ts';

export type Turn = 'waiting' | 'progress';
export type Steps<Result = void> = Generator<Turn, Result, undefined>;

export interface Exchange {
  readonly index: number;
  readonly size: number;
  /** Most bytes that a post carries. */
  readonly eagerBytes: number;
  /** Most bytes that a member puts in one step; a multiple of 64. */
  readonly slotBytes: number;
  readonly kernels: ReduceKernels;
  /** Area of the staging memory that the running algorithm may use: workSlots · slotBytes. */
  readonly workArea: number;

  /** Announces the number of steps that all members are about to take together. */
  begin(steps: number): void;
  /** Into the own slot of `step`, at byte `at` of it: source[from, from + length). */
  put(step: number, at: number, source: Uint8Array, from: number, length: number): void;
  /** Says that nothing more will be put into the slot of `step`. */
  publish(step: number): void;
  /** Have all members published `step`? */
  hasAll(step: number): boolean;
  /** target[to, to + length) = the slot of another member. */
  get(member: number, step: number, at: number, target: Uint8Array, to: number, length: number): void;

  /** Bytes of the payload that came with a member's post. */
  payloadBytes(member: number): number;
  /** Where in the staging memory that payload is; loads it where necessary. */
  payload(member: number): number;
  /** The numbers in a member's post. */
  totalBytes(member: number): number;
  sendBytes(member: number, to: number): number;
}

export const workSlots = 4;

/** A member's part in one operation: what its post says, and what follows when all posts are there. */
export interface Collective {
  readonly totalBytes: number;
  readonly sendBytes?: readonly number[];
  /** 0 where the operation is too large for a post. */
  readonly payloadBytes: number;
  writePayload(staging: Uint8Array, area: number): void;
  run(): Steps;
}

/**
 * NOTE [Slots]. There are four slots per member; step s uses slot s mod 4. A member puts step s only after it has
 * consumed step s-2 (one step of look-ahead hides the others' jitter), and consumed it has only what all have
 * published. So when it puts step s, all others have published s-2, hence consumed s-4: the slot is free,
 * and no counter of consumed steps is needed. Between rounds the look-ahead drains: a member posts a round only
 * when it has consumed every step of the round before.
 */
export const slotsPerMember = 4;

export function* runSteps(
  exchange: Exchange,
  steps: number,
  put: (step: number) => void,
  consume: (step: number) => void,
): Steps {
  exchange.begin(steps);
  for (let step = -1; step < steps; step++) {
    if (step + 1 < steps) {
      put(step + 1);
      exchange.publish(step + 1);
    }
    if (step < 0) continue;
    while (!exchange.hasAll(step)) yield 'waiting';
    consume(step);
    yield 'progress';
  }
}

export function othersOf(exchange: Pick<Exchange, 'index' | 'size'>): number[] {
  const members = Array.from({ length: exchange.size }, (_, member) => member);
  return members.filter((member) => member !== exchange.index);
}

/**
 * All members reduce equally many bytes: the fingerprint says so. What it cannot say is that a buffer was detached after
 * the call, which makes it empty; combining what is left would be silently wrong.
 */
export function checkEqualSizes(exchange: Pick<Exchange, 'index' | 'size' | 'totalBytes'>): void {
  const own = exchange.totalBytes(exchange.index);
  for (const member of othersOf(exchange)) {
    const theirs = exchange.totalBytes(member);
    if (theirs === own) continue;
    throw new HorovodError(
      'ERR_HVD_DETACHED',
      `member ${exchange.index} of the group has ${own} bytes to reduce and member ${member} has ${theirs}. ` +
        'A buffer was detached (transferred) while its operation was under way; transfer it afterwards.',
    );
  }
}
