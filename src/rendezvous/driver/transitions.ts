// The steps from one phase of an elastic job to the next that more than one rule takes. They change the state in place; the driver
// gives them a copy.

import type { JobEnd } from '../elastic-messages.ts';
import type { DriverState, Generation, Order, Phase } from './driver-state.ts';
import { answer, signal } from './workforce.ts';

export function isMember({ generation }: DriverState, worker: number): boolean {
  return generation?.workers.includes(worker) ?? false;
}

export function enter(state: DriverState, phase: Phase): void {
  state.phase = phase;
  state.since = state.clock;
}

export function closeGeneration(generation: Generation, why: string, orders: Order[]): void {
  if (generation.isClosed) return;
  generation.isClosed = true;
  orders.push({ kind: 'close-generation', generation: generation.number, why });
}

export function fail(state: DriverState, code: JobEnd, message: string, orders: Order[]): void {
  state.failure = { code, message };
  enter(state, 'failing');
  for (const worker of state.workers.values()) answer(worker, { kind: 'failed', code, message }, orders);
  orders.push({ kind: 'fail', code, message });
}

/** All is done: members may end, and the others are stopped. */
export function finish(state: DriverState, orders: Order[]): void {
  enter(state, 'finishing');
  for (const worker of state.workers.values()) {
    if (isMember(state, worker.number)) answer(worker, { kind: 'finished' }, orders);
    else {
      worker.leavingSince ??= state.clock;
      worker.report = undefined;
      signal(worker, 'SIGTERM', 'the job is finished', orders);
    }
  }
  orders.push({ kind: 'finish' });
}
