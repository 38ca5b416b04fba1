// One operation of this rank on its way into the timeline: noted down when it is over, with all its times.

import type { Description } from '../../engine/request.ts';
import { type DType, dtypes } from '../../tensor/dtype.ts';
import { BatchTrace } from '../../transport/trace.ts';
import type { Batch } from '../../transport/transport.ts';
import type { TimelineRecorder } from './recorder.ts';

/** Shapes of a group beyond these are only counted. */
const mostShapes = 4;
const noMarks: readonly number[] = [];

export class OperationTrace {
  readonly #recorder: TimelineRecorder;
  readonly #description: Description;
  readonly #processSet: number;
  readonly #submittedUs: number;
  #leftUs = 0;
  #exchanges = 0;
  #marks: readonly number[] = noMarks;
  #earlier: readonly number[] = noMarks;

  constructor(recorder: TimelineRecorder, description: Description, processSet: number) {
    this.#recorder = recorder;
    this.#description = description;
    this.#processSet = processSet;
    this.#submittedUs = recorder.nowUs();
  }

  /** It leaves for the transport, in a job that has this trace. */
  leave(batch: BatchTrace, atUs: number): void {
    if (this.#leftUs === 0) this.#leftUs = atUs;
    // One that never got to its transport again keeps what it had.
    if (this.#marks.length > 0) this.#earlier = this.#marks;
    this.#marks = batch.marks;
  }

  /** It takes part in an exchange of pending lists. */
  exchange(): void {
    this.#exchanges++;
  }

  end(error?: string): void {
    const recorder = this.#recorder;
    const { key } = this.#description;
    const isUnnamed = key.startsWith('#');
    const overUs = recorder.nowUs();
    const marks = this.#marks.length > 0 ? this.#marks : this.#earlier;
    const errorId = error === undefined ? 0 : recorder.textId(error);
    const args = recorder.textId(describeArguments(this.#description, this.#processSet));
    recorder.operation(
      isUnnamed ? 0 : recorder.textId(key),
      args,
      isUnnamed ? Number(key.slice(1)) : 0,
      this.#submittedUs,
      this.#leftUs,
      overUs,
      errorId,
      this.#exchanges,
      marks,
      marks.length,
    );
  }

  get recorder(): TimelineRecorder {
    return this.#recorder;
  }
}

/** The trace of a job that carries these; undefined while no timeline is on. */
export function traceOfBatch(
  requests: readonly { readonly trace?: OperationTrace | undefined }[],
): Pick<Batch, 'trace'> {
  let trace: BatchTrace | undefined;
  let nowUs = 0;
  for (const { trace: own } of requests) {
    if (own === undefined) continue;
    const { recorder } = own;
    if (trace === undefined) {
      trace = new BatchTrace(() => recorder.nowUs());
      nowUs = recorder.nowUs();
      if (recorder.marksCycles) recorder.instant('cycles', 'CYCLE_START');
    }
    own.leave(trace, nowUs);
  }
  return trace === undefined ? nothing : { trace };
}

const nothing: Pick<Batch, 'trace'> = {};

/** Members of a JSON object. */
function describeArguments(description: Description, processSet: number): string {
  const { kind, dtypes: types, shapes, op, root, isGrouped } = description;
  let bytes = 0;
  for (let i = 0; i < shapes.length; i++) {
    let elements = 1;
    for (const length of shapes[i] as readonly number[]) elements *= length;
    bytes += elements * dtypes[types[i] as DType].bytes;
  }
  const shown = shapes.slice(0, mostShapes).map((shape) => `[${shape.join(', ')}]`);
  if (shapes.length > mostShapes) shown.push(`and ${shapes.length - mostShapes} more`);
  return (
    `"kind":"${kind}"` +
    (types.length === 0 ? '' : `,"dtype":"${types[0]}","shape":"${shown.join(', ')}","bytes":${bytes}`) +
    (isGrouped ? `,"tensors":${shapes.length}` : '') +
    (op === undefined ? '' : `,"op":${JSON.stringify(op)}`) +
    (root === undefined ? '' : `,"root":${root}`) +
    (processSet === 0 ? '' : `,"process_set":${processSet}`)
  );
}
