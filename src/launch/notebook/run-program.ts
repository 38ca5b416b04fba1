// One launch(): checks the program, starts its ranks as horovodrun does, shows them in the cell, and ends with a result or an error that
// names the cell.

import { HorovodError } from '../../errors.ts';
import { processEnvironment } from '../../settings/environment.ts';
import { absoluteLocation } from '../../settings/table/absolute-location.ts';
import { settingsTable } from '../../settings/table.ts';
import type { RankEnd } from '../failure-report/root-cause.ts';
import { Job } from '../job.ts';
import { jobRequest } from '../job-request.ts';
import { JobWatch, lineListener } from '../run/job-watch.ts';
import { type PlannedLaunch, planLaunch } from '../run/plan-launch.ts';
import { writerTo } from '../run/writer-to.ts';
import { type PrintedError, programError } from './cell-error.ts';
import { checkProgram } from './check-program.ts';
import { Companions } from './companions.ts';
import { JobProgress } from './job-progress.ts';
import { openDisplay } from './kernel-display.ts';
import type { NotebookOptions, NotebookResult } from './launch.ts';
import { nodeForRanks } from './node-program.ts';
import { PacedDisplay } from './paced-display.ts';
import { progressBox } from './progress-box.ts';

/** What a job of any kind can do. */
interface StartedJob {
  readonly failure?: RankEnd | undefined;
  look?(): ReturnType<Job['look']>;
  interrupt(signal: NodeJS.Signals): void;
  finish(): Promise<number>;
}

export interface ProgramRequest {
  readonly program: unknown;
  readonly options: NotebookOptions;
  readonly signal: AbortSignal;
  /** Gets what is known of the job, which grows while it runs. */
  readonly onProgress: (progress: JobProgress) => void;
}

export async function runProgram({
  program: asked,
  options,
  signal,
  onProgress,
}: ProgramRequest): Promise<NotebookResult> {
  if (signal.aborted) throw stopped(signal);
  const program = checkProgram(asked, options.parameters);
  const display = openDisplay(options.display ?? 'auto', print);
  const hears: Hears = { notes: [], remarks: [] };
  const note = (text: string) => {
    if (hears.progress === undefined) hears.notes.push(text);
    else hears.progress.note(text);
    hears.companions?.said(text);
    if (display.kind === 'text') print(`horovod.launch: ${text}`);
  };
  const tellUser = lineListener(options.onOutput, note);
  const output = { showOutput: options.showOutput ?? display.kind === 'text' };
  const planned = withTensorBoardFolder(
    await planLaunch({
      caller: 'launch',
      options,
      command: [program.path],
      node: nodeForRanks(processEnvironment()['PATH']),
      stdout: writerTo('stdout', output),
      stderr: writerTo('stderr', output),
      say(text) {
        hears.remarks.push(text);
        // The error has it.
        if (text.startsWith('The job has failed')) hears.companions?.said(text);
        else note(text);
      },
      variables: {
        ...given('notebookParameters', program.parameters),
        ...given('tensorboardDir', typeof options.tensorboard === 'string' ? options.tensorboard : undefined),
      },
      onLine(line) {
        hears.progress?.logs.add(line.rank, line.stream, line.text);
        hears.companions?.line(line);
        tellUser?.(line);
      },
    }),
  );
  const size = sizeOf(planned);
  const progress = new JobProgress(program.name, size, Date.now());
  hears.progress = progress;
  for (const text of hears.notes) progress.note(text);
  onProgress(progress);
  if (program.skipped !== undefined) note(program.skipped);
  const shown = new PacedDisplay(display, () => progressBox(progress.content(Date.now())));
  const watch = new JobWatch(options.onStatus, note, (view) => {
    progress.see(view);
    shown.changed();
  });
  const ticker = setInterval(() => shown.changed(), tickMs);
  let job: StartedJob | undefined;
  const stop = new StopRequest(signal, (kind) => job?.interrupt(kind));
  shown.changed();
  try {
    hears.companions = await Companions.start({
      planned,
      size,
      tensorboard: options.tensorboard,
      dashboard: options.dashboard,
      // The box has a link.
      say: (text) =>
        display.kind === 'box' && text.startsWith('TensorBoard shows') ? undefined : note(text),
      onLink(link) {
        progress.link(link);
        if (display.kind === 'text' && link.title === 'Dashboard')
          print(`horovod.launch: the dashboard is at ${link.url}`);
        shown.changed();
      },
    });
    const started = await start(planned);
    job = started;
    // It may have come while the job was starting.
    if (stop.hasCome) job.interrupt('SIGTERM');
    hears.companions.show(started);
    watch.begin(() => started.look?.());
    const exitCode = await started.finish();
    watch.end();
    hears.companions.finish(exitCode);
    if (stop.hasCome) throw stopped(signal);
    const report = hears.remarks.at(-1) ?? '';
    if (exitCode !== 0)
      throw programError(program, printedError(started.failure, progress, size), report, exitCode);
    progress.end('done', Date.now());
    return {
      size: progress.view?.ranks.length ?? size,
      elapsedMs: progress.elapsedMs(Date.now()),
      metrics: Object.fromEntries(progress.metrics),
    };
  } catch (error) {
    watch.end();
    const isStop = HorovodError.is(error) && error.code === 'ERR_HVD_ABORTED';
    // Frames of this package say nothing to its users; those of the rank are in the cause.
    if (HorovodError.is(error)) error.stack = `${error.name}: ${error.message}`;
    progress.end(isStop ? 'stopped' : 'failed', Date.now(), isStop ? undefined : textOf(error));
    throw error;
  } finally {
    clearInterval(ticker);
    stop.close();
    await Promise.all([shown.end(), hears.companions?.close()]);
  }
}

/** Who hears of the job; they come one after the other. */
interface Hears {
  /** What was said before there was a box. */
  readonly notes: string[];
  /** All that the launcher has said. */
  readonly remarks: string[];
  progress?: JobProgress;
  companions?: Companions;
}

/** A wish to end the job: by job.stop(), by the user's signal, or by Jupyter's Stop button. */
class StopRequest {
  readonly #signal: AbortSignal;
  readonly #onAbort: () => void;
  readonly #onInterrupt: () => void;
  #wasInterrupted = false;

  constructor(signal: AbortSignal, interrupt: (kind: NodeJS.Signals) => void) {
    this.#signal = signal;
    this.#onAbort = () => interrupt('SIGTERM');
    // Without this, tslab would free the cell, and the ranks would go on.
    this.#onInterrupt = () => {
      this.#wasInterrupted = true;
      interrupt('SIGINT');
    };
    signal.addEventListener('abort', this.#onAbort, { once: true });
    process.on('SIGINT', this.#onInterrupt);
  }

  get hasCome(): boolean {
    return this.#wasInterrupted || this.#signal.aborted;
  }

  close(): void {
    this.#signal.removeEventListener('abort', this.#onAbort);
    process.off('SIGINT', this.#onInterrupt);
  }
}

/** The time that is shown goes on while nothing else is new. */
const tickMs = 1000;

function print(text: string): void {
  console.log('%s', text);
}

function stopped(signal: AbortSignal): HorovodError {
  return new HorovodError('ERR_HVD_ABORTED', 'launch: the job was stopped.', { cause: signal.reason });
}

function textOf(error: unknown): string {
  return HorovodError.is(error) ? error.detail.replace(/^launch: /, '') : String(error);
}

async function start({ kind, launch }: PlannedLaunch): Promise<StartedJob> {
  if (kind === 'elastic') return (await import('../elastic/start.ts')).startElasticJob(launch);
  if (launch.settings.transport === 'mpi') return (await import('../mpirun/start.ts')).startMpirunJob(launch);
  return Job.start(jobRequest(launch));
}

function sizeOf({ kind, launch }: PlannedLaunch): number {
  return kind === 'fixed' ? launch.plan.slots.length : (launch.options.processes ?? 1);
}

function given(
  name: 'notebookParameters' | 'tensorboardDir',
  text: string | undefined,
): Record<string, string> {
  return text === undefined ? {} : { [settingsTable[name].env as string]: text };
}

/** A relative folder could be another one where the ranks run. */
function withTensorBoardFolder<P extends PlannedLaunch>(planned: P): P {
  const { environment, settings } = planned.launch;
  const dir = absoluteLocation(settings.tensorboardDir);
  const launch = {
    ...planned.launch,
    settings: { ...settings, tensorboardDir: dir },
    environment: { ...environment, ...given('tensorboardDir', dir) },
  };
  return { ...planned, launch };
}

function printedError(
  failure: RankEnd | undefined,
  { logs }: JobProgress,
  size: number,
): PrintedError | undefined {
  if (failure !== undefined) {
    const { rank, name = `rank ${rank}`, uncaught, lastWords } = failure;
    const lines = uncaught?.stack ?? lastWords?.stack.split('\n') ?? errorIn(logs.linesOf(rank));
    return lines === undefined || lines.length === 0 ? undefined : { rank, name, lines };
  }
  // Of mpirun, it is not known which rank failed first.
  for (let rank = 0; rank < size; rank++) {
    const lines = errorIn(logs.linesOf(rank));
    if (lines !== undefined) return { rank, name: `rank ${rank}`, lines };
  }
  return undefined;
}

/** The last error that was printed with a stack. */
function errorIn(lines: readonly { readonly text: string }[]): string[] | undefined {
  const isFrame = (text: string | undefined) => text !== undefined && /^\s+at /.test(text);
  const first = lines.findLastIndex(({ text }, index) => isFrame(text) && !isFrame(lines[index - 1]?.text));
  if (first < 1) return undefined;
  const rest = lines.slice(first).findIndex(({ text }) => !isFrame(text));
  const end = rest < 0 ? lines.length : first + rest;
  return lines.slice(first - 1, end).map(({ text }) => text);
}
