// A check for debugging (HOROVOD_DATA_CHECK): one item in a hundred is computed twice, and the results must be the same bits. Resuming,
// elastic jobs and data services rely on that: a batch that was lost is made again. A function that uses Math.random(), the clock, or
// something that it remembers breaks it, and nothing else would notice.

import { HorovodError } from '../../errors.ts';
import { keyOf } from '../order/random.ts';
import type { Steps } from './maybe-async.ts';
import { isRecord, isTensor } from './stack.ts';
import type { Computed, ReadItem } from './work.ts';

const oneIn = 100;

/** Whether this item is among those that are computed twice; the same in every run. */
export function isComputedTwice(seed: number, { item: { epoch, positions } }: ReadItem): boolean {
  return keyOf(seed, epoch, positions[0] ?? 0, oneIn) % oneIn === 0;
}

/** `functions`: those of the pipeline, for the error. */
export function* computeTwice(
  compute: (read: ReadItem) => Steps<Computed>,
  read: ReadItem,
  functions: readonly string[],
): Steps<Computed> {
  const { records } = read;
  // A function may write into the elements of a source that gives elements.
  const again: ReadItem =
    records.kind === 'elements'
      ? { ...read, records: { ...records, elements: structuredClone(records.elements) } }
      : read;
  const first = yield* compute(read);
  const second = yield* compute({ ...again, busy: {}, retries: 0 });
  const where = difference(first.values, second.values, '');
  if (where === undefined && String(first.rows) === String(second.rows)) return first;
  const { epoch, positions } = read.item;
  const place = where === undefined || where === '' ? '' : ` (${where})`;
  const names =
    functions.length === 0 ? '' : ` The functions that may be the reason: ${functions.join(', ')}.`;
  throw new HorovodError(
    'ERR_HVD_DATA_FUNCTION',
    `HOROVOD_DATA_CHECK: position ${positions[0]} of epoch ${epoch} was computed twice, with different results${place}. A function of a pipeline may depend on nothing but its element, its args and its context: use random() of the context in place of Math.random(), and keep nothing between calls.${names}`,
  );
}

/** Where two values differ; '' if it is not in a column. */
function difference(a: unknown, b: unknown, path: string): string | undefined {
  const inner = (name: string) => (path === '' ? name : `${path}.${name}`);
  if (ArrayBuffer.isView(a) || ArrayBuffer.isView(b))
    return ArrayBuffer.isView(a) && ArrayBuffer.isView(b) && bytesOf(a).equals(bytesOf(b)) ? undefined : path;
  if (isTensor(a) && isTensor(b)) {
    if (a.dtype !== b.dtype || String(a.shape) !== String(b.shape)) return path;
    return difference(a.data, b.data, path);
  }
  if (Array.isArray(a) && Array.isArray(b)) {
    if (a.length !== b.length) return path;
    for (const [at, each] of a.entries()) {
      const found = difference(each, b[at], path);
      if (found !== undefined) return found;
    }
    return undefined;
  }
  if (isRecord(a) && isRecord(b)) {
    const names = Object.keys(a);
    if (String(names) !== String(Object.keys(b))) return path;
    for (const name of names) {
      const found = difference(a[name], b[name], inner(`column "${name}"`));
      if (found !== undefined) return found;
    }
    return undefined;
  }
  return Object.is(a, b) ? undefined : path;
}

function bytesOf({ buffer, byteOffset, byteLength }: ArrayBufferView): Buffer {
  return Buffer.from(buffer as ArrayBuffer, byteOffset, byteLength);
}
