// horovodrun: from the command line to the exit code.

import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { HorovodError } from '../errors.ts';
import { isLocal } from '../files/location.ts';
import { type CommandLine, parseCommandLine } from '../settings/command-line.ts';
import { typedCommand } from '../settings/command-name.ts';
import { processEnvironment, showsInPlace } from '../settings/environment.ts';
import { packageVersion } from '../settings/package.ts';
import { settingError } from '../settings/setting.ts';
import { absoluteLocation } from '../settings/table/absolute-location.ts';
import { isElastic } from '../settings/table/elastic.ts';
import { type Settings, settingsTable } from '../settings/table.ts';
import type { JobDashboard, ShownJob } from './dashboard/job-dashboard.ts';
import { Job } from './job.ts';
import { jobRequest, type Launch, listedHosts, planHosts } from './job-request.ts';
import type { ConsoleWriter } from './output/console-writer.ts';
import type { OutputLine } from './output/line-reader.ts';
import { openConsole } from './output/terminal-writer.ts';
import type { PlaceGiver } from './places/place-giver.ts';
import { crowdedHint } from './spawn/allowed-cores.ts';
import { StartClock } from './start-clock.ts';
import { runNameVariable } from './tensorboard/run-name.ts';
import type { TensorBoardProcess } from './tensorboard/tensorboard-process.ts';

const usageExitCode = 2;

/** A cluster manager that gives the job its places, and has started this process. */
export interface LauncherOf {
  /** The program that the user has started. */
  readonly name: string;
  readonly give: PlaceGiver;
}

/** Runs horovodrun and ends this process. */
export async function main(argv: readonly string[], manager?: LauncherOf): Promise<never> {
  let job: Pick<Job, 'interrupt'> | undefined;
  // If the reader of our output has gone (`horovodrun … | head`), we end as other programs do.
  const onBroken = () => job?.interrupt('SIGPIPE');
  const console = openConsole(onBroken, showsInPlace());
  const { stdout, stderr } = console;
  const name = manager?.name ?? 'horovodrun';
  const say = (text: string) => void stderr.write(`${name}: ${text}\n`);
  const onStart = (started: Started) => {
    const isFirst = job === undefined;
    job = started;
    if (!isFirst) return;
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
      process.on(signal, () => job?.interrupt(signal));
    process.on('SIGUSR2', () => started.askForRecords?.());
    console.watch((columns) => started.resizeTerminal?.(columns));
  };
  let exitCode: number;
  try {
    exitCode = await run(argv, { stdout, stderr, terminalColumns: console.columns, say, onStart, manager });
  } catch (error) {
    if (!HorovodError.is(error)) throw error;
    say(error.detail);
    if (isUsageError(error)) say(`See \`${typedCommand('horovodrun')} --help\`.`);
    exitCode = isUsageError(error) ? usageExitCode : 1;
  }
  await Promise.all([stdout.flush(), stderr.flush()]);
  process.exit(exitCode);
}

interface Surroundings extends Pick<Launch, 'stdout' | 'stderr' | 'terminalColumns' | 'say'> {
  /** Who gets signals from now on. */
  readonly onStart: (job: Started) => void;
  readonly manager: LauncherOf | undefined;
}

type Started = Pick<Job, 'interrupt'> & Partial<Pick<Job, 'askForRecords' | 'resizeTerminal'>> & ShownJob;

async function run(argv: readonly string[], surroundings: Surroundings): Promise<number> {
  const parsed = parseCommandLine(argv, processEnvironment());
  const { options, settings, environment } = parsed;
  if (options.help || options.version || options.checkBuild) return runParsed(parsed, surroundings);
  const requested = { outputFilename: options.outputFilename, timelineFile: settings.timelineFile };
  if (Object.values(requested).every((file) => file === undefined || isLocal(file)))
    return runParsed(parsed, surroundings);
  const [{ Files }, { divertOutputs }] = await Promise.all([
    import('../files/registry.ts'),
    import('./output/outputs-on-servers.ts'),
  ]);
  const files = new Files(settings);
  const diverted = await divertOutputs(files, requested);
  if (diverted === undefined) return runParsed(parsed, surroundings);
  const { outputFilename, timelineFile } = diverted;
  const timeline = timelineFile === undefined ? {} : { HOROVOD_TIMELINE: timelineFile };
  try {
    return await runParsed(
      {
        ...parsed,
        options: { ...options, outputFilename },
        settings: { ...settings, timelineFile },
        environment: { ...environment, ...timeline },
      },
      surroundings,
    );
  } finally {
    await diverted.copy(surroundings.say);
    await files.close();
  }
}

async function runParsed(
  { options, command, environment, settings, notices }: CommandLine,
  surroundings: Surroundings,
): Promise<number> {
  const { stdout, stderr, terminalColumns, say, onStart, manager } = surroundings;
  const driverEnvironment = processEnvironment();
  if (options.help) return print(stdout, (await import('../settings/help.ts')).helpText());
  if (options.version) return print(stdout, `${packageVersion()}\n`);
  for (const notice of notices) say(notice);
  if (options.checkBuild) {
    const { checkBuild } = await import('./check-build.ts');
    return print(
      stdout,
      `${options.verbose ? '\n' : ''}${await checkBuild(packageVersion(), settings, driverEnvironment)}`,
    );
  }
  const clock = new StartClock(0);
  clock.mark('launcher');
  if (options.processes !== undefined && command.length === 0)
    throw settingError('the command to run is missing.');
  await checkNotebook(command, settings, say);
  if (options.keepGoing) checkKeepGoing(settings);
  if (options.tensorboardKeep && options.tensorboardPort === undefined)
    throw settingError('--tensorboard-keep needs --tensorboard.');
  const dashboard = await startDashboard({ options, command, environment, settings }, driverEnvironment, say);
  const heard = (text: string) => {
    say(text);
    dashboard?.said(text);
  };
  const { tensorboardPort: port } = options;
  const dir = absoluteLocation(settings.tensorboardDir);
  // A relative folder could be another one where the ranks run.
  const shownDir = port === undefined ? {} : { [settingsTable.tensorboardDir.env as string]: dir };
  const surrounded = {
    command,
    options,
    settings,
    environment: { ...environment, ...runNameVariable(), ...shownDir },
    driverEnvironment,
    stdout,
    stderr,
    terminalColumns,
    say: heard,
    clock,
    onLine: dashboard && ((line: OutputLine) => dashboard.line(line)),
  };
  let tensorboard: TensorBoardProcess | undefined;
  if (port !== undefined) {
    const { TensorBoardProcess } = await import('./tensorboard/tensorboard-process.ts');
    const { tensorboardCommand } = settings;
    tensorboard = TensorBoardProcess.start({
      command: tensorboardCommand,
      dir,
      port,
      environment: driverEnvironment,
      say: heard,
      onUrl: (url) => dashboard?.link('TensorBoard', url),
    });
  }
  try {
    const job = await startJob(surrounded, dashboard, manager);
    onStart(job);
    dashboard?.show(job, () => heard('the page of the dashboard stops the job.'));
    const exitCode = await job.finish();
    if (dashboard !== undefined) await endDashboard(dashboard, exitCode, options, surroundings);
    // One Ctrl-C ends both.
    const isKept = options.tensorboardKeep && !(dashboard !== undefined && options.dashboardKeep);
    if (isKept && tensorboard !== undefined) {
      const { keepTensorBoard } = await import('./tensorboard/keep.ts');
      await keepTensorBoard(tensorboard, say, onStart);
    }
    return exitCode;
  } finally {
    await Promise.all([tensorboard?.stop(), dashboard?.close()]);
  }
}

async function startDashboard(
  parsed: Pick<CommandLine, 'command' | 'options' | 'settings' | 'environment'>,
  driverEnvironment: NodeJS.ProcessEnv,
  say: (text: string) => void,
): Promise<JobDashboard | undefined> {
  const isWanted = Object.entries(parsed.options).some(
    ([name, value]) => name.startsWith('dashboard') && value !== undefined && value !== false,
  );
  if (!isWanted) return undefined;
  const { dashboardFromFlags } = await import('./dashboard/from-flags.ts');
  return dashboardFromFlags({ ...parsed, driverEnvironment, say });
}

async function endDashboard(
  dashboard: JobDashboard,
  exitCode: number,
  { dashboardSave: file, dashboardKeep: isKept }: CommandLine['options'],
  { say, onStart }: Surroundings,
): Promise<void> {
  dashboard.finish(exitCode);
  if (file !== undefined) await dashboard.save(file, say);
  if (!isKept) return;
  const { keepDashboard } = await import('./dashboard/from-flags.ts');
  await keepDashboard(dashboard, say, onStart);
}

async function startJob(
  surrounded: Omit<Launch, 'plan'> & { readonly clock: StartClock },
  dashboard: JobDashboard | undefined,
  manager: LauncherOf | undefined,
): Promise<Started & Pick<Job, 'finish'>> {
  const { options, settings, driverEnvironment, say, clock } = surrounded;
  if (manager !== undefined) return startInPlaces(surrounded, dashboard, manager.give);
  if (isElastic(settings)) {
    const { startElasticJob } = await import('./elastic/start.ts');
    return startElasticJob(surrounded);
  }
  const plan = await planHosts(options, settings.startTimeoutMs, driverEnvironment);
  clock.mark('resolve');
  dashboard?.planned(plan.slots);
  if (options.tensorboardPort !== undefined) {
    const { rankElsewhereText } = await import('./tensorboard/rank-elsewhere.ts');
    const elsewhere = rankElsewhereText(plan, settings.tensorboardDir);
    if (elsewhere !== undefined) say(elsewhere);
  }
  // --pin-cores has a warning of its own, and mpirun counts cores itself.
  const isOurs = settings.transport !== 'mpi' && !settings.pinCores;
  const localRanks = plan.slots.filter(({ hostname }) => !plan.remoteNames.has(hostname)).length;
  const hint = isOurs ? crowdedHint(localRanks) : undefined;
  if (hint !== undefined) say(hint);
  const launch = { ...surrounded, plan };
  return settings.transport === 'mpi'
    ? (await import('./mpirun/start.ts')).startMpirunJob(launch)
    : Job.start(jobRequest(launch));
}

async function startInPlaces(
  surrounded: Omit<Launch, 'plan'>,
  dashboard: JobDashboard | undefined,
  give: PlaceGiver,
): Promise<Started & Pick<Job, 'finish'>> {
  if (surrounded.command.length === 0) throw settingError('the command to run is missing.');
  if (listedHosts(surrounded.options) !== undefined)
    throw settingError('-H and --hostfile are for hosts of your own; here a cluster manager chooses them.');
  const { planInPlaces } = await import('./places/place-giver.ts');
  const planned = await planInPlaces(surrounded, isElastic(surrounded.settings), give);
  try {
    if (planned.kind === 'elastic') {
      const { startElasticJob } = await import('./elastic/start.ts');
      return await startElasticJob(planned.launch);
    }
    dashboard?.planned(planned.launch.plan.slots);
    return await Job.start(jobRequest(planned.launch));
  } catch (error) {
    await planned.launch.places?.close();
    throw error;
  }
}

/** Mistakes in a notebook are said once, before any rank starts. */
async function checkNotebook(
  [file = '']: readonly string[],
  { notebookParameters, transport }: Settings,
  say: (text: string) => void,
): Promise<void> {
  if (!/\.ipynb$/i.test(file)) {
    if (notebookParameters === undefined) return;
    throw settingError('--notebook-parameter needs a notebook, such as train.ipynb, as the command.');
  }
  if (!existsSync(file)) return;
  const { checkedNotebook } = await import('./notebook/check-notebook.ts');
  const { skipped } = checkedNotebook(file, notebookParameters);
  // Ranks of mpirun say it themselves.
  if (skipped !== undefined && transport !== 'mpi') say(skipped);
}

function checkKeepGoing(settings: Settings): void {
  if (isElastic(settings))
    throw settingError(
      '--keep-going has no meaning in an elastic job, which goes on without a rank that fails.',
    );
  if (settings.transport === 'mpi')
    throw settingError(
      '--keep-going does not work with --mpi: mpirun ends the whole job with its first failing rank. Leave out --mpi.',
    );
}

function print(stdout: ConsoleWriter, text: string): number {
  void stdout.write(text);
  return 0;
}

function isUsageError(error: HorovodError): boolean {
  return error.code === 'ERR_HVD_SETTING' || error.code === 'ERR_HVD_UNSUPPORTED';
}

// Run directly, without bin/: by tests, and from another output directory.
if (process.argv[1] === fileURLToPath(import.meta.url)) await main(process.argv.slice(2));
