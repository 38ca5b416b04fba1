// "Record 50 steps" of the dashboard: the ranks record a timeline, rank 0 writes it into a temporary folder of this machine, and another
// process makes a page of it, because that takes seconds. Both files can then be opened from the dashboard. They go with it.

import { type ChildProcess, execFile } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { constants, setPriority, tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { HorovodError } from '../../errors.ts';
import type { NewEvent } from '../../observe/dashboard/events.ts';
import type { ExtraFile } from '../../observe/dashboard/server.ts';
import type { JobView } from '../../observe/status/job-view.ts';
import type { RecordOrder, RecordProgress } from '../../observe/timeline/record-order.ts';

export interface RecordableJob {
  look?(): JobView | undefined;
  record?(order: RecordOrder): void;
  recordProgress?(number: number): RecordProgress | undefined;
}

const lookMs = 200;
/** Ranks look for an order at the end of a step. */
const beginMs = 30_000;
const recordMs = 10 * 60_000;
const reportMs = 5 * 60_000;

export class Recordings {
  readonly #job: () => RecordableJob | undefined;
  readonly #note: (event: NewEvent) => void;
  readonly #close = new AbortController();
  #folder: string | undefined;
  #count = 0;
  #isRecording = false;
  #reporter: ChildProcess | undefined;

  constructor(job: () => RecordableJob | undefined, note: (event: NewEvent) => void) {
    this.#job = job;
    this.#note = note;
  }

  /** Rejects with ERR_HVD_TIMELINE if it cannot begin. Events tell the rest. */
  async record(steps: number): Promise<void> {
    const job = this.#job();
    if (this.#isRecording) throw cannot('a timeline is being recorded already');
    if (job?.record === undefined || job.recordProgress === undefined)
      throw cannot('the ranks of this job cannot be reached from its launcher');
    const first = job.look?.()?.ranks[0];
    if (first?.presence !== 'here') throw cannot('no rank trains at the moment');
    if (!first.isLocal)
      throw cannot('rank 0 runs on another machine and would write the file there: use --timeline-filename');
    this.#folder ??= mkdtempSync(join(tmpdir(), 'horovod-dashboard-'));
    const number = ++this.#count;
    const file = join(this.#folder, `timeline-${number}.json`);
    this.#isRecording = true;
    job.record({ number, steps, file });
    void this.#follow(job, { number, steps, file }).finally(() => {
      this.#isRecording = false;
    });
  }

  /** 'timeline/1.html', 'timeline/1.json' */
  async file(name: string): Promise<ExtraFile | undefined> {
    const [, number, kind] = /^timeline\/(\d{1,6})\.(html|json)$/.exec(name) ?? [];
    if (number === undefined || this.#folder === undefined) return undefined;
    try {
      const bytes = await readFile(join(this.#folder, `timeline-${number}.${kind}`));
      return kind === 'html'
        ? { type: 'text/html; charset=utf-8', bytes, isSandboxed: true }
        : { type: 'application/json', bytes, download: `timeline-${number}.json` };
    } catch {
      return undefined;
    }
  }

  close(): void {
    this.#close.abort();
    this.#reporter?.kill('SIGKILL');
    if (this.#folder !== undefined) rmSync(this.#folder, { recursive: true, force: true });
  }

  async #follow(job: RecordableJob, { number, steps, file }: RecordOrder): Promise<void> {
    const has = (wanted: readonly RecordProgress[]) =>
      wanted.includes(job.recordProgress?.(number) ?? 'none');
    const what = `${steps} ${steps === 1 ? 'step' : 'steps'}`;
    if (!(await this.#until(() => has(['begun', 'done', 'failed']), beginMs)))
      return this.#failed(
        'no rank has begun to record: no step has ended, or the training loop does not return to the event loop',
      );
    if (has(['failed'])) return this.#failed('rank 0 cannot record; its log says why');
    this.#note({ kind: 'timeline', tone: 'good', text: `The ranks record a timeline of ${what}.` });
    if (!(await this.#until(() => has(['done']), recordMs)))
      return this.#failed(`the ranks have not done ${what} in ${recordMs / 60_000} minutes`);
    const isDrawn = await this.#draw(file);
    if (this.#close.signal.aborted) return;
    if (isDrawn)
      this.#note({
        kind: 'timeline',
        tone: 'good',
        text: `Timeline of ${what}: picture and report`,
        href: `timeline/${number}.html`,
      });
    this.#note({
      kind: 'timeline',
      tone: 'good',
      text: `Timeline of ${what}: download for chrome://tracing or Perfetto`,
      href: `timeline/${number}.json`,
    });
  }

  #failed(why: string): void {
    if (!this.#close.signal.aborted)
      this.#note({ kind: 'timeline', tone: 'bad', text: `The timeline was not recorded: ${why}.` });
  }

  /** False: it took too long, or the dashboard is closed. */
  #until(isDone: () => boolean, limitMs: number): Promise<boolean> {
    const deadline = performance.now() + limitMs;
    return new Promise((resolve) => {
      const timer = setInterval(() => {
        const isOver = this.#close.signal.aborted || performance.now() > deadline;
        if (!isOver && !isDone()) return;
        clearInterval(timer);
        resolve(!isOver);
      }, lookMs).unref();
    });
  }

  #draw(file: string): Promise<boolean> {
    const command = fileURLToPath(new URL('../../cli/main.js', import.meta.url));
    const args = [command, 'timeline', 'report', file, '--html', file.replace(/json$/, 'html')];
    return new Promise((resolve) => {
      const child = execFile(process.execPath, args, { timeout: reportMs }, (error) =>
        resolve(error === null),
      );
      this.#reporter = child;
      try {
        // The ranks need the processor more.
        if (child.pid !== undefined) setPriority(child.pid, constants.priority.PRIORITY_BELOW_NORMAL);
      } catch {
        // It has ended already, or the system forbids it.
      }
    });
  }
}

function cannot(why: string): HorovodError {
  return new HorovodError('ERR_HVD_TIMELINE', `The timeline cannot be recorded: ${why}.`);
}
