// The loop of elastic.run() as states and transitions: pure. run.ts does what a state says and comes back with what happened.
//
//   reporting → forming → syncing → training → reporting (ranks lost, ranks to change, or done) → … → over
//
// Whatever goes wrong before training begins leads back to the report, if it may be the fault of another rank.

import type { HorovodError } from '../errors.ts';
import { type Assignment, assignmentError, type Seat } from '../rendezvous/elastic-messages.ts';
import { isFailure, isFailureWhileForming, isHostsUpdated } from './kinds-of-errors.ts';

export type RunState<R> =
  /** Tell the driver, go back to the last commit if `goesBack`, and wait for its answer. */
  | {
      readonly name: 'reporting';
      readonly goesBack: boolean;
      /** Why the generation before ended; undefined in the first report, and when training is done. */
      readonly cause?: HorovodError | undefined;
      /** The training function has returned this. */
      readonly done?: { readonly value: R } | undefined;
    }
  /** Form the generation. `cause` as in the report. */
  | { readonly name: 'forming'; readonly seat: Seat; readonly cause?: HorovodError | undefined }
  /** Callbacks, election, synchronization; then say that this worker is ready to train. */
  | { readonly name: 'syncing'; readonly seat: Seat; readonly cause?: HorovodError | undefined }
  | { readonly name: 'training'; readonly seat: Seat }
  | { readonly name: 'returned'; readonly value: R }
  | { readonly name: 'failed'; readonly error: unknown };

export type RunEvent<R> =
  | { readonly type: 'assigned'; readonly assignment: Assignment }
  | { readonly type: 'formed' }
  | { readonly type: 'synced' }
  | { readonly type: 'returned'; readonly value: R }
  | { readonly type: 'threw'; readonly error: unknown };

export const firstState: RunState<never> = { name: 'reporting', goesBack: false };

export function nextState<R>(state: RunState<R>, event: RunEvent<R>, worker: number): RunState<R> {
  if (event.type === 'threw') return afterError(state, event.error);
  switch (state.name) {
    case 'reporting':
      if (event.type === 'assigned') return afterAssignment(state, event.assignment, worker);
      break;
    case 'forming':
      if (event.type === 'formed') return { ...state, name: 'syncing' };
      break;
    case 'syncing':
      if (event.type === 'synced') return { name: 'training', seat: state.seat };
      break;
    case 'training':
      if (event.type === 'returned')
        return { name: 'reporting', goesBack: false, done: { value: event.value } };
      break;
    default:
  }
  throw new Error(`the event ${event.type} in the state ${state.name}`);
}

function afterAssignment<R>(
  state: RunState<R> & { name: 'reporting' },
  assignment: Assignment,
  worker: number,
): RunState<R> {
  const error = assignmentError(assignment, worker);
  if (error !== undefined) return { name: 'failed', error };
  if (assignment.kind === 'seat') {
    const { kind: _, ...seat } = assignment;
    return { name: 'forming', seat, cause: state.cause };
  }
  if (state.done !== undefined) return { name: 'returned', value: state.done.value };
  return { name: 'failed', error: new Error('the driver has finished a worker that was not done') };
}

function afterError<R>(state: RunState<R>, error: unknown): RunState<R> {
  switch (state.name) {
    case 'forming':
    case 'syncing':
      // It ended before this one did: what began it is still the cause of the reset.
      if (isFailureWhileForming(error))
        return { name: 'reporting', goesBack: true, cause: state.cause ?? error };
      break;
    case 'training':
      if (isHostsUpdated(error)) return { name: 'reporting', goesBack: false, cause: error };
      if (isFailure(error)) return { name: 'reporting', goesBack: true, cause: error };
      break;
    default:
  }
  return { name: 'failed', error };
}
