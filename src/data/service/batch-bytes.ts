// Batches as bytes: what a batch is made of (columns, dtypes, shapes) is JSON beside it, and its values are one payload, in which
// each column begins at a multiple of 8 bytes. Reading it copies nothing: the columns are views of the payload.

import { HorovodError } from '../../errors.ts';
import { ProtocolError } from '../../net/frames.ts';
import { type DType, dtypes, type TypedArrayConstructor } from '../../tensor/dtype.ts';
import { elementsIn } from '../../tensor/tensor.ts';
import { isTensor } from '../execute/stack.ts';
import type { Json } from '../plan/function-reference.ts';

/** How a value lies in the payload. */
export type ValueLayout =
  | { readonly t: 'tensor'; readonly dtype: DType; readonly shape: readonly number[]; readonly at: number }
  | { readonly t: 'bytes'; readonly at: number; readonly length: number }
  /** A list of byte strings: their lengths as 32-bit numbers, then their bytes. */
  | { readonly t: 'strings'; readonly at: number; readonly count: number; readonly length: number }
  | { readonly t: 'array'; readonly kind: string; readonly at: number; readonly length: number }
  | { readonly t: 'list'; readonly items: readonly ValueLayout[] }
  | { readonly t: 'record'; readonly names: readonly string[]; readonly items: readonly ValueLayout[] }
  /** Beyond JSON: as text. */
  | { readonly t: 'number' | 'bigint'; readonly text: string }
  | { readonly t: 'json'; readonly value: Json };

const alignment = 8;
const arrayKinds: Readonly<Record<string, TypedArrayConstructor | BigInt64ArrayConstructor>> = {
  Int8Array,
  Uint8ClampedArray,
  Int16Array,
  Uint16Array,
  Int32Array,
  Uint32Array,
  Float32Array,
  Float64Array,
  BigInt64Array,
  BigUint64Array,
} as never;

export function encodeValue(value: unknown): { value: ValueLayout; payload: Uint8Array[] } {
  const payload: Uint8Array[] = [];
  let end = 0;
  const add = (view: ArrayBufferView): number => {
    const gap = (alignment - (end % alignment)) % alignment;
    if (gap > 0) payload.push(new Uint8Array(gap));
    const at = end + gap;
    payload.push(new Uint8Array(view.buffer, view.byteOffset, view.byteLength));
    end = at + view.byteLength;
    return at;
  };
  const encode = (each: unknown): ValueLayout => {
    if (isTensor(each))
      return { t: 'tensor', dtype: each.dtype, shape: each.shape, at: add(each.data as ArrayBufferView) };
    if (each instanceof Uint8Array) return { t: 'bytes', at: add(each), length: each.length };
    if (ArrayBuffer.isView(each)) {
      const kind = each.constructor.name;
      if (arrayKinds[kind] === undefined) throw cannotSend(`a ${kind}`);
      return { t: 'array', kind, at: add(each), length: (each as Int8Array).length };
    }
    if (Array.isArray(each)) {
      if (each.length > 0 && each.every((item) => item instanceof Uint8Array)) {
        const strings = each as Uint8Array[];
        const at = add(Uint32Array.from(strings, ({ length }) => length));
        const joined = Buffer.concat(strings);
        payload.push(joined);
        end += joined.length;
        return { t: 'strings', at, count: strings.length, length: joined.length };
      }
      return { t: 'list', items: each.map(encode) };
    }
    switch (typeof each) {
      case 'number':
        return Number.isFinite(each) && !Object.is(each, -0)
          ? { t: 'json', value: each }
          : { t: 'number', text: Object.is(each, -0) ? '-0' : String(each) };
      case 'bigint':
        return { t: 'bigint', text: String(each) };
      case 'string':
      case 'boolean':
        return { t: 'json', value: each };
      case 'object': {
        if (each === null) return { t: 'json', value: null };
        const entries = Object.entries(each);
        return {
          t: 'record',
          names: entries.map(([name]) => name),
          items: entries.map(([, item]) => encode(item)),
        };
      }
      default:
        throw cannotSend(`a value of the type ${typeof each}`);
    }
  };
  return { value: encode(value), payload };
}

/**
 * Throws a ProtocolError where layout and payload do not fit: nothing outside the payload is ever read. Values are views of the payload,
 * but for those of up to `copiedBytes`, which get memory of their own.
 */
export function decodeValue(layout: ValueLayout, payload: Uint8Array, copiedBytes = 0): unknown {
  const { buffer } = payload;
  const own = <A extends ArrayBufferView & { slice(): A }>(view: A): A =>
    view.byteLength <= copiedBytes ? view.slice() : view;
  /** In the buffer. */
  const place = (at: number) => payload.byteOffset + at;
  const check = (at: number, bytes: number) => {
    const isRight = Number.isSafeInteger(at) && Number.isSafeInteger(bytes) && at >= 0 && bytes >= 0;
    if (!isRight || at + bytes > payload.byteLength)
      throw new ProtocolError('a batch whose values lie outside its bytes');
  };
  switch (layout.t) {
    case 'tensor': {
      const { dtype, shape, at } = layout;
      const known = dtypes[dtype];
      const isShape = Array.isArray(shape) && shape.every((each) => Number.isSafeInteger(each) && each >= 0);
      if (known === undefined || !isShape || at % alignment !== 0)
        throw new ProtocolError('a batch with a tensor that is none');
      const elements = elementsIn(shape);
      check(at, elements * known.bytes);
      const data = new (known.arrays[0] as TypedArrayConstructor)(buffer as ArrayBuffer, place(at), elements);
      return { data: own(data as Uint8Array), shape: [...shape], dtype };
    }
    case 'bytes':
      check(layout.at, layout.length);
      return own(new Uint8Array(buffer, place(layout.at), layout.length));
    case 'array': {
      const Kind = arrayKinds[layout.kind] as TypedArrayConstructor | undefined;
      if (Kind === undefined || layout.at % alignment !== 0)
        throw new ProtocolError('a batch with an unknown array');
      check(layout.at, layout.length * Kind.BYTES_PER_ELEMENT);
      return own(new Kind(buffer as ArrayBuffer, place(layout.at), layout.length) as Uint8Array);
    }
    case 'strings': {
      const { at, count, length } = layout;
      check(at, count * 4 + length);
      if (at % alignment !== 0) throw new ProtocolError('a batch with byte strings that are none');
      const strings: Uint8Array[] = [];
      let start = at + count * 4;
      for (const bytes of new Uint32Array(buffer, place(at), count)) {
        check(start, bytes);
        strings.push(own(new Uint8Array(buffer, place(start), bytes)));
        start += bytes;
      }
      return strings;
    }
    case 'list':
      return layout.items.map((item) => decodeValue(item, payload, copiedBytes));
    case 'record':
      return Object.fromEntries(
        layout.names.map((name, item) => [
          name,
          decodeValue(layout.items[item] as ValueLayout, payload, copiedBytes),
        ]),
      );
    case 'number':
      return Number(layout.text);
    case 'bigint':
      return BigInt(layout.text);
    case 'json':
      return layout.value;
    default:
      throw new ProtocolError('a batch of an unknown form');
  }
}

function cannotSend(what: string): HorovodError {
  return new HorovodError(
    'ERR_HVD_INVALID_ARGUMENT',
    `data service: a batch contains ${what}, which cannot be sent. Elements are records of tensors, typed arrays, byte strings, texts and numbers.`,
  );
}
