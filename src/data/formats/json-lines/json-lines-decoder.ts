// Lines as elements: the text of a line, or the value of a line of JSON, in which lists of numbers (of lists …) become tensors.

import { HorovodError } from '../../../errors.ts';
import type { Tensor } from '../../../tensor/tensor.ts';
import type { Decoder, ElementValue } from '../format.ts';

/** Elements are `{ value: text }`. */
export function lineDecoder(): Decoder {
  return decoderOf((bytes, start, length) => ({ value: decodeLine(bytes, start, length) }));
}

export function jsonLineDecoder(): Decoder {
  return decoderOf(decodeJsonLine);
}

function decoderOf(element: Decoder['element']): Decoder {
  const fill = () => {
    throw new TypeError('lines have no columns of fixed size');
  };
  return { columns: null, element, fill };
}

/** The text of a record. */
export function decodeLine(bytes: Uint8Array, start: number, length: number): string {
  // A copy: TextDecoder does not take shared memory.
  return Buffer.from(bytes.subarray(start, start + length)).toString();
}

/**
 * The object in a line of JSON. Numbers stay numbers, strings strings; true and false become 1 and 0; lists of numbers, also
 * nested ones of equal lengths, become float32 tensors.
 */
export function decodeJsonLine(
  bytes: Uint8Array,
  start: number,
  length: number,
): Readonly<Record<string, ElementValue>> {
  const text = decodeLine(bytes, start, length);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw invalid(`is not JSON (${(cause as Error).message})`, text, cause);
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw invalid('is not an object', text);
  return Object.fromEntries(
    Object.entries(value).map(([name, each]) => [name, elementValue(name, each, text)]),
  );
}

function elementValue(name: string, value: unknown, text: string): ElementValue {
  if (typeof value === 'string' || typeof value === 'number') return value;
  if (typeof value === 'boolean') return value ? 1 : 0;
  const found = Array.isArray(value) ? tensorOf(value) : undefined;
  if (found === undefined)
    throw invalid(`has ${JSON.stringify(name)}, which is no number, string or list of numbers`, text);
  return found;
}

function tensorOf(list: readonly unknown[]): Tensor | undefined {
  const shape: number[] = [];
  for (let inner: unknown = list; Array.isArray(inner); inner = inner[0]) shape.push(inner.length);
  const flat = list.flat(shape.length - 1);
  const isNumeric = flat.every((each) => typeof each === 'number');
  const expected = shape.reduce((product, each) => product * each, 1);
  if (!isNumeric || flat.length !== expected || !isRegular(list, shape)) return undefined;
  return { data: Float32Array.from(flat as number[]), shape, dtype: 'float32' };
}

function isRegular(list: readonly unknown[], [length, ...rest]: readonly number[]): boolean {
  return (
    list.length === length &&
    (rest.length === 0 || list.every((each) => Array.isArray(each) && isRegular(each, rest)))
  );
}

function invalid(what: string, text: string, cause?: unknown): HorovodError {
  const shown = text.length > 60 ? `${text.slice(0, 60)}…` : text;
  return new HorovodError('ERR_HVD_DATA_FILE', `the line ${what}: ${shown}`, { cause });
}
