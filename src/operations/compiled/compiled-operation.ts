// A compiled operation: what the ranks agreed on when a collective was called like this before, ready for the next call. It
// has the fingerprint, the numbers for the transport and what observers see. A call checks that its arguments fit and
// hands over nothing but its arrays. It keeps no array of the user.

import type { Channel } from '../../engine/channel.ts';
import { fingerprintBeforeKey, fingerprintOf } from '../../engine/description.ts';
import type { Fingerprint } from '../../engine/fingerprint.ts';
import { ObservedOperation } from '../../engine/observer.ts';
import { type DType, dtypes, type TypedArray, type TypedArrayConstructor } from '../../tensor/dtype.ts';
import type { ReduceOp } from '../../tensor/reduce-op.ts';
import { bytesOf, elementsIn, type Tensor, type TensorLike } from '../../tensor/tensor.ts';
import {
  type QuickArrays,
  type QuickOperation,
  type QuickPath,
  smallBytes,
  type TransportOperation,
} from '../../transport/transport.ts';
import { describePlan, type Plan } from '../plan.ts';

/** The arguments of a call besides its tensors and its key, as the ranks must agree on them. */
export interface CallDetails {
  readonly op: ReduceOp | undefined;
  readonly prescale: number;
  readonly postscale: number;
  readonly root: number | undefined;
  /** Of an alltoall. */
  readonly splits: readonly number[] | Int32Array | undefined;
}

/** One tensor as it was given. */
class TensorForm {
  readonly #array: TypedArrayConstructor;
  readonly elements: number;
  /** Undefined: a bare array. */
  readonly shape: readonly number[] | undefined;
  readonly dtype: DType;

  constructor(x: TensorLike, dtype: DType) {
    const data = dataOf(x);
    this.#array = data.constructor as TypedArrayConstructor;
    this.elements = data.length;
    this.shape = ArrayBuffer.isView(x) ? undefined : [...x.shape];
    this.dtype = dtype;
  }

  fits(x: TensorLike): boolean {
    const { shape } = this;
    if (shape === undefined)
      return ArrayBuffer.isView(x) && x.constructor === this.#array && x.length === this.elements;
    if (typeof x !== 'object' || x === null || ArrayBuffer.isView(x) || x.dtype !== this.dtype) return false;
    const { data } = x;
    if (!ArrayBuffer.isView(data) || data.constructor !== this.#array || data.length !== this.elements)
      return false;
    return Array.isArray(x.shape) && isSameList(shape, x.shape);
  }

  /** New memory of the same array type. */
  make(elements: number): TypedArray {
    // V8 makes arrays faster where it knows of which class they are.
    if (this.#array === (Float32Array as unknown)) return new Float32Array(elements);
    return this.#array === (Buffer as unknown) ? Buffer.alloc(elements) : new this.#array(elements);
  }

  view(memory: ArrayBufferLike, at: number, elements: number): TypedArray {
    if (this.#array === (Buffer as unknown)) return Buffer.from(memory, at, elements);
    return new this.#array(memory, at, elements);
  }

  get bytesPerElement(): number {
    return this.#array.BYTES_PER_ELEMENT;
  }
}

/** Serialized objects. */
const bytesForm = new TensorForm(new Uint8Array(0), 'uint8');

export function dataOf(x: TensorLike): TypedArray {
  return ArrayBuffer.isView(x) ? (x as TypedArray) : x.data;
}

export class CompiledOperation {
  readonly channel: Channel;
  readonly quick: QuickPath;
  readonly name: string | undefined;
  /** For the transport. */
  readonly operation: QuickOperation;
  /** For observers; the same object for every call. */
  readonly observed: ObservedOperation;
  /** The fingerprint; without a name, what comes before the number of the call. */
  readonly fingerprint: Fingerprint;
  readonly tensors: readonly TensorForm[];
  readonly isGrouped: boolean;
  readonly kind: TransportOperation['kind'];
  /** Of an allgather or alltoall that of the last call: the next result probably has the same. */
  resultElements: number;
  /** Of results. */
  readonly #form: TensorForm;
  /** The shape but for its first dimension. */
  readonly #restOfShape: readonly number[];
  readonly #details: CallDetails;
  readonly #splits: readonly number[] | undefined;
  /** Without arrays. */
  readonly #plan: Plan<void>;
  readonly #template: TransportOperation;
  /** Where a small result arrives; see QuickPath.small. */
  #small: TypedArray | undefined;

  /** `plan` is that of a call of `xs`: one operation, and no composite. */
  constructor(
    plan: Plan<unknown>,
    xs: readonly TensorLike[],
    details: CallDetails,
    {
      channel,
      quick,
      name,
      processSet,
    }: { channel: Channel; quick: QuickPath; name: string | undefined; processSet: number },
  ) {
    const [operation] = plan.operations as [TransportOperation];
    const { operands, composite: _none, ...rest } = plan;
    this.channel = channel;
    this.quick = quick;
    this.name = name;
    this.operation = quick.compile(operation);
    this.kind = operation.kind;
    this.isGrouped = plan.isGrouped === true;
    this.tensors = xs.map(
      (x, i) => new TensorForm(x, (operands[i] as Plan<unknown>['operands'][number]).dtype),
    );
    this.#form = this.tensors[0] ?? bytesForm;
    const forms = operands.map(({ shape, dtype }) => ({ shape: [...shape], dtype }));
    this.#plan = { ...rest, operands: forms, operations: [], result: () => undefined };
    this.#template = withArrays(operation, undefined, undefined);
    this.#details = { ...details, splits: undefined };
    this.#splits = details.splits === undefined ? undefined : [...details.splits];
    const description = describePlan(this.#plan, name ?? '');
    const codes = forms.map(({ dtype }) => dtypes[dtype].code);
    const describe = name === undefined ? fingerprintBeforeKey : fingerprintOf;
    this.fingerprint = describe(description, plan.op?.code ?? -1, codes);
    const observed = ObservedOperation.of(description, processSet);
    this.observed = observed;
    if (forms.length === 1 && !this.isGrouped) {
      observed.shapes = undefined;
      observed.shape = (forms[0] as (typeof forms)[0]).shape;
    }
    this.#restOfShape = forms[0]?.shape.slice(1) ?? [];
    this.resultElements = resultElementsOf(operation, this.tensors[0]?.elements ?? 0, channel.group);
  }

  fits(name: string | undefined, details: CallDetails): boolean {
    const mine = this.#details;
    return (
      this.name === name &&
      mine.op === details.op &&
      mine.prescale === details.prescale &&
      mine.postscale === details.postscale &&
      mine.root === details.root &&
      (details.splits === undefined
        ? this.#splits === undefined
        : this.#splits !== undefined &&
          Object(details.splits) === details.splits &&
          isSameList(this.#splits, details.splits))
    );
  }

  fitsTensor(x: TensorLike): boolean {
    return this.#form.fits(x);
  }

  fitsGroup(xs: readonly TensorLike[]): boolean {
    const { tensors } = this;
    if (xs.length !== tensors.length) return false;
    for (let i = 0; i < tensors.length; i++)
      if (!(tensors[i] as TensorForm).fits(xs[i] as TensorLike)) return false;
    return true;
  }

  /** Whether the next result will fit into QuickPath.small. */
  get isSmall(): boolean {
    return this.resultElements * this.#form.bytesPerElement <= smallBytes;
  }

  makeResult(): TypedArray {
    return this.#form.make(this.resultElements);
  }

  /** The same for a group. */
  makeResults(): TypedArray[] {
    const { tensors } = this;
    const made = new Array<TypedArray>(tensors.length);
    for (let i = 0; i < tensors.length; i++) {
      const form = tensors[i] as TensorForm;
      made[i] = form.make(form.elements);
    }
    return made;
  }

  /** Copies a small result from where it arrived. */
  takeSmall(into: TypedArray): void {
    const { quick } = this;
    let small = this.#small;
    // A group that switches between hierarchies has several such places.
    if (small === undefined || small.buffer !== quick.small || small.length !== into.length) {
      small = this.#form.view(quick.small, quick.smallAt, into.length);
      this.#small = small;
    }
    (into as Float32Array).set(small as Float32Array);
  }

  /** The result of an allgather or alltoall that came in memory of its own. */
  adoptResult(memory: ArrayBufferLike, at: number, bytes: number): TypedArray {
    const form = this.#form;
    this.resultElements = bytes / form.bytesPerElement;
    return form.view(memory, at, this.resultElements);
  }

  /** What the caller of a collective on one tensor gets: in the form that was given. */
  wrap(x: TensorLike, data: TypedArray): TensorLike {
    const { shape, dtype } = this.#form;
    if (shape === undefined) return data;
    switch (this.kind) {
      case 'allreduce':
      case 'broadcast':
        return { data, shape: (x as Tensor).shape, dtype };
      default: {
        const rest = this.#restOfShape;
        const perRow = elementsIn(rest);
        return { data, shape: [perRow === 0 ? 0 : data.length / perRow, ...rest], dtype };
      }
    }
  }

  wrapAll(xs: readonly TensorLike[], data: readonly TypedArray[]): TensorLike[] {
    const wrapped = data as TensorLike[];
    for (let i = 0; i < wrapped.length; i++) {
      const { shape, dtype } = this.tensors[i] as TensorForm;
      if (shape !== undefined) {
        wrapped[i] = { data: data[i] as TypedArray, shape: (xs[i] as Tensor).shape, dtype };
      }
    }
    return wrapped;
  }

  /** Rows that came from each member of an alltoall. */
  rowsOf(receivedBytes: ArrayLike<number>): Int32Array {
    const rowBytes = elementsIn(this.#restOfShape) * this.#form.bytesPerElement;
    const rows = new Int32Array(this.channel.group.size);
    for (let i = 0; i < rows.length; i++) rows[i] = (receivedBytes[i] as number) / rowBytes;
    return rows;
  }

  /** The plan of a call that takes the common way after all, with its transport's operation. */
  planOf(input: QuickArrays, output: QuickArrays): { plan: Plan<void>; operation: TransportOperation } {
    const operation = withArrays(this.#template, input, output);
    return { plan: { ...this.#plan, operations: [operation] }, operation };
  }
}

/** Whether a call of `xs` with this plan can be compiled. */
export function isCompilable(
  { composite, operations, onKey }: Plan<unknown>,
  xs: readonly TensorLike[],
): boolean {
  const [operation] = operations;
  if (composite !== undefined || onKey !== undefined || operation === undefined || operations.length > 1)
    return false;
  // Splits may leave out the last rows.
  if (operation.kind === 'alltoall' && operation.input.byteLength !== dataOf(xs[0] as TensorLike).byteLength)
    return false;
  // A detached array looks empty.
  return xs.every((x) => dataOf(x).length > 0);
}

const noArray = new Uint8Array(0);

function withArrays(
  operation: TransportOperation,
  input: QuickArrays,
  output: QuickArrays,
): TransportOperation {
  const one = (arrays: QuickArrays) => (arrays as TypedArray | undefined) ?? noArray;
  const list = (arrays: QuickArrays): readonly TypedArray[] =>
    arrays === undefined
      ? []
      : ArrayBuffer.isView(arrays)
        ? [arrays as TypedArray]
        : (arrays as readonly TypedArray[]);
  switch (operation.kind) {
    case 'allreduce':
      return { ...operation, inputs: list(input), outputs: list(output) };
    case 'reducescatter':
      return { ...operation, input: one(input), output: one(output) };
    case 'broadcast':
      return { ...operation, input: bytesOf(one(input)), output: bytesOf(one(output)) };
    case 'allgather':
      return { kind: 'allgather', input: bytesOf(one(input)) };
    case 'alltoall':
      return { kind: 'alltoall', sendBytes: operation.sendBytes, input: bytesOf(one(input)) };
    case 'barrier':
      return operation;
  }
}

function resultElementsOf(
  operation: TransportOperation,
  elements: number,
  { size, index }: { readonly size: number; readonly index: number },
): number {
  if (operation.kind === 'reducescatter') return operation.counts[index] as number;
  return operation.kind === 'allgather' ? elements * size : elements;
}

function isSameList(a: readonly number[], b: ArrayLike<number>): boolean {
  if (a.length !== b.length) return false;
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return false;
  return true;
}
