// One launch(): checks the program, starts its ranks as horovodrun does, shows them in the cell, and ends with a result or an error that
// names the cell.

import { rmSync } from 'node:fs';
import { dirname } from 'node:path';
import { HorovodError } from '../../errors.ts';
import { processEnvironment } from '../../settings/environment.ts';
import { settingError } from '../../settings/setting.ts';
import { absoluteLocation } from '../../settings/table/absolute-location.ts';
import { settingsTable } from '../../settings/table.ts';
import type { RankEnd } from '../failure-report/root-cause.ts';
import { Job } from '../job.ts';
import { jobRequest } from '../job-request.ts';
import type { PlaceGiver } from '../places/place-giver.ts';
import { JobWatch, lineListener } from '../run/job-watch.ts';
import { type PlannedLaunch, planLaunch } from '../run/plan-launch.ts';
import { writerTo } from '../run/writer-to.ts';
import { programError } from './cell-error.ts';
import { checkProgram, fetchProgram, type Program } from './check-program.ts';
import { Companions } from './companions.ts';
import { JobProgress } from './job-progress.ts';
import { openDisplay } from './kernel-display.ts';
import type { NotebookOptions, NotebookResult } from './launch.ts';
import { programOfRanks } from './node-program.ts';
import { PacedDisplay } from './paced-display.ts';
import { printedError } from './printed-error.ts';
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
  /** A cluster manager that gives the job its places. Default: that of the options, if they have one. */
  readonly givePlaces?: PlaceGiver | undefined;
}

export async function runProgram(request: ProgramRequest): Promise<NotebookResult> {
  try {
    return await runJob(request);
  } catch (error) {
    // Frames of this package say nothing to its users; those of the rank are in the cause.
    if (HorovodError.is(error)) error.stack = `${error.name}: ${error.message}`;
    throw error;
  }
}

async function runJob(request: ProgramRequest): Promise<NotebookResult> {
  const { program: asked, options, signal, onProgress } = request;
  if (signal.aborted) throw stopped(signal);
  const give = request.givePlaces ?? (await sparkOf(options));
  const fetched = give === undefined ? undefined : await fetchProgram(asked, signal);
  let program: Program;
  try {
    program = checkProgram(fetched?.path ?? asked, options.parameters);
  } finally {
    if (fetched !== undefined) rmSync(dirname(fetched.path), { recursive: true });
  }
  const node = programOfRanks({
    runtime: options.runtime,
    isNotebook: program.notebook !== undefined,
    path: processEnvironment()['PATH'],
  });
  const display = openDisplay(options.display ?? 'auto', print);
  const hears: Hears = { notes: [], remarks: [] };
  const note = (text: string) => {
    if (hears.progress === undefined) hears.notes.push(text);
    else hears.progress.note(text);
    if (display.kind === 'text') print(`horovod.launch: ${text}`);
  };
  const tellUser = lineListener(options.onOutput, note);
  const output = { showOutput: options.showOutput ?? display.kind === 'text' };
  const planned = withTensorBoardFolder(
    await planLaunch({
      caller: 'launch',
      options: { ...options, signal },
      command: [program.path],
      givePlaces: give && (async (wanted) => Object.assign(await give(wanted), { sent: fetched?.sent })),
      node,
      stdout: writerTo('stdout', output),
      stderr: writerTo('stderr', output),
      say(text) {
        hears.remarks.push(text);
        // The error has it.
        if (!text.startsWith('The job has failed')) note(text);
      },
      variables: {
        ...given('notebookParameters', program.parameters),
        ...given('tensorboardDir', typeof options.tensorboard === 'string' ? options.tensorboard : undefined),
      },
      onLine(line) {
        hears.progress?.logs.add(line.rank, line.stream, line.text);
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
  let companions: Companions | undefined;
  const stop = new StopRequest(signal, (kind) => job?.interrupt(kind));
  shown.changed();
  try {
    companions = await Companions.start({
      planned,
      title: program.name,
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
    const started = await start(companions.planned);
    job = started;
    // It may have come while the job was starting.
    if (stop.hasCome) job.interrupt('SIGTERM');
    companions.show(started, () => stop.note());
    watch.begin(() => started.look?.());
    const exitCode = await started.finish();
    watch.end();
    if (stop.hasCome) throw stopped(signal);
    const report = hears.remarks.at(-1) ?? '';
    if (exitCode !== 0)
      throw programError(program, printedError(started.failure, progress.logs, size), report, exitCode);
    progress.end('done', Date.now());
    companions.finish(0);
    return {
      size: progress.view?.ranks.length ?? size,
      elapsedMs: progress.elapsedMs(Date.now()),
      metrics: Object.fromEntries(progress.metrics),
    };
  } catch (error) {
    watch.end();
    const isStop = HorovodError.is(error) && error.code === 'ERR_HVD_ABORTED';
    companions?.finish(1, textOf(error));
    progress.end(isStop ? 'stopped' : 'failed', Date.now(), isStop ? undefined : textOf(error));
    throw error;
  } finally {
    clearInterval(ticker);
    stop.close();
    await planned.launch.places?.close();
    await Promise.all([shown.end(), companions?.close()]);
  }
}

/** Who hears of the job; they come one after the other. */
interface Hears {
  /** What was said before there was a box. */
  readonly notes: string[];
  /** All that the launcher has said. */
  readonly remarks: string[];
  progress?: JobProgress;
}

/** A wish to end the job: by job.stop(), by the user's signal, by Jupyter's Stop button, or by the page of the dashboard. */
class StopRequest {
  readonly #signal: AbortSignal;
  readonly #onAbort: () => void;
  readonly #onInterrupt: () => void;
  #wasNoted = false;

  constructor(signal: AbortSignal, interrupt: (kind: NodeJS.Signals) => void) {
    this.#signal = signal;
    this.#onAbort = () => interrupt('SIGTERM');
    // Without this, tslab would free the cell, and the ranks would go on.
    this.#onInterrupt = () => {
      this.note();
      interrupt('SIGINT');
    };
    signal.addEventListener('abort', this.#onAbort, { once: true });
    process.on('SIGINT', this.#onInterrupt);
  }

  /** Somebody else ends it. */
  note(): void {
    this.#wasNoted = true;
  }

  get hasCome(): boolean {
    return this.#wasNoted || this.#signal.aborted;
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

async function sparkOf({
  spark,
  hosts,
  hostfile,
  discover,
}: NotebookOptions): Promise<PlaceGiver | undefined> {
  if (spark === undefined) return undefined;
  if (hosts !== undefined || hostfile !== undefined || discover !== undefined)
    throw settingError(
      'launch: hosts, hostfile and discover are for hosts of your own; Spark chooses its own.',
    );
  return (await import('../spark/start-spark-run.ts')).placesOfSparkSubmit(spark);
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
