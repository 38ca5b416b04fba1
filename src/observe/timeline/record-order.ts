// An order from outside of the ranks to record a timeline of the next steps: it lies in the page of the job in the control block of each host
// (control/control-layout.ts). Each rank looks there at the end of a step now and then, starts its timeline, and stops it after so many
// steps. Rank 0, whose collector writes the file, notes down how far it is.

import { readSync, writeSync } from 'node:fs';
import type { Log } from '../../console/log.ts';
import { readStatusPage, writeStatusPage } from '../../control/status-page.ts';
import type { OperationObserver } from '../../engine/observer.ts';
import type { StepMark } from '../../engine/step-clock.ts';
import { isRingRead } from './ring-registry.ts';
import type { Timeline } from './timeline.ts';

export interface RecordOrder {
  /** Another one than that of the order before; at least 1. */
  readonly number: number;
  readonly steps: number;
  /** Written by rank 0 on its host. */
  readonly file: string;
}

export type RecordProgress = 'none' | 'begun' | 'done' | 'failed';

const progressAt = 40;
const orderAt = 64;
/** The text of the job's failure follows at 508. */
const orderBytes = 440;
/** Longer paths do not fit. */
export const maxFileLength = 300;
const progresses: readonly RecordProgress[] = ['none', 'begun', 'done', 'failed'];
/** How often a rank looks for an order. */
const lookMs = 200;

export function writeRecordOrder(controlFd: number, order: RecordOrder): void {
  writeStatusPage(controlFd, orderAt, order.number, Buffer.from(JSON.stringify(order)));
}

/** Of the order with this number. */
export function recordProgress(controlFd: number, number: number): RecordProgress {
  const word = Buffer.alloc(4);
  readSync(controlFd, word, 0, 4, progressAt);
  const value = word.readUInt32LE(0);
  return value >>> 2 === number ? (progresses[value & 3] ?? 'none') : 'none';
}

function readRecordOrder(controlFd: number): RecordOrder | undefined {
  const page = readStatusPage(controlFd, orderAt, orderBytes);
  if (page === undefined) return undefined;
  try {
    const { number, steps, file } = JSON.parse(page.text) as Record<string, unknown>;
    const isWhole = Number.isSafeInteger(number) && Number.isSafeInteger(steps) && typeof file === 'string';
    return isWhole ? { number: number as number, steps: steps as number, file } : undefined;
  } catch {
    return undefined;
  }
}

export interface RecordedRank {
  readonly rank: number;
  readonly timeline: Pick<Timeline, 'start' | 'stop'>;
  readonly log: Log;
  /** Of the host; undefined: nobody can give this rank an order. */
  readonly controlFd: number | undefined;
}

/** Carries out the orders. Errors are logged: training goes on. */
export class RecordOrders implements OperationObserver {
  readonly name = 'recording on demand';
  readonly #rank: RecordedRank;
  #lookAtMs = 0;
  #last: number;
  #recording: (Pick<RecordOrder, 'number' | 'steps'> & { untilStep: number | undefined }) | undefined;

  constructor(rank: RecordedRank) {
    this.#rank = rank;
    // One that was given before this rank began is not for it.
    this.#last = rank.controlFd === undefined ? 0 : (readRecordOrder(rank.controlFd)?.number ?? 0);
  }

  step({ step, atMs }: StepMark): void {
    const { controlFd } = this.#rank;
    if (controlFd === undefined) return;
    const recording = this.#recording;
    if (recording?.untilStep !== undefined) {
      if (step >= recording.untilStep) void this.#end(recording.number);
    } else if (recording !== undefined && isRingRead(controlFd)) {
      // Steps count when rank 0 collects them, and the one that runs is not whole.
      recording.untilStep = step + recording.steps + 1;
    }
    if (atMs < this.#lookAtMs) return;
    this.#lookAtMs = atMs + lookMs;
    const order = readRecordOrder(controlFd);
    if (order === undefined || order.number === this.#last) return;
    this.#last = order.number;
    void this.#begin(order);
  }

  async #begin({ number, steps, file }: RecordOrder): Promise<void> {
    const { timeline, log } = this.#rank;
    try {
      await timeline.start(file);
    } catch (error) {
      this.#note(number, 'failed');
      log.write(
        'warning',
        `The timeline that the dashboard asked for is not recorded: ${(error as Error).message}`,
      );
      return;
    }
    this.#recording = { number, steps, untilStep: undefined };
    this.#note(number, 'begun');
  }

  async #end(number: number): Promise<void> {
    this.#recording = undefined;
    await this.#rank.timeline.stop();
    this.#note(number, 'done');
  }

  #note(number: number, progress: RecordProgress): void {
    const { rank, controlFd } = this.#rank;
    if (rank !== 0 || controlFd === undefined) return;
    const word = Buffer.alloc(4);
    word.writeUInt32LE(((number << 2) | progresses.indexOf(progress)) >>> 0, 0);
    try {
      writeSync(controlFd, word, 0, 4, progressAt);
    } catch {
      // The context was closed meanwhile.
    }
  }
}
