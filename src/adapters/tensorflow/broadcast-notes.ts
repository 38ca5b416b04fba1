// What is known about variables that were broadcast: how often, and whether a broadcast of them is still running.

import type * as tf from '@tensorflow/tfjs';
import { HorovodError } from '../../errors.ts';
import type { ProcessSet } from '../../operations/process-set.ts';
import type { BothForms } from '../both-forms.ts';
import { currentContext } from '../context.ts';
import { broadcastEnded } from '../divergence/divergence-guard.ts';

interface Note {
  /** Broadcasts that have ended. */
  done: number;
  running: number;
}

const notes = new WeakMap<tf.Variable, Note>();

/** Runs a broadcast of these variables among the ranks of the set. */
export function* noteBroadcast(
  variables: readonly tf.Variable[],
  processSet: ProcessSet | undefined,
  broadcast: BothForms<void>,
): BothForms<void> {
  const found = variables.map((variable) => {
    const note = notes.get(variable) ?? { done: 0, running: 0 };
    notes.set(variable, note);
    return note;
  });
  for (const note of found) note.running++;
  try {
    yield* broadcast;
    for (const note of found) note.done++;
    broadcastEnded(currentContext(), processSet);
  } finally {
    for (const note of found) note.running--;
  }
}

/** How many broadcasts these variables have had, all together. */
export function broadcastsOf(variables: readonly tf.Variable[]): number {
  return variables.reduce((sum, variable) => sum + (notes.get(variable)?.done ?? 0), 0);
}

/** A step in the middle of a broadcast would be overwritten on some ranks and kept on others. */
export function checkNotBroadcasting(variables: readonly tf.Variable[], what: string): void {
  const variable = variables.find((each) => (notes.get(each)?.running ?? 0) > 0);
  if (variable === undefined) return;
  throw new HorovodError(
    'ERR_HVD_INVALID_ARGUMENT',
    `${what}: broadcastVariables() of "${variable.name}" has not ended. Write \`await hvd.broadcastVariables(…)\` before the first ` +
      'training step.',
    { tensor: variable.name },
  );
}
