// What the algorithms of the portable transport build on: posts and slots. Nothing here knows about files.
//
// A round begins with a *post* of every member: small operations travel in it as a whole (the *payload*), larger ones
// only announce their size. Then follow *steps*: in each step a member may put bytes into its slot, publishes
// that it has, waits until all members have, and gets what it needs from their slots.
//
// An algorithm is a generator that yields when other members must act first ('waiting') and between steps ('progress');
// its driver decides whether to block the thread in between or to return to the event loop.

import { HorovodError } from '../../../errors.ts';
import type { ReduceKernels } from '../../../tensor/wasm-reduce.ts';

export type Turn = 'waiting' | 'progress';
export type Steps<Result = void> = Generator<Turn, Result, undefined>;

/** The posts of all members, once they have been read. */
export interface Posts {
  readonly index: number;
  readonly size: number;
  /** The maximum payload of a post. */
  readonly eagerBytes: number;
  readonly kernels: ReduceKernels;
  /** Bytes of the payload that came with a member's post. */
  payloadBytes(member: number): number;
  /** Where in the staging memory that payload is; loads it if necessary. */
  payload(member: number): number;
  /** The numbers in a member's post. */
  totalBytes(member: number): number;
  sendBytes(member: number, to: number): number;
}

export interface Exchange extends Posts {
  /** The maximum number of bytes that a member puts in one step; a multiple of 64. */
  readonly slotBytes: number;
  /** Area of the staging memory that the running algorithm may use: workSlots · slotBytes. */
  readonly workArea: number;

  /** Announces the number of steps that all members are about to take together. */
  begin(steps: number): void;
  /** Copies source[from, from + length) to byte `at` of this member's slot for `step`. */
  put(step: number, at: number, source: Uint8Array, from: number, length: number): void;
  /** Announces that this member's slot for `step` is complete. */
  publish(step: number): void;
  /** Whether all members have published `step`. */
  hasAll(step: number): boolean;
  /** Copies from byte `at` of another member's slot for `step` to target[to, to + length). */
  get(member: number, step: number, at: number, target: Uint8Array, to: number, length: number): void;
}

export const workSlots = 4;

/** A member's part in one operation: what its post contains, and what follows when all posts are there. */
export interface Collective {
  readonly totalBytes: number;
  readonly sendBytes?: readonly number[];
  /** 0 if the operation is too large for a post. */
  readonly payloadBytes: number;
  writePayload(staging: Uint8Array, area: number): void;
  run(): Steps;
}

/**
 * NOTE [Slots]. There are four slots per member; step s uses slot s mod 4. A member puts step s only after it has
 * consumed step s-2 (one step of look-ahead hides the jitter of the others), and it consumes only what all have
 * published. So when it puts step s, all others have published s-2 and therefore consumed s-4: the slot is free,
 * and no counter of consumed steps is needed. Between rounds the look-ahead drains: a member posts a round only
 * after it has consumed every step of the round before.
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

export function othersOf(exchange: Posts): number[] {
  const members = Array.from({ length: exchange.size }, (_, member) => member);
  return members.filter((member) => member !== exchange.index);
}

/**
 * Equal fingerprints mean that all members reduce equally many bytes, unless a buffer was detached after the call, which
 * makes it empty; combining the rest would be silently wrong.
 */
export function checkEqualSizes(exchange: Posts): void {
  const own = exchange.totalBytes(exchange.index);
  for (const member of othersOf(exchange)) {
    const theirs = exchange.totalBytes(member);
    if (theirs === own) continue;
    throw new HorovodError(
      'ERR_HVD_DETACHED',
      `member ${exchange.index} of the group has ${own} bytes to reduce and member ${member} has ${theirs}. ` +
        'A buffer was detached (transferred) during its operation; transfer it afterwards.',
    );
  }
}
