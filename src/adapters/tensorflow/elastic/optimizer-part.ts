// An optimizer as a part of a state: its accumulators by reference (reference.ts), its single variables, its numbers, and which
// accumulators there were. Accumulators appear with the first step that needs them; going back to before removes them. What a lossy
// compressor has not sent yet of its gradients belongs to it (optimizer/error-feedback.ts).

import { createHash } from 'node:crypto';
import * as tf from '@tensorflow/tfjs';
import type { StatePart, SyncPlan } from '../../../elastic/runner.ts';
import { bytesOf } from '../../../tensor/tensor.ts';
import { type Accumulators, accumulatorsOf, type Fields, type OptimizerVariable } from '../accumulators.ts';
import { stepperOf } from '../optimizer/distributed-optimizer.ts';
import { errorFeedbackOf } from '../optimizer/error-feedback.ts';
import type { Stepper } from '../optimizer/steppers/stepper.ts';
import {
  applyNumbers,
  broadcastOptimizerState,
  numberFields,
  numbersOf,
  variableWith,
} from '../optimizer-state.ts';
import { readTensor } from '../tensor-access.ts';
import { assignAndDispose } from '../tensor-operands.ts';
import { numbersFrom, OptimizerFields } from './optimizer-fields.ts';
import { References } from './reference.ts';

/** A commit. Its lists are filled again by the next one in the same slot. */
class Kept {
  /** Of accumulators, then of single variables. */
  readonly references = new References();
  readonly numbers = new Float64Array(numberFields.length);
  /** All lists one after the other; undefined for gaps. */
  readonly entries: (OptimizerVariable | undefined)[] = [];
  /** Where each list ends in `entries`. */
  readonly ends: number[] = [];
  lists: readonly string[] = [];
  singles: readonly string[] = [];
}

export class OptimizerPart implements StatePart {
  readonly hasSlots = true;
  protected readonly optimizer: tf.Optimizer;
  protected readonly variables: readonly tf.Variable[];
  readonly #stepper: Stepper | undefined;
  readonly #fields: OptimizerFields;
  /** By slot. */
  readonly #kept: Kept[] = [];

  /** `variables`: of the state, in the same order on all ranks. */
  constructor(optimizer: tf.Optimizer, variables: readonly tf.Variable[]) {
    this.optimizer = optimizer;
    this.variables = variables;
    this.#stepper = stepperOf(optimizer);
    this.#fields = new OptimizerFields(optimizer);
  }

  canSave(): boolean {
    return this.#stepper?.isBetweenSteps ?? true;
  }

  save(slot = 0): void {
    const kept = this.#kept[slot] ?? new Kept();
    this.#kept[slot] = kept;
    const fields = this.#fields;
    const { references, entries, ends } = kept;
    kept.lists = fields.lists();
    kept.singles = fields.singles;
    ends.length = kept.lists.length;
    let place = 0;
    for (let k = 0; k < kept.lists.length; k++) {
      const list = fields.list(kept.lists[k] as string);
      for (let i = 0; i < list.length; i++) {
        const entry = list[i] ?? undefined;
        entries[place] = entry;
        if (entry === undefined) references.clear(place);
        else references.set(place, entry.variable);
        place++;
      }
      ends[k] = place;
    }
    entries.length = place;
    for (const field of kept.singles) references.set(place++, fields.single(field));
    references.cut(place);
    fields.readNumbers(kept.numbers);
    errorFeedbackOf(this.optimizer)?.save(slot);
  }

  restore(slot = 0): void {
    const kept = this.#kept[slot];
    if (kept === undefined) return;
    const fields = this.optimizer as unknown as Fields;
    const { entries, ends } = kept;
    kept.lists.forEach((field, k) => {
      const begin = k === 0 ? 0 : (ends[k - 1] as number);
      restoreList(fields, field, entries.slice(begin, ends[k]), (i) => ({
        references: kept.references,
        place: begin + i,
      }));
    });
    kept.singles.forEach((field, k) => {
      restoreSingle(fields, field, kept.references, entries.length + k);
    });
    applyNumbers(this.optimizer, numbersFrom(kept.numbers));
    this.abandonStep();
    errorFeedbackOf(this.optimizer)?.goBack(slot);
  }

  forget(slot: number): void {
    this.#kept[slot]?.references.cut(0);
    delete this.#kept[slot];
    errorFeedbackOf(this.optimizer)?.forget(slot);
  }

  /** Drops the sums of a step that some ranks have no part of. */
  protected abandonStep(): void {
    this.#stepper?.abandonStep();
  }

  async sync(root: number, { lacking, isNewcomer }: SyncPlan): Promise<void> {
    this.abandonStep();
    await errorFeedbackOf(this.optimizer)?.sync(root, lacking, this.variables);
    if (lacking.length === 0) return;
    const own = isNewcomer ? [] : this.#localEntries();
    const references = new References();
    own.forEach(({ variable }, i) => {
      references.set(i, variable);
    });
    try {
      await broadcastOptimizerState(this.optimizer, root);
      const fields = this.optimizer as unknown as Fields;
      own.forEach(({ field, place }, i) => {
        const entry = (fields[field] as Accumulators)[place];
        if (entry != null) assignAndDispose(entry.variable, references.tensor(i));
      });
    } finally {
      references.cut(0);
    }
  }

  digest(): string {
    const hash = createHash('sha256').update(JSON.stringify(numbersOf(this.optimizer)));
    const locals = this.#localNames();
    for (const [field, list] of accumulatorsOf(this.optimizer)) {
      for (const entry of list) {
        if (entry != null && !isOfAny(entry, locals))
          hash.update(field).update(bytesOf(readTensor(entry.variable)));
      }
    }
    for (const [field, value] of Object.entries(this.optimizer as unknown as Fields)) {
      if (value instanceof tf.Variable) hash.update(field).update(bytesOf(readTensor(value)));
    }
    hash.update(errorFeedbackOf(this.optimizer)?.digest(this.variables) ?? '');
    return hash.digest('hex');
  }

  /** Accumulators of local variables, which are this rank's own. */
  #localEntries(): { field: string; place: number; variable: tf.Variable }[] {
    const locals = this.#localNames();
    if (locals.length === 0) return [];
    return accumulatorsOf(this.optimizer).flatMap(([field, list]) =>
      Array.from(list).flatMap((entry, place) =>
        entry != null && isOfAny(entry, locals) ? [{ field, place, variable: entry.variable }] : [],
      ),
    );
  }

  #localNames(): string[] {
    return [...(this.#stepper?.localVariables() ?? [])].map(({ name }) => name);
  }
}

/** TensorFlow.js names an accumulator after its variable: "kernel/m". */
function isOfAny({ originalName }: OptimizerVariable, names: readonly string[]): boolean {
  return names.some((name) => originalName.startsWith(`${name}/`));
}

function restoreList(
  fields: Fields,
  field: string,
  entries: readonly (OptimizerVariable | undefined)[],
  referenceOf: (i: number) => { references: References; place: number },
): void {
  const now = fields[field] as Accumulators;
  const wanted = new Set(entries);
  for (const entry of now) if (entry != null && !wanted.has(entry)) entry.variable.dispose();
  fields[field] = entries.map((entry, i) => {
    if (entry === undefined) return undefined;
    const { references, place } = referenceOf(i);
    const { originalName, variable } = entry;
    if (variable.isDisposed) return { originalName, variable: variableWith(references.tensor(place)) };
    if (!references.isOf(place, variable)) assignAndDispose(variable, references.tensor(place));
    return entry;
  });
}

function restoreSingle(fields: Fields, field: string, references: References, place: number): void {
  const variable = fields[field];
  if (!(variable instanceof tf.Variable) || variable.isDisposed)
    fields[field] = variableWith(references.tensor(place));
  else if (!references.isOf(place, variable)) assignAndDispose(variable, references.tensor(place));
}
