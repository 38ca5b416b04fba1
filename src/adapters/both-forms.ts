// Code that waits for other ranks, written once for the blocking and the promise form of a function. It is a generator that
// yields each wait in two forms; runSync() and run() drive it.

export interface Wait {
  blocking(): unknown;
  later(): Promise<unknown>;
}

/** What such a generator returns; R is the result of the function. */
export type BothForms<R> = Generator<Wait, R, unknown>;

/** Inside of such a generator: `const y = yield* wait(() => allreduceSync(x), () => allreduce(x))`. */
export function* wait<T>(blocking: () => T, later: () => Promise<T>): BothForms<T> {
  return (yield { blocking, later }) as T;
}

export function runSync<R>(steps: BothForms<R>): R {
  let next = steps.next();
  while (next.done !== true) next = settle(steps, next.value.blocking);
  return next.value;
}

/** The first wait begins before this returns: calls reach other ranks in the order in which they were made. */
export async function run<R>(steps: BothForms<R>): Promise<R> {
  let next = steps.next();
  while (next.done !== true) {
    const outcome = await next.value.later().then(
      (value) => () => value,
      (error: unknown) => () => {
        throw error;
      },
    );
    next = settle(steps, outcome);
  }
  return next.value;
}

function settle<R>(steps: BothForms<R>, outcome: () => unknown): IteratorResult<Wait, R> {
  let value: unknown;
  try {
    value = outcome();
  } catch (error) {
    return steps.throw(error);
  }
  return steps.next(value);
}
