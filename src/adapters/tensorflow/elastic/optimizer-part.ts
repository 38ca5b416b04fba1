// An optimizer as a part of a state: its accumulators by reference (reference.ts), its single variables, its numbers, and which
// accumulators there were. Accumulators appear with the first step that needs them; going back to before removes them.

import { createHash } from 'node:crypto';
import * as tf from '@tensorflow/tfjs';
import type { StatePart, SyncPlan } from '../../../elastic/runner.ts';
import { bytesOf } from '../../../tensor/tensor.ts';
import { type Accumulators, accumulatorsOf, type Fields, type OptimizerVariable } from '../accumulators.ts';
import { stepperOf } from '../optimizer/distributed-optimizer.ts';
import { errorFeedbackOf } from '../optimizer/error-feedback.ts';
import { applyNumbers, broadcastOptimizerState, numbersOf, variableWith } from '../optimizer-state.ts';
import { readTensor } from '../tensor-access.ts';
import { assignAndDispose } from '../tensor-operands.ts';
import { Reference } from './reference.ts';

interface KeptEntry {
  readonly entry: OptimizerVariable;
  readonly reference: Reference;
}

interface Kept {
  readonly lists: readonly { readonly field: string; readonly entries: readonly (KeptEntry | undefined)[] }[];
  readonly singles: readonly { readonly field: string; readonly reference: Reference }[];
  readonly numbers: Readonly<Record<string, number>>;
}

export class OptimizerPart implements StatePart {
  readonly #optimizer: tf.Optimizer;
  #kept: Kept | undefined;

  constructor(optimizer: tf.Optimizer) {
    this.#optimizer = optimizer;
  }

  canSave(): boolean {
    return stepperOf(this.#optimizer)?.isBetweenSteps ?? true;
  }

  save(): void {
    const before = this.#kept;
    this.#kept = keptOf(this.#optimizer);
    if (before !== undefined) release(before);
    errorFeedbackOf(this.#optimizer)?.save();
  }

  restore(): void {
    const kept = this.#kept;
    if (kept === undefined) return;
    const fields = this.#optimizer as unknown as Fields;
    for (const { field, entries } of kept.lists) restoreList(fields, field, entries);
    for (const { field, reference } of kept.singles) restoreSingle(fields, field, reference);
    applyNumbers(this.#optimizer, kept.numbers);
    stepperOf(this.#optimizer)?.abandonStep();
    errorFeedbackOf(this.#optimizer)?.goBack();
  }

  async sync(root: number, { lacking, isNewcomer }: SyncPlan): Promise<void> {
    // Sums of a step that some ranks have no part of.
    stepperOf(this.#optimizer)?.abandonStep();
    if (lacking.length === 0) return;
    const own = isNewcomer ? [] : this.#localEntries();
    try {
      await broadcastOptimizerState(this.#optimizer, root);
      const fields = this.#optimizer as unknown as Fields;
      for (const { field, place, reference } of own) {
        const entry = (fields[field] as Accumulators)[place];
        if (entry != null) assignAndDispose(entry.variable, reference.tensor());
      }
    } finally {
      for (const { reference } of own) reference.release();
    }
  }

  digest(): string {
    const hash = createHash('sha256').update(JSON.stringify(numbersOf(this.#optimizer)));
    const locals = this.#localNames();
    for (const [field, list] of accumulatorsOf(this.#optimizer)) {
      for (const entry of list) {
        if (entry != null && !isOfAny(entry, locals))
          hash.update(field).update(bytesOf(readTensor(entry.variable)));
      }
    }
    return hash.digest('hex');
  }

  /** Accumulators of local variables, which are this rank's own. */
  #localEntries(): { field: string; place: number; reference: Reference }[] {
    const locals = this.#localNames();
    if (locals.length === 0) return [];
    return accumulatorsOf(this.#optimizer).flatMap(([field, list]) =>
      Array.from(list).flatMap((entry, place) =>
        entry != null && isOfAny(entry, locals)
          ? [{ field, place, reference: new Reference(entry.variable) }]
          : [],
      ),
    );
  }

  #localNames(): string[] {
    const locals = stepperOf(this.#optimizer)?.localVariables() ?? new Set();
    return [...locals].map(({ name }) => name);
  }
}

/** TensorFlow.js names an accumulator after its variable: "kernel/m". */
function isOfAny({ originalName }: OptimizerVariable, names: readonly string[]): boolean {
  return names.some((name) => originalName.startsWith(`${name}/`));
}

function keptOf(optimizer: tf.Optimizer): Kept {
  const lists = accumulatorsOf(optimizer).map(([field, list]) => ({
    field,
    entries: Array.from(list, (entry) =>
      entry == null ? undefined : { entry, reference: new Reference(entry.variable) },
    ),
  }));
  const singles = Object.entries(optimizer as unknown as Fields).flatMap(([field, value]) =>
    value instanceof tf.Variable ? [{ field, reference: new Reference(value) }] : [],
  );
  return { lists, singles, numbers: numbersOf(optimizer) };
}

function release({ lists, singles }: Kept): void {
  for (const { entries } of lists) for (const kept of entries) kept?.reference.release();
  for (const { reference } of singles) reference.release();
}

function restoreList(fields: Fields, field: string, entries: readonly (KeptEntry | undefined)[]): void {
  const now = fields[field] as Accumulators;
  const wanted = new Set(entries.map((kept) => kept?.entry));
  for (const entry of now) if (entry != null && !wanted.has(entry)) entry.variable.dispose();
  fields[field] = entries.map((kept) => {
    if (kept === undefined) return undefined;
    const { entry, reference } = kept;
    const { originalName, variable } = entry;
    if (variable.isDisposed) return { originalName, variable: variableWith(reference.tensor()) };
    if (!reference.isOf(variable)) assignAndDispose(variable, reference.tensor());
    return entry;
  });
}

function restoreSingle(fields: Fields, field: string, reference: Reference): void {
  const variable = fields[field];
  if (!(variable instanceof tf.Variable) || variable.isDisposed)
    fields[field] = variableWith(reference.tensor());
  else if (!reference.isOf(variable)) assignAndDispose(variable, reference.tensor());
}
