// The arguments and results of quick calls besides their arrays, in memory that the addon reads and writes: each argument
// passed through Node-API costs some nanoseconds.

import { dtypes, type TypedArray } from '../../tensor/dtype.ts';
import {
  type QuickArrays,
  type QuickOperation,
  type QuickPlace,
  quickPlaces,
  smallBytes,
  type TransportOperation,
  wireDType,
} from '../transport.ts';
import { kinds } from './codes.ts';

// Places in the order of `Mailbox` in native/src/node/mailbox.h. The addon writes element 0, the time, the stages from
// markCountAt on, the small result and the counts; this side writes the others.
const isTracedAt = 11;
const markCountAt = 12;
const marksAt = 13;
const smallAt = marksAt + 96;
const countsAt = smallAt + smallBytes / 8;

/** The numbers of an operation, for fill(). */
export function compileOperation(operation: TransportOperation): QuickOperation {
  const { kind } = operation;
  const reduces = kind === 'allreduce' || kind === 'reducescatter';
  const dtype = reduces ? dtypes[wireDType(operation)].code : 0;
  const narrows = reduces && operation.wire !== undefined ? 1 : 0;
  const counts = kind === 'reducescatter' ? operation.counts : kind === 'alltoall' ? operation.sendBytes : [];
  return {
    code: kinds[kind] | (dtype << 4) | ((reduces ? operation.op.code : 1) << 8) | (narrows << 12),
    root: kind === 'broadcast' ? operation.root : 0,
    prescale: reduces ? operation.prescale : 1,
    postscale: reduces ? operation.postscale : 1,
    counts: [...counts],
    isList: kind === 'allreduce' && operation.inputs.length > 1,
  };
}

export class QuickMailbox {
  readonly words: Float64Array;
  /** See QuickPath.received. */
  readonly received: Float64Array;

  constructor(members: number) {
    this.words = new Float64Array(countsAt + members);
    this.received = this.words.subarray(countsAt);
  }

  fill(
    operation: QuickOperation,
    input: QuickArrays,
    output: QuickArrays,
    place: QuickPlace,
    fingerprintLow: number,
    fingerprintHigh: number,
  ): void {
    const { words } = this;
    words[1] = operation.code;
    words[2] = fingerprintLow;
    words[3] = fingerprintHigh;
    words[4] = operation.prescale;
    words[5] = operation.postscale;
    words[6] = operation.root;
    words[7] = place;
    words[8] = place === quickPlaces.small ? (output as TypedArray).byteLength : 0;
    words[9] = operation.isList ? (input as readonly TypedArray[]).length : 0;
    const { counts } = operation;
    words[10] = counts.length;
    for (let i = 0; i < counts.length; i++) words[countsAt + i] = counts[i] as number;
  }

  /** See QuickPath.small. */
  get small(): ArrayBufferLike {
    return this.words.buffer;
  }

  get smallAt(): number {
    return smallAt * 8;
  }

  set isTraced(isTraced: boolean) {
    this.words[isTracedAt] = isTraced ? 1 : 0;
    this.words[markCountAt] = 0;
  }

  /** Stages that the addon has recorded. */
  get marks(): Float64Array {
    return this.words.subarray(marksAt, marksAt + 2 * (this.words[markCountAt] as number));
  }

  forgetMarks(): void {
    this.words[markCountAt] = 0;
  }

  get finishedAtMs(): number {
    return this.words[0] as number;
  }
}
