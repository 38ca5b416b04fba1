// The list of what a rank is waiting for, as it travels when fingerprints differ.

import { HorovodError } from '../../errors.ts';
import { dtypes } from '../../tensor/dtype.ts';
import type { AllgatherOperation } from '../../transport/transport.ts';
import { type Description, requestKinds } from '../description.ts';

export interface PendingList {
  /** The rank's thread sits in a Sync call: it will ask for nothing else until that returns. */
  readonly isBlocked: boolean;
  /** How many requests without a name it has counted. */
  readonly unnamed: number;
  readonly requests: readonly PendingEntry[];
}

export interface PendingEntry extends Description {
  readonly submittedAtMs: number;
}

export function encodePendingList(list: PendingList): Uint8Array {
  return Buffer.from(JSON.stringify(list));
}

/** Checks what it reads: a list is data from another process. */
export function decodePendingList(bytes: Uint8Array, rank: number): PendingList {
  try {
    const value = JSON.parse(
      Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString(),
    ) as PendingList;
    const isList = typeof value.isBlocked === 'boolean' && Number.isSafeInteger(value.unnamed);
    if (!isList || !value.requests.every(isEntry)) throw new TypeError('no such shape');
    return value;
  } catch (cause) {
    throw new HorovodError(
      'ERR_HVD_NATIVE',
      `rank ${rank} sent a list of pending operations that cannot be read; do all ranks run the same version?`,
      { rank, cause },
    );
  }
}

function isEntry(entry: PendingEntry): boolean {
  return (
    typeof entry.key === 'string' &&
    requestKinds.includes(entry.kind) &&
    Array.isArray(entry.dtypes) &&
    entry.dtypes.every((dtype) => Object.hasOwn(dtypes, dtype)) &&
    Array.isArray(entry.shapes) &&
    entry.shapes.every((shape) => Array.isArray(shape) && shape.every(Number.isSafeInteger)) &&
    entry.shapes.length === entry.dtypes.length &&
    typeof entry.prescale === 'number' &&
    typeof entry.postscale === 'number' &&
    typeof entry.submittedAtMs === 'number' &&
    typeof entry.detail === 'string'
  );
}

/** The lists of all members, out of the exchange. */
export function decodePendingLists(
  { output, byteCounts }: AllgatherOperation,
  members: readonly number[],
): PendingList[] {
  let start = 0;
  return (byteCounts ?? []).map((bytes, i) => {
    const part = (output as Uint8Array).subarray(start, start + bytes);
    start += bytes;
    return decodePendingList(part, members[i] as number);
  });
}
