// The values of one Feature message, written into typed arrays: BytesList bytes_list = 1, FloatList float_list = 2 and
// Int64List int64_list = 3, of which it has one. Numbers may be packed or not; a list that comes in several parts is one.

import type { DType, TypedArray } from '../../../tensor/dtype.ts';
import { malformed, type WireReader, wire } from './wire-reader.ts';

export type ListKind = 'bytes' | 'float' | 'int64';

const kindOfField: readonly (ListKind | undefined)[] = [undefined, 'bytes', 'float', 'int64'];

/** An array to write into, and the same memory as bytes and words. */
export class ValueTarget {
  readonly array: TypedArray;
  readonly dtype: DType;
  readonly bytes: Uint8Array;
  /** Of int64 arrays. */
  readonly words: Int32Array | undefined;
  readonly min: number;
  readonly max: number;

  constructor(array: TypedArray, dtype: DType) {
    this.array = array;
    this.dtype = dtype;
    this.bytes = new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
    this.words =
      dtype === 'int64' ? new Int32Array(array.buffer, array.byteOffset, 2 * array.length) : undefined;
    [this.min, this.max] = integerRanges[dtype] ?? [0, -1];
  }
}

const integerRanges: Readonly<Partial<Record<DType, readonly [number, number]>>> = {
  bool: [0, 1],
  uint8: [0, 255],
  int8: [-128, 127],
  uint16: [0, 65_535],
  int16: [-32_768, 32_767],
  int32: [-(2 ** 31), 2 ** 31 - 1],
  int64: [-(2 ** 63), 2 ** 63],
};

/** The kind of list in the Feature from reader.at to `end`, and how many values it has; bytes: how many strings. */
export interface ListShape {
  kind: ListKind | undefined;
  count: number;
  /** Of all strings together. */
  bytes: number;
}

export function measure(reader: WireReader, end: number, shape: ListShape): void {
  shape.kind = undefined;
  shape.count = 0;
  shape.bytes = 0;
  forEachList(reader, end, (kind, listEnd) => {
    if (shape.kind !== kind) {
      // Of a oneof, the last one set counts.
      shape.kind = kind;
      shape.count = 0;
      shape.bytes = 0;
    }
    while (reader.at < listEnd) {
      const key = reader.key(listEnd);
      if (key >>> 3 !== 1) reader.skip(key, listEnd);
      else if (kind === 'bytes') {
        if ((key & 7) !== wire.lengthPrefixed) throw malformed('a byte string has another wire type');
        const to = reader.endOfField(listEnd);
        shape.count++;
        shape.bytes += to - reader.at;
        reader.at = to;
      } else shape.count += countNumbers(reader, key, kind, listEnd);
    }
  });
}

/** The strings, as copies. */
export function readStrings(reader: WireReader, end: number): Uint8Array[] {
  const list: Uint8Array[] = [];
  forEachList(reader, end, (kind, listEnd) => {
    if (kind !== 'bytes') list.length = 0;
    forEachString(reader, kind, listEnd, (from, to) => list.push(copyOf(reader.bytes, from, to)));
  });
  return list;
}

/** Raw little-endian values, one string after another. The caller has measured them: they fit. */
export function copyRaw(reader: WireReader, end: number, target: ValueTarget, firstByte: number): void {
  let place = firstByte;
  forEachList(reader, end, (kind, listEnd) => {
    if (kind !== 'bytes') place = firstByte;
    forEachString(reader, kind, listEnd, (from, to) => {
      copyBytes(reader.bytes, from, to, target.bytes, place);
      place += to - from;
    });
  });
}

/**
 * Writes the numbers from element `first` on and returns how many there are; those beyond `limit` are not written. −1: a
 * number does not fit into the array's type, −2: the list is of another kind than numbers of that type.
 */
export function copyNumbers(
  reader: WireReader,
  end: number,
  target: ValueTarget,
  first: number,
  limit: number,
): number {
  let count = 0;
  let lastField = 0;
  while (reader.at < end) {
    const key = reader.key(end);
    const field = key >>> 3;
    if (field > 3 || field === 0) {
      reader.skip(key, end);
      continue;
    }
    if ((key & 7) !== wire.lengthPrefixed) throw malformed('a list has another wire type');
    const listEnd = reader.endOfField(end);
    // Of a oneof, the last one set counts.
    if (field !== lastField) count = 0;
    lastField = field;
    if (field === 2) count = copyFloats(reader, listEnd, target, first, limit, count);
    else if (field === 3) count = copyIntegers(reader, listEnd, target, first, limit, count);
    else count = -2;
    if (count < 0) reader.at = listEnd;
  }
  return count;
}

function copyFloats(
  reader: WireReader,
  end: number,
  target: ValueTarget,
  first: number,
  limit: number,
  before: number,
): number {
  const isSame = target.dtype === 'float32';
  if (!isSame && target.dtype !== 'float64') return -2;
  let count = before;
  while (reader.at < end) {
    const key = reader.key(end);
    if (key >>> 3 !== 1) {
      reader.skip(key, end);
      continue;
    }
    const isPacked = (key & 7) === wire.lengthPrefixed;
    if (!isPacked && (key & 7) !== wire.fourBytes) throw malformed('a float has another wire type');
    const to = isPacked ? reader.endOfField(end) : reader.at + 4;
    if (to > end || (to - reader.at) % 4 !== 0) throw malformed('a list of floats is cut off');
    const more = (to - reader.at) / 4;
    if (count + more <= limit) {
      if (isSame) copyBytes(reader.bytes, reader.at, to, target.bytes, 4 * (first + count));
      else
        for (let i = 0; i < more; i++)
          target.array[first + count + i] = reader.view.getFloat32(reader.at + 4 * i, true);
    }
    count += more;
    reader.at = to;
  }
  return count;
}

function copyIntegers(
  reader: WireReader,
  end: number,
  target: ValueTarget,
  first: number,
  limit: number,
  before: number,
): number {
  const { words, array, min, max } = target;
  if (max < min) return -2;
  let count = before;
  while (reader.at < end) {
    const key = reader.key(end);
    if (key >>> 3 !== 1) {
      reader.skip(key, end);
      continue;
    }
    const isPacked = (key & 7) === wire.lengthPrefixed;
    if (!isPacked && (key & 7) !== wire.varint) throw malformed('an integer has another wire type');
    const to = isPacked ? reader.endOfField(end) : end;
    do {
      if (isPacked && reader.at >= to) break;
      reader.varint(to);
      const { low, high } = reader;
      if (count < limit) {
        if (words !== undefined) {
          words[2 * (first + count)] = low;
          words[2 * (first + count) + 1] = high;
        } else {
          if (high !== low >> 31 || low < min || low > max) return -1;
          array[first + count] = low;
        }
      }
      count++;
    } while (isPacked);
  }
  return count;
}

function countNumbers(reader: WireReader, key: number, kind: ListKind, end: number): number {
  const type = key & 7;
  const single = kind === 'float' ? wire.fourBytes : wire.varint;
  if (type === single) {
    reader.skip(key, end);
    return 1;
  }
  if (type !== wire.lengthPrefixed) throw malformed('a number has another wire type');
  const to = reader.endOfField(end);
  const { at, bytes } = reader;
  reader.at = to;
  if (kind === 'float') return Math.floor((to - at) / 4);
  let count = 0;
  for (let i = at; i < to; i++) if ((bytes[i] as number) < 128) count++;
  return count;
}

/** Calls `visit` with reader.at at the beginning of each list's content; the visitor leaves it at its end. */
function forEachList(
  reader: WireReader,
  end: number,
  visit: (kind: ListKind, listEnd: number) => void,
): void {
  while (reader.at < end) {
    const key = reader.key(end);
    const kind = kindOfField[key >>> 3];
    if (kind === undefined) {
      reader.skip(key, end);
      continue;
    }
    if ((key & 7) !== wire.lengthPrefixed) throw malformed('a list has another wire type');
    visit(kind, reader.endOfField(end));
  }
}

function forEachString(
  reader: WireReader,
  kind: ListKind,
  listEnd: number,
  visit: (from: number, to: number) => void,
): void {
  if (kind !== 'bytes') {
    reader.at = listEnd;
    return;
  }
  while (reader.at < listEnd) {
    const key = reader.key(listEnd);
    if (key >>> 3 !== 1) {
      reader.skip(key, listEnd);
      continue;
    }
    if ((key & 7) !== wire.lengthPrefixed) throw malformed('a byte string has another wire type');
    const to = reader.endOfField(listEnd);
    visit(reader.at, to);
    reader.at = to;
  }
}

/** Not slice(): that of a Buffer is no copy. */
function copyOf(bytes: Uint8Array, from: number, to: number): Uint8Array {
  const copy = new Uint8Array(to - from);
  copy.set(bytes.subarray(from, to));
  return copy;
}

/** A call of set() costs more than a few bytes. */
function copyBytes(source: Uint8Array, from: number, to: number, target: Uint8Array, place: number): void {
  if (to - from > 48) target.set(source.subarray(from, to), place);
  else for (let i = from, j = place; i < to; i++, j++) target[j] = source[i] as number;
}
