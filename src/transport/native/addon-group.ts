// A group of a native transport: passes batches to the addon and turns its statuses into outcomes and errors.
// Quick operations run on the calling thread; the rest on the group's thread (native/src/group/worker.h).

import { constants } from 'node:os';
import { getSystemErrorName } from 'node:util';
import type { ControlBlock } from '../../control/control-block.ts';
import { toError, toFailureRecord } from '../../control/failure-record.ts';
import { HorovodError } from '../../errors.ts';
import type { TypedArray } from '../../tensor/dtype.ts';
import type { Complete } from '../group/batch-queue.ts';
import { timeoutError } from '../group/wait-errors.ts';
import type { BatchTrace } from '../trace.ts';
import {
  type Batch,
  bytesInArrays,
  type GroupSpec,
  type Outcome,
  type QuickArrays,
  type QuickOperation,
  type QuickPath,
  type QuickPlace,
  type QuickResult,
  type Round,
  type TransportGroup,
  type TransportOperation,
} from '../transport.ts';
import type { NativeGroup, NativeReport, NativeResult } from './addon.ts';
import { threadAdvice } from './addon-error.ts';
import { describe, inputsOf, outputsOf, status, takeResult } from './codes.ts';
import { lateWriterError } from './hands-off.ts';
import { compileOperation, QuickMailbox } from './quick-mailbox.ts';

export interface AddonGroupOptions {
  readonly block: ControlBlock;
  readonly rank: number;
  readonly spec: GroupSpec;
  /** Promise forms of larger operations leave the event loop free. */
  readonly tryUpToBytes: number;
  /** As Transport.fence(). */
  fence(failure: HorovodError): HorovodError;
  open(report: NativeReport, mailbox: Float64Array): NativeGroup;
  /** For tests. Default: 1. */
  readonly firstBatchId?: number | undefined;
}

/** How long a promise form waits on the main thread for its peers before it goes to the group's thread. */
const tryForMicroseconds = 20;
export class AddonGroup implements TransportGroup, QuickPath {
  readonly index: number;
  readonly size: number;
  readonly quick: QuickPath = this;
  readonly received: Float64Array;
  onClose: () => void = () => {};
  /** Every member sees by itself which member is gone; otherwise some learn it only from others. */
  seesAll = false;
  /** The error for a member that is gone without a trace in the control block. */
  describeLoss: (rank: number, errno: number) => HorovodError = (rank) =>
    new HorovodError('ERR_HVD_PEER_LOST', `rank ${rank} is gone`, { rank });
  /** The error for an encrypted connection with bytes that the member at its other end has not sent. */
  describeTampering: (rank: number) => HorovodError = (rank) =>
    new HorovodError('ERR_HVD_TAMPERED', `the connection with rank ${rank} was tampered with`, { rank });
  readonly #native: NativeGroup;
  readonly #mailbox: QuickMailbox;
  readonly #block: ControlBlock;
  readonly #rank: number;
  readonly #members: readonly number[];
  readonly #tryUpToBytes: number;
  readonly #fence: (failure: HorovodError) => HorovodError;
  readonly #batches = new Map<number, { batch: Batch; complete: Complete }>();
  readonly #ids = new Map<Batch, number>();
  /** Batches submitted after a mismatch, until takeBack(). Those queued before wait in the addon. */
  readonly #held = new Map<Batch, Complete>();
  /** A batch that the main thread has begun and not finished. */
  #running: Batch | undefined;
  #isHalted = false;
  #isTraced = false;
  /** Numbers batches. The addon keeps it as a 64-bit integer: no job runs long enough to reach 2^53. */
  #nextId: number;
  #broken: HorovodError | undefined;
  #isClosed = false;

  constructor({ block, rank, spec, tryUpToBytes, fence, open, firstBatchId = 1 }: AddonGroupOptions) {
    this.index = spec.index;
    this.size = spec.members.length;
    this.#block = block;
    this.#rank = rank;
    this.#members = spec.members;
    this.#tryUpToBytes = tryUpToBytes;
    this.#fence = fence;
    this.#nextId = firstBatchId;
    this.#mailbox = new QuickMailbox(this.size);
    this.received = this.#mailbox.received;
    this.#native = open((id, code, results) => this.#report(id, code, results), this.#mailbox.words);
  }

  /** Whether an operation may be running in the background. */
  get isBusy(): boolean {
    return this.#batches.size > 0;
  }

  /** Memory of operations in flight into which other members write, if they do so directly. */
  get exposed(): TypedArray[] {
    const batches = [...this.#batches.values()].map(({ batch }) => batch);
    if (this.#running !== undefined) batches.push(this.#running);
    return batches.flatMap(({ rounds }) =>
      rounds.flatMap(({ operation }) => (operation.kind === 'allreduce' ? operation.outputs : [])),
    );
  }

  /** After a failure of the job: blocks until the group's thread works on no batch, or the time is over. */
  settle(timeoutMs: number): void {
    if (!this.#isClosed) this.#native.settle(timeoutMs);
  }

  probe(allowed: boolean): void {
    if (!this.#isClosed) this.#native.probe(allowed ? 1 : 0);
  }

  /**
   * Collective over the members of this host: finds out from which sizes on it pays to copy directly from their memory, if all of
   * them want it. `batch` names it, and has no rounds.
   */
  calibrate(wanted: boolean, batch: Batch, complete: Complete): void {
    this.#checkUsable();
    const id = this.#nextId++;
    const code = this.#native.calibrate(id, wanted ? 1 : 0, batch.timeoutMs);
    if (code !== status.queued) throw this.#fail(code, batch);
    this.#batches.set(id, { batch, complete });
    this.#ids.set(batch, id);
  }

  submit(batch: Batch, complete: Complete): Outcome | undefined {
    this.#checkUsable();
    if (this.#isHalted) {
      this.#held.set(batch, complete);
      return undefined;
    }
    const operations = batch.rounds.map((round) => round.operation);
    const id = this.#nextId++;
    const inputs = operations.map(inputsOf);
    if (this.#isTraced !== (batch.trace !== undefined)) this.isTraced = !this.#isTraced;
    const bytes = inputs.reduce((sum, list) => list.reduce((part, array) => part + array.byteLength, sum), 0);
    const code = this.#native.submit(
      id,
      batch.rounds.map((round, i) => describe(round, batch, batch.passive && i === 0)),
      inputs,
      operations.map(outputsOf),
      bytes <= this.#tryUpToBytes ? tryForMicroseconds : 0,
    );
    if (code !== status.queued) {
      this.#takeMarks(batch.trace);
      return this.#outcome(code, batch, batch.rounds[0]);
    }
    this.#batches.set(id, { batch, complete });
    this.#ids.set(batch, id);
    return undefined;
  }

  runSync(batch: Batch): Outcome {
    this.#checkUsable();
    let isFirst = true;
    if (this.#isTraced !== (batch.trace !== undefined)) this.isTraced = !this.#isTraced;
    for (const round of batch.rounds) {
      const { operation } = round;
      const code = this.#native.run(
        describe(round, batch, batch.passive && isFirst),
        inputsOf(operation),
        outputsOf(operation),
      );
      isFirst = false;
      if (this.settleSync(code, batch, round) === 'mismatch') return 'mismatch';
    }
    return 'done';
  }

  waitSync(batch: Batch): Outcome {
    const id = this.#ids.get(batch);
    if (id === undefined) throw new TypeError('waitSync(): this batch was not submitted');
    for (;;) {
      const over = this.#native.waitSync(id, batch.stallAfterMs);
      if (over === undefined) throw new TypeError('waitSync(): this batch is over');
      if (typeof over === 'number') {
        this.#reportStall(batch);
        continue;
      }
      this.#forget(id, batch);
      this.#takeMarks(batch.trace);
      return this.#settleBatch(over[0], batch, over[1]);
    }
  }

  takeBack(): Batch[] {
    const taken: Batch[] = [];
    for (const id of this.#native.takeBack()) {
      const entry = this.#batches.get(id);
      if (entry === undefined) continue;
      this.#forget(id, entry.batch);
      taken.push(entry.batch);
    }
    taken.push(...this.#held.keys());
    this.#held.clear();
    this.#isHalted = false;
    return taken;
  }

  setSwitchBytes(bytes: number): void {
    if (!this.#isClosed) this.#native.setSwitchBytes?.(bytes);
  }

  missing(): number[] {
    return this.#isClosed ? [] : this.#native.missing();
  }

  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#broken ??= new HorovodError('ERR_HVD_SHUT_DOWN', 'this process set was closed on this rank');
    const writer = this.#native.close();
    this.onClose();
    for (const { complete } of this.#batches.values()) complete(this.#broken);
    for (const complete of this.#held.values()) complete(this.#broken);
    this.#held.clear();
    this.#batches.clear();
    this.#ids.clear();
    if (writer >= 0) throw lateWriterError(this.#rank, writer, this.#block.pid(writer));
  }

  // --- QuickPath ----------------------------------------------------------------------------------------------

  compile(operation: TransportOperation): QuickOperation {
    return compileOperation(operation);
  }

  runNow(
    operation: QuickOperation,
    input: QuickArrays,
    output: QuickArrays,
    place: QuickPlace,
    fingerprintLow: number,
    fingerprintHigh: number,
  ): number | QuickResult {
    if (this.#broken !== undefined) throw this.#broken;
    this.#mailbox.fill(operation, input, output, place, fingerprintLow, fingerprintHigh);
    return this.#native.runNow(input, output);
  }

  runSoon(
    operation: QuickOperation,
    input: QuickArrays,
    output: QuickArrays,
    place: QuickPlace,
    fingerprintLow: number,
    fingerprintHigh: number,
  ): number | QuickResult | undefined {
    if (this.#broken !== undefined) throw this.#broken;
    this.#mailbox.fill(operation, input, output, place, fingerprintLow, fingerprintHigh);
    const tryFor = bytesInArrays(input) <= this.#tryUpToBytes ? tryForMicroseconds : 0;
    const code = this.#native.runSoon(input, output, this.#nextId, tryFor);
    return code === status.queued ? undefined : code;
  }

  get small(): ArrayBufferLike {
    return this.#mailbox.small;
  }

  get smallAt(): number {
    return this.#mailbox.smallAt;
  }

  adopt(batch: Batch, complete: Complete): void {
    const id = this.#nextId++;
    this.#batches.set(id, { batch, complete });
    this.#ids.set(batch, id);
  }

  prepareRun(round: Round, batch: Batch): () => number {
    this.#checkUsable();
    return this.#native.prepareRun(
      describe(round, batch, false),
      inputsOf(round.operation),
      outputsOf(round.operation),
    );
  }

  get isTraced(): boolean {
    return this.#isTraced;
  }

  set isTraced(isTraced: boolean) {
    this.#isTraced = isTraced;
    this.#mailbox.isTraced = isTraced;
  }

  get lastMarks(): Float64Array {
    return this.#mailbox.marks;
  }

  /** Takes over what the addon has recorded since the last call. */
  #takeMarks(trace: BatchTrace | undefined): void {
    if (trace === undefined) return;
    const { marks } = this.#mailbox;
    for (let at = 0; at < marks.length; at += 2) trace.add(marks[at] as number, marks[at + 1] as number);
    this.#mailbox.forgetMarks();
  }

  lastFinishedAtMs(): number {
    return this.#mailbox.finishedAtMs;
  }

  settleSync(code: number | NativeResult, batch: Batch, round: Round | undefined = batch.rounds[0]): Outcome {
    let current = code;
    while (current === status.stalled) {
      this.#reportStall(batch);
      current = this.#native.resume();
    }
    this.#takeMarks(batch.trace);
    return this.#outcome(current, batch, round);
  }

  /** The callback may shut down. */
  #reportStall(batch: Batch): void {
    this.#running = batch;
    batch.onStall?.(this.missing());
    this.#running = undefined;
    if (this.#isClosed) throw this.#broken;
  }

  #outcome(code: number | NativeResult, batch: Batch, round: Round | undefined): Outcome {
    if (typeof code !== 'number') {
      if (round !== undefined) takeResult(round.operation, code);
      return 'done';
    }
    if (code === status.done) return 'done';
    if (code === status.mismatch) {
      this.#isHalted = true;
      return 'mismatch';
    }
    throw this.#fail(code, batch);
  }

  #settleBatch(code: number, batch: Batch, results: (NativeResult | undefined)[]): Outcome {
    if (code !== status.done) return this.#outcome(code, batch, undefined);
    batch.rounds.forEach((round, i) => {
      const result = results[i];
      if (result !== undefined) takeResult(round.operation, result);
    });
    return 'done';
  }

  #report(id: number, code: number, results: (NativeResult | undefined)[]): void {
    const entry = this.#batches.get(id);
    if (entry === undefined) return;
    this.#forget(id, entry.batch);
    this.#takeMarks(entry.batch.trace);
    let outcome: Outcome | HorovodError;
    try {
      outcome = this.#settleBatch(code, entry.batch, results);
    } catch (error) {
      outcome = error as HorovodError;
    }
    entry.complete(outcome);
  }

  #forget(id: number, batch: Batch): void {
    this.#batches.delete(id);
    this.#ids.delete(batch);
  }

  #checkUsable(): void {
    if (this.#broken !== undefined) throw this.#broken;
  }

  /**
   * The job has failed, here and, through the control block, on all ranks; in some cases only this group has. Returns
   * when other ranks no longer write into the memory of this one.
   */
  #fail(code: number, batch: Batch): HorovodError {
    if (this.#broken !== undefined) return this.#broken;
    const error = this.#errorOf(code, batch);
    const isKnown = code === status.failed || code === status.stopped;
    const isOnlyOurs =
      batch.isOpening === true ||
      code === status.noThread ||
      (code === status.peerLeft && batch.isOptional === true && this.seesAll);
    const isFirst = isKnown || isOnlyOurs || this.#block.fail(toFailureRecord(error));
    const known = isFirst ? undefined : this.#block.failure();
    this.#broken = known === undefined ? error : toError(known);
    if (code !== status.stopped && !isOnlyOurs) {
      this.#running = batch;
      this.#broken = this.#fence(this.#broken);
      this.#running = undefined;
    }
    return this.#broken;
  }

  #errorOf(code: number, batch: Batch): HorovodError {
    const culprit = this.#members[this.#native.culprit()] ?? -1;
    switch (code) {
      case status.peerLost:
      case status.peerLeft:
        return this.#block.lossOf(culprit) ?? this.describeLoss(culprit, this.#native.errno());
      case status.failed: {
        const record = this.#block.failure();
        if (record !== undefined) return toError(record);
        return new HorovodError(
          'ERR_HVD_NATIVE',
          `${batch.label}: the job has failed, and no rank has recorded why`,
        );
      }
      case status.timeout:
        return timeoutError(batch, this.#rank, this.#missingRanks(culprit));
      case status.stopped:
        return new HorovodError(
          'ERR_HVD_SHUT_DOWN',
          `${batch.label} was ended because this rank is shutting down`,
        );
      case status.noMemory:
        return new HorovodError(
          'ERR_HVD_OUT_OF_MEMORY',
          `rank ${this.#rank}: there is not enough memory for the result of ${batch.label}`,
          { rank: this.#rank },
        );
      case status.noThread:
        return new HorovodError(
          'ERR_HVD_NATIVE',
          `rank ${this.#rank}: the thread for ${batch.label} could not be started. ${threadAdvice}`,
          { rank: this.#rank },
        );
      default:
        // The libraries of mpi and gloo do not report which member they have lost.
        if (culprit < 0) {
          return new HorovodError(
            'ERR_HVD_NATIVE',
            `rank ${this.#rank}: the library that moves bytes between hosts failed in ${batch.label}. ` +
              'The usual cause is that another rank or its connection is gone; see the errors of the other ranks.',
            { rank: this.#rank },
          );
        }
        if (this.#native.errno() === constants.errno.EBADMSG) return this.describeTampering(culprit);
        if (this.#native.errno() === constants.errno.EPROTO) {
          return new HorovodError(
            'ERR_HVD_NATIVE',
            `rank ${this.#rank} received invalid data from rank ${culprit} in ${batch.label}. ` +
              'Make sure that all hosts have the same version of horovod, with the addon built from it.',
            { rank: culprit },
          );
        }
        return new HorovodError(
          'ERR_HVD_NATIVE',
          `rank ${this.#rank} could not copy from rank ${culprit} in ${batch.label}: ` +
            `${getSystemErrorName(-this.#native.errno())}. Set HOROVOD_CMA=0 to avoid direct copies.`,
          { rank: this.#rank },
        );
    }
  }

  #missingRanks(culprit: number): number[] {
    const missing = this.missing().map((member) => this.#members[member] ?? -1);
    if (missing.length > 0) return missing;
    return culprit >= 0 ? [culprit] : this.#members.filter((member) => member !== this.#rank);
  }
}
