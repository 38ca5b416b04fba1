// A field of a state that is more than a value: an object that keeps its identity, and whose place in its work is saved instead. A
// sampler is one, and a dataset.

export interface Resumable<P> {
  /** Where it is, as a value that structuredClone() takes. Not collective. */
  place(): P;
  /** Collective, before each commit: ranks tell each other what place() has to know of all of them. */
  agree?(): void;
  /** On the rank whose place the others take over: finds out what it needs for that. */
  prepare?(): Promise<void>;
  /** Goes there. */
  resumeAt(place: P): void;
}

const resumables = new WeakMap<object, Resumable<unknown>>();

export function becomeResumable<P>(object: object, resumable: Resumable<P>): void {
  resumables.set(object, resumable as Resumable<unknown>);
}

/** Undefined for plain values. */
export function resumableOf(value: unknown): Resumable<unknown> | undefined {
  return typeof value === 'object' && value !== null ? resumables.get(value) : undefined;
}
