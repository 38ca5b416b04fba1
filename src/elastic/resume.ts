// elastic.resume(): a stream of elements, dealt among the ranks of an elastic job. Elements cannot be had by index, so every rank reads the
// whole stream: it skips the *position*, which is how many elements all ranks have used together, and takes one of each window of
// `size()` elements that follow. The position is a field of the state, and moves when a window is handed out: a commit after the step keeps
// it, and a rank that goes back to a commit gets the elements of the steps since then again.

import { HorovodError } from '../errors.ts';
import { invalid } from '../operations/check-options.ts';
import { describe } from '../tensor/tensor.ts';
import { currentWorld, type World } from './world.ts';

/** A state with a field that says how many elements of the stream are done. */
export interface StreamState {
  position: number;
}

/** What makes the stream, the same in every call: seed its order by the epoch. */
export type StreamSource<T> = () => Iterable<T> | AsyncIterable<T>;

/**
 * The elements of this rank, from `state.position` on. `make` is called for each pass and gives the whole stream of the epoch, in the same
 * order on all ranks. All ranks get equally many: fewer elements than ranks at the end are left out. At the end, `state.position` is 0.
 * If ranks come or go, the iterator ends with ERR_HVD_STALE; the training function is then called again.
 */
export function resume<T>(make: StreamSource<T>, state: StreamState): AsyncIterable<T> {
  checkArguments(make, state);
  return {
    async *[Symbol.asyncIterator]() {
      const stream = make();
      if (!isIterable(stream)) {
        const expected = 'the function returns an iterable or an async iterable';
        throw invalid('elastic.resume()', `${expected}, not ${describe(stream)}`);
      }
      yield* dealt(iteratorOf(stream), state, { world: currentWorld, discard() {} });
    },
  };
}

export function checkArguments(make: unknown, state: unknown): void {
  if (typeof make !== 'function') {
    throw invalid('elastic.resume()', `expected a function that returns the stream, not ${describe(make)}`);
  }
  const { position } = (state ?? {}) as Partial<StreamState>;
  if (!Number.isSafeInteger(position) || (position as number) < 0) {
    throw invalid(
      'elastic.resume()',
      `expected a state with the field position, as in new ObjectState({ epoch: 0, position: 0 }); it is ${describe(position)}`,
    );
  }
}

export interface DealParts<T> {
  world(): World;
  /** An element that this rank does not use. */
  discard(element: T): void;
}

/** Reads `elements` to their end, or closes them. */
export async function* dealt<T>(
  elements: Pick<AsyncIterator<T>, 'next' | 'return'>,
  state: StreamState,
  { world, discard }: DealParts<T>,
): AsyncGenerator<T, void, undefined> {
  const { rank, size, membership } = world();
  let isOver = false;
  const next = async (): Promise<IteratorResult<T>> => {
    const result = await elements.next();
    isOver = result.done === true;
    return result;
  };
  try {
    for (let skipped = 0; skipped < state.position && !isOver; skipped++) {
      const { value, done } = await next();
      if (done !== true) discard(value);
    }
    for (let position = state.position; !isOver; ) {
      const window: T[] = [];
      while (window.length < size && !isOver) {
        const { value, done } = await next();
        if (done !== true) window.push(value);
      }
      if (world().membership !== membership || state.position !== position) {
        for (const element of window) discard(element);
        throw new HorovodError(
          'ERR_HVD_STALE',
          'this stream is of an earlier membership or place in the data. Call elastic.resume() again; inside elastic.run() the ' +
            'training function does when it is called again.',
        );
      }
      const isWhole = window.length === size;
      for (const [place, element] of window.entries()) if (!isWhole || place !== rank) discard(element);
      if (!isWhole) break;
      position += size;
      state.position = position;
      yield window[rank] as T;
    }
    state.position = 0;
  } finally {
    if (!isOver) await elements.return?.();
  }
}

function isIterable<T>(value: unknown): value is Iterable<T> | AsyncIterable<T> {
  if (typeof value !== 'object' || value === null) return false;
  return Symbol.asyncIterator in value || Symbol.iterator in value;
}

function iteratorOf<T>(stream: Iterable<T> | AsyncIterable<T>): Pick<AsyncIterator<T>, 'next' | 'return'> {
  if (Symbol.asyncIterator in stream) return stream[Symbol.asyncIterator]();
  const iterator = stream[Symbol.iterator]();
  return {
    next: async () => iterator.next(),
    return: async () => iterator.return?.() ?? { done: true, value: undefined },
  };
}
