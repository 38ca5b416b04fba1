// The list of what a rank is waiting for, as it travels when fingerprints differ.

import { HorovodError } from '../../errors.ts';
import { dtypes } from '../../tensor/dtype.ts';
import type { AllgatherOperation } from '../../transport/transport.ts';
import { type Description, requestKinds } from '../description.ts';
import type { TrainingPosition } from '../step-clock.ts';

export interface PendingList {
  /** The rank's thread sits in a Sync call: it will ask for nothing else until that returns. */
  readonly isBlocked: boolean;
  /** How many requests without a name it has counted. */
  readonly unnamed: number;
  /** How many operations of the process set it has taken part in with its own values, since all had joined. */
  readonly operations: number;
  /** Where in its training the rank is; left out if it does not train. */
  readonly training?: TrainingPosition | undefined;
  readonly requests: readonly Description[];
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
    const isList =
      typeof value.isBlocked === 'boolean' &&
      Number.isSafeInteger(value.unnamed) &&
      Number.isSafeInteger(value.operations) &&
      (value.training === undefined || isPosition(value.training));
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

function isEntry(entry: Description): boolean {
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
    typeof entry.detail === 'string'
  );
}

function isPosition(value: TrainingPosition): boolean {
  const { steps, isInStep, epoch, batches, isEpochOver, isOver } = value;
  return (
    Number.isSafeInteger(steps) &&
    typeof isInStep === 'boolean' &&
    [epoch, batches].every((count) => count === undefined || Number.isSafeInteger(count)) &&
    [isEpochOver, isOver].every((is) => is === undefined || typeof is === 'boolean')
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
