// The control block of a job: one small shared file that every rank of a host and the launcher can read and
// write, without any addon. It says who is there, who died of what, and why the job failed. The native transport
// maps the same file (native/src/group/control.h has the same offsets) and checks it while it waits.
//
// control-layout.ts has the layout.
// Who writes what: page 0 the rank that fails first; a rank's page that rank, but for `exit kind/value`,
// which the launcher writes when the process has ended. The life word belongs to the native transport: a robust
// futex, in which the kernel sets bit 30 when the process dies. `start ticks` is when the process of `pid` was
// started (0: unknown): a process id may be given to somebody else after a death.
// `closed` and `touching` are the fence around the memory that ranks write into directly (NOTE [Hands off] in
// native/src/group/control.h). Only native code writes them: a pwrite orders nothing. `touching` has a cache line of its own.
// `notice` is written by the launcher of an elastic job: its driver wants another membership.
// Each host has a block of its own, with pages for all ranks of the job. The page of a rank of another host is empty
// until that rank leaves or dies; then context/host-watch mirrors it here (`mirror`). Its `pid` stays 0: that number means
// nothing to this host's /proc.

import { fstatSync, readSync, writeSync } from 'node:fs';
import { HorovodError } from '../errors.ts';
import { blockBytes, controlLayout, exitKind, ownerDiedBit, rankState } from './control-layout.ts';
import { describeEnd, describeRank } from './describe-end.ts';
import {
  causeOf,
  decodeErrorRecord,
  decodeFailureRecord,
  type ErrorRecord,
  encodeRecord,
  type FailureRecord,
  toErrorRecord,
} from './failure-record.ts';
import { layoutVersion } from './layout-version.ts';
import { createMemoryFile, type MemoryFile, type OpenOptions, openMemoryFile } from './memory-file.ts';
import {
  decodeWaitStatus,
  type ProcessEnd,
  processStatus,
  signalName,
  signalNumber,
} from './process-status.ts';
import { readStatusPage, type StatusPage, writeStatusPage } from './status-page.ts';

export { controlLayout, exitKind, ownerDiedBit, rankState } from './control-layout.ts';
export { describeEnd } from './describe-end.ts';
export {
  type ErrorRecord,
  type FailureRecord,
  toError,
  toErrorRecord,
  toFailureRecord,
} from './failure-record.ts';

export type RankState = keyof typeof rankState;

const stateNames: readonly RankState[] = ['absent', 'attached', 'left'];
const headerBytes = 320;
/** As much of the job's page as is written once. */
const headBytes = 32;
/**
 * How long the reason of a death, or a failure that is being written, is waited for. It is there within a millisecond on
 * an idle machine; a launcher on a crowded one may take long to get a core.
 */
const settleMs = 250;

/** A rank that has left or died, as other hosts learn of it. */
export interface Departure {
  readonly host: string;
  /** On that host; 0: it never attached. */
  readonly pid: number;
  /** Left in good order; otherwise it died. */
  readonly hasLeft: boolean;
  /** Undefined: nobody knows how. */
  readonly exit?: ProcessEnd | undefined;
  readonly lastWords?: ErrorRecord | undefined;
}

export class ControlBlock {
  readonly ranks: number;
  readonly #file: MemoryFile;

  private constructor(file: MemoryFile, ranks: number) {
    this.#file = file;
    this.ranks = ranks;
  }

  /** A new block in a memory file; it lives as long as somebody has it open. */
  static create(
    ranks: number,
    { directory, generation = 0 }: { directory?: string | undefined; generation?: number | undefined } = {},
  ): ControlBlock {
    const file = createMemoryFile(blockBytes(ranks), { directory, label: 'control' });
    const head = Buffer.alloc(headBytes);
    head.writeUInt32LE(generation, controlLayout.job.generation);
    head.writeUInt32LE(layoutVersion, controlLayout.job.layoutVersion);
    head.writeUInt32LE(controlLayout.magic, controlLayout.job.magic);
    head.writeUInt32LE(ranks, controlLayout.job.ranks);
    writeSync(file.fd, head, 0, head.length, 0);
    return new ControlBlock(file, ranks);
  }

  /** The block at `path`, which another process has created. `ranks`: how many it must be for, where that is known. */
  static open(
    path: string,
    { ranks: wanted, ...options }: Pick<OpenOptions, 'access' | 'pids'> & { readonly ranks?: number } = {},
  ): ControlBlock {
    const file = openMemoryFile(path, options);
    try {
      const head = Buffer.alloc(headBytes);
      readSync(file.fd, head, 0, head.length, 0);
      const ranks = head.readUInt32LE(controlLayout.job.ranks);
      const theirs = head.readUInt32LE(controlLayout.job.layoutVersion);
      const isBlock = head.readUInt32LE(controlLayout.job.magic) === controlLayout.magic;
      if (isBlock && theirs !== layoutVersion) throw otherLayout(path, theirs);
      const hasSize = fstatSync(file.fd).size === blockBytes(ranks) && ranks === (wanted ?? ranks);
      if (!isBlock || !hasSize) throw notABlock(path);
      return new ControlBlock(file, ranks);
    } catch (error) {
      file.close();
      throw error;
    }
  }

  /** For ControlBlock.open() in other processes. */
  get path(): string {
    return this.#file.path;
  }

  get fd(): number {
    return this.#file.fd;
  }

  /** Of an elastic job; 0 in others. */
  get generation(): number {
    return this.#read(controlLayout.job.generation);
  }

  /** Says that `rank` is this process (or the process `pid`). */
  attach(rank: number, pid: number = process.pid): void {
    const status = processStatus(pid);
    this.#write(rank, controlLayout.rank.startTicks, status.state === 'running' ? status.startTicks : 0);
    this.#write(rank, controlLayout.rank.pid, pid);
    this.#write(rank, controlLayout.rank.state, rankState.attached);
  }

  /** Says that `rank` has shut down in good order: from now on its end is no loss. */
  leave(rank: number): void {
    this.#write(rank, controlLayout.rank.state, rankState.left);
  }

  state(rank: number): RankState {
    return stateNames[this.#header(rank).state] ?? 'absent';
  }

  /** 0 for a rank that never attached. */
  pid(rank: number): number {
    return this.#header(rank).pid;
  }

  /** For the launcher: how the process of `rank` ended. */
  recordExit(rank: number, end: ProcessEnd): void {
    const isSignal = 'signal' in end;
    this.#write(rank, controlLayout.rank.exitValue, isSignal ? signalNumber(end.signal) : end.code);
    // Last, because it makes the value valid.
    this.#write(rank, controlLayout.rank.exitKind, isSignal ? exitKind.signalled : exitKind.exited);
  }

  /**
   * Records why the job fails; the first record stays and true is returned to its writer. Two ranks that fail
   * within the same microseconds may both be told so: files have no compare-and-swap. The record read is a
   * whole one all the same, since each goes out in one write, and either is a true first cause.
   */
  fail(record: FailureRecord): boolean {
    const { job } = controlLayout;
    // State 1 that stays: its writer was killed between the two writes, and the record is ours to write.
    if (this.#poll(() => this.#failureState() !== 1) && this.#failureState() === 2) return false;
    const text = encodeRecord(record, controlLayout.textBytes);
    const length = Buffer.alloc(controlLayout.textOffset - job.failureBytes);
    length.writeUInt32LE(text.length);
    const lengthAndText = Buffer.concat([length, text]);
    this.#writeWord(job.failureState, 1);
    writeSync(this.fd, lengthAndText, 0, lengthAndText.length, job.failureBytes);
    this.#writeWord(job.failureState, 2);
    return true;
  }

  failure(): FailureRecord | undefined {
    if (this.#failureState() !== 2) return undefined;
    let record: FailureRecord | undefined;
    // A second writer (see `fail`) may be at work while we read; then the text parses a moment later.
    this.#poll(() => {
      record = decodeFailureRecord(this.#readText(0, controlLayout.job.failureBytes));
      return record !== undefined;
    });
    return record;
  }

  /** Whether ranks have stopped writing into each other's memory, because the job has failed. */
  get isClosed(): boolean {
    return this.#read(controlLayout.job.closed) !== 0;
  }

  /** Whether the driver of an elastic job wants another membership: the ranks ask at their commits. */
  get notice(): boolean {
    return this.#read(controlLayout.job.notice) !== 0;
  }

  /** For the launcher of an elastic job. It stays for as long as the block does. */
  setNotice(): void {
    this.#writeWord(controlLayout.job.notice, 1);
  }

  /** Whether `rank` may be writing into the memory of another one. */
  isTouching(rank: number): boolean {
    return this.#read(this.#page(rank) + controlLayout.rank.touching) !== 0;
  }

  /** Says that `rank` is about to be killed because others wait for it with the fence. */
  markKilledByFence(rank: number): void {
    this.#write(rank, controlLayout.rank.killedByFence, 1);
  }

  wasKilledByFence(rank: number): boolean {
    return this.#read(this.#page(rank) + controlLayout.rank.killedByFence) !== 0;
  }

  /** What this rank has to say before it dies: the error it dies of. */
  writeLastWords(rank: number, error: unknown): void {
    const text = encodeRecord(toErrorRecord(error), controlLayout.textBytes);
    writeSync(this.fd, text, 0, text.length, this.#page(rank) + controlLayout.textOffset);
    this.#write(rank, controlLayout.rank.lastWordsBytes, text.length);
  }

  lastWords(rank: number): ErrorRecord | undefined {
    return decodeErrorRecord(this.#readText(this.#page(rank), controlLayout.rank.lastWordsBytes));
  }

  /** How the process of `rank` ended, as the launcher has recorded it. */
  exit(rank: number): ProcessEnd | undefined {
    return this.#header(rank).exit;
  }

  /**
   * The error to throw if `rank` is not there any more: ERR_HVD_PEER_LOST for one that died, ERR_HVD_SHUT_DOWN
   * for one that left. Undefined while it is alive, or has not come yet.
   */
  lossOf(rank: number): HorovodError | undefined {
    const { state, pid, remotePid, host, isOver, exit } = this.#header(rank);
    if (state === rankState.left) {
      return new HorovodError(
        'ERR_HVD_SHUT_DOWN',
        `${describeRank(rank, pid || remotePid, host)} has shut down and no longer takes part in anything. ` +
          'Every rank has to make the same collective calls before it calls shutdown().',
        { rank, pid: pid || remotePid },
      );
    }
    if (isOver) return this.#lost(rank, pid || remotePid, host, exit);
    if (pid === 0) return undefined;
    const end = this.#endOf(rank, pid);
    return end === undefined ? undefined : this.#lost(rank, pid, host, end === 'unknown' ? undefined : end);
  }

  /** What to tell other hosts of `rank` of this one; undefined while it is alive, or has not come yet. */
  departureOf(rank: number, host: string): Departure | undefined {
    const loss = this.lossOf(rank);
    if (loss === undefined) return undefined;
    const { signal, exitCode } = loss;
    const exit = signal !== undefined ? { signal } : exitCode !== undefined ? { code: exitCode } : undefined;
    const lastWords = this.lastWords(rank);
    return { host, pid: loss.pid ?? 0, hasLeft: loss.code === 'ERR_HVD_SHUT_DOWN', exit, lastWords };
  }

  /** Writes down that `rank`, of another host, has left or died. What is known already stays. */
  mirror(rank: number, departure: Departure): void {
    const { rank: at, hostLimit, textBytes, textOffset } = controlLayout;
    const { state, isOver } = this.#header(rank);
    if (state !== rankState.absent || isOver) return;
    const host = Buffer.from(departure.host).subarray(0, hostLimit);
    writeSync(this.fd, host, 0, host.length, this.#page(rank) + at.host);
    this.#write(rank, at.hostBytes, host.length);
    this.#write(rank, at.remotePid, departure.pid);
    if (departure.lastWords !== undefined) {
      const text = encodeRecord(departure.lastWords, textBytes);
      writeSync(this.fd, text, 0, text.length, this.#page(rank) + textOffset);
      this.#write(rank, at.lastWordsBytes, text.length);
    }
    // Last, because they make the rest valid.
    if (departure.hasLeft) this.leave(rank);
    else if (departure.exit !== undefined) this.recordExit(rank, departure.exit);
    else this.#write(rank, at.exitKind, exitKind.unknown);
  }

  /** What `rank` is doing, in at most `controlLayout.statusBytes`. `sequence` counts from 1. */
  writeStatus(rank: number, sequence: number, text: Buffer): void {
    if (text.length > controlLayout.statusBytes) throw new RangeError(`a status of ${text.length} bytes`);
    writeStatusPage(this.fd, this.#statusPage(rank), sequence, text);
  }

  /** Undefined where it has not been written, or cannot be read just now. */
  readStatus(rank: number): StatusPage | undefined {
    return readStatusPage(this.fd, this.#statusPage(rank), controlLayout.pageBytes);
  }

  /** For the launcher of an elastic job: what it says about the job. */
  writeNews(sequence: number, text: Buffer): void {
    writeStatusPage(this.fd, this.#statusPage(0) + this.ranks * controlLayout.pageBytes, sequence, text);
  }

  readNews(): StatusPage | undefined {
    const position = this.#statusPage(0) + this.ranks * controlLayout.pageBytes;
    return readStatusPage(this.fd, position, controlLayout.pageBytes);
  }

  /** How busy the host is whose first rank is `rank`. */
  writeHost(rank: number, sequence: number, text: Buffer): void {
    if (text.length > controlLayout.statusBytes) throw new RangeError(`a page of ${text.length} bytes`);
    writeStatusPage(this.fd, this.#hostPage(rank), sequence, text);
  }

  /** Undefined where it has not been written, or cannot be read just now. */
  readHost(rank: number): StatusPage | undefined {
    return readStatusPage(this.fd, this.#hostPage(rank), controlLayout.pageBytes);
  }

  close(): void {
    this.#file.close();
  }

  #hostPage(rank: number): number {
    return this.#page(rank) + (1 + 2 * this.ranks) * controlLayout.pageBytes;
  }

  #statusPage(rank: number): number {
    return this.#page(rank) + this.ranks * controlLayout.pageBytes;
  }

  #endOf(rank: number, pid: number): ProcessEnd | 'unknown' | undefined {
    const { lifeWord, startTicks } = this.#header(rank);
    const isDying = (lifeWord & ownerDiedBit) !== 0;
    const status = processStatus(pid);
    if (status.state === 'ended' && status.end !== undefined) return status.end;
    if (status.state === 'running') {
      const isAnother = startTicks !== 0 && status.startTicks !== 0 && status.startTicks !== startTicks;
      if (!isDying && !isAnother) return undefined;
      // On its way out, threads still ending: the exit code is there before the state is.
      if (isDying && !isAnother && status.exitCodeWord !== 0) return decodeWaitStatus(status.exitCodeWord);
    }
    // Dead for certain. The launcher, which has reaped it, is about to write down why.
    let exit: ProcessEnd | undefined;
    this.#poll(() => {
      exit = this.#header(rank).exit;
      const later = exit === undefined && isDying ? processStatus(pid) : undefined;
      if (later?.state === 'ended') exit = later.end;
      return exit !== undefined;
    });
    return exit ?? 'unknown';
  }

  #lost(rank: number, pid: number, host: string, end: ProcessEnd | undefined): HorovodError {
    const who = describeRank(rank, pid, host);
    const words = this.lastWords(rank);
    return new HorovodError('ERR_HVD_PEER_LOST', `${who} ${describeEnd(end, pid !== 0)}`, {
      rank,
      ...(pid === 0 ? {} : { pid }),
      ...(end === undefined ? {} : 'signal' in end ? { signal: end.signal } : { exitCode: end.code }),
      ...(words === undefined ? {} : { cause: causeOf(words) }),
    });
  }

  #header(rank: number): {
    state: number;
    pid: number;
    lifeWord: number;
    startTicks: number;
    remotePid: number;
    /** Empty for a rank of this host. */
    host: string;
    /** True for any exit kind but 'running'. */
    isOver: boolean;
    exit: ProcessEnd | undefined;
  } {
    const { rank: at } = controlLayout;
    const bytes = Buffer.alloc(headerBytes);
    readSync(this.fd, bytes, 0, headerBytes, this.#page(rank));
    const kind = bytes.readUInt32LE(at.exitKind);
    const value = bytes.readInt32LE(at.exitValue);
    const hostBytes = Math.min(bytes.readUInt32LE(at.hostBytes), controlLayout.hostLimit);
    return {
      state: bytes.readUInt32LE(at.state),
      pid: bytes.readUInt32LE(at.pid),
      lifeWord: bytes.readUInt32LE(at.lifeWord),
      startTicks: bytes.readUInt32LE(at.startTicks),
      remotePid: bytes.readUInt32LE(at.remotePid),
      host: bytes.toString('utf8', at.host, at.host + hostBytes),
      isOver: kind !== exitKind.running,
      exit:
        kind === exitKind.exited
          ? { code: value }
          : kind === exitKind.signalled
            ? { signal: signalName(value) }
            : undefined,
    };
  }

  #page(rank: number): number {
    if (!Number.isInteger(rank) || rank < 0 || rank >= this.ranks) {
      throw new RangeError(`rank ${rank} in a control block of ${this.ranks}`);
    }
    return (1 + rank) * controlLayout.pageBytes;
  }

  #write(rank: number, at: number, value: number): void {
    this.#writeWord(this.#page(rank) + at, value);
  }

  #writeWord(position: number, value: number): void {
    const word = Buffer.alloc(4);
    word.writeInt32LE(value | 0);
    writeSync(this.fd, word, 0, 4, position);
  }

  #failureState(): number {
    return this.#read(controlLayout.job.failureState);
  }

  #read(position: number): number {
    const word = Buffer.alloc(4);
    readSync(this.fd, word, 0, 4, position);
    return word.readUInt32LE();
  }

  #readText(page: number, lengthAt: number): Buffer {
    const bytes = Buffer.alloc(controlLayout.pageBytes);
    readSync(this.fd, bytes, 0, bytes.length, page);
    const length = Math.min(bytes.readUInt32LE(lengthAt), controlLayout.textBytes);
    return bytes.subarray(controlLayout.textOffset, controlLayout.textOffset + length);
  }

  /** Blocks up to `settleMs`; true as soon as `isDone` is. */
  #poll(isDone: () => boolean): boolean {
    const deadline = performance.now() + settleMs;
    const clock = new Int32Array(new SharedArrayBuffer(4));
    while (!isDone()) {
      if (performance.now() >= deadline) return false;
      Atomics.wait(clock, 0, 0, 1);
    }
    return true;
  }
}

function notABlock(path: string): HorovodError {
  const text = `${path} is not the control block of this Horovod job. Do all ranks run the same version of horovod?`;
  return new HorovodError('ERR_HVD_RENDEZVOUS', text);
}

function otherLayout(path: string, theirs: number): HorovodError {
  return new HorovodError(
    'ERR_HVD_VERSION',
    `${path} is the control block of a job whose horovod has memory layout ${theirs}; this process has layout ` +
      `${layoutVersion}. Use the same version of horovod for the ranks, horovodrun and the command horovod.`,
  );
}
