// ObjectState: a state of plain values, for every framework or none. Its fields are properties: state.epoch, state.batch …

import { HorovodError } from '../errors.ts';
import { describe } from '../tensor/tensor.ts';
import { ArrayPart, isTypedArray } from './array-part.ts';
import { checkField, FieldsPart } from './fields-part.ts';
import type { StatePart } from './runner.ts';
import { State } from './state.ts';

/**
 * A state of numbers, texts, lists, plain objects, typed arrays and samplers. Each commit keeps a copy of them. Fields become
 * properties of the state.
 */
export type ObjectState<F extends object> = State & F;
export const ObjectState: new <F extends object>(fields: F) => ObjectState<F> =
  class ObjectState extends State {
    readonly #parts: readonly StatePart[];

    constructor(fields: object) {
      super();
      this.#parts = partsOfFields(this, fields, 'ObjectState');
    }

    protected override parts(): readonly StatePart[] {
      return this.#parts;
    }
  } as unknown as new <F extends object>(
    fields: F,
  ) => ObjectState<F>;

/** Gives the state these fields as properties, and returns the parts that keep them. `what`: the class, for errors. */
export function partsOfFields(state: State, fields: object, what: string): StatePart[] {
  if (typeof fields !== 'object' || fields === null || Array.isArray(fields)) {
    throw new HorovodError(
      'ERR_HVD_INVALID_ARGUMENT',
      `${what} takes an object of fields, such as { epoch: 0, batch: 0 }, not ${describe(fields)}.`,
    );
  }
  const names = Object.keys(fields);
  const taken = names.find((name) => name in state);
  if (taken !== undefined) {
    throw new HorovodError(
      'ERR_HVD_INVALID_ARGUMENT',
      `${what}: a field cannot be called ${taken}: every state has a member of this name.`,
    );
  }
  Object.assign(state, fields);
  const values = fields as Record<string, unknown>;
  const isArray = (name: string) => isTypedArray(values[name]);
  const plain = names.filter((name) => !isArray(name));
  for (const name of plain) checkField(name, values[name], what);
  // Fields first: saving one can fail, and then nothing has been saved.
  return [new FieldsPart(state, plain), new ArrayPart(state, names.filter(isArray))];
}
