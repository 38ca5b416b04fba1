// horovodrun: from the command line to the exit code.

import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { HorovodError } from '../errors.ts';
import { parseCommandLine } from '../settings/command-line.ts';
import { processEnvironment } from '../settings/environment.ts';
import { helpText } from '../settings/help.ts';
import type { LaunchOptions } from '../settings/table.ts';
import { resolveCommand } from './command.ts';
import { parseHosts, readHostfile } from './hosts/host-list.ts';
import { isLocalHost } from './hosts/local-host.ts';
import { planSlots, type Slot } from './hosts/plan-slots.ts';
import { Job } from './job.ts';
import { ConsoleWriter } from './output/console-writer.ts';
import { CorePinning } from './spawn/pin-cores.ts';
import { planGpus } from './spawn/pin-gpus.ts';

const usageExitCode = 2;

/** Runs horovodrun and ends this process. */
export async function main(argv: readonly string[]): Promise<never> {
  let job: Pick<Job, 'interrupt'> | undefined;
  // Nobody reads our output any more (`horovodrun … | head`): like other programs, we end by that.
  const onBroken = () => job?.interrupt('SIGPIPE');
  const stdout = new ConsoleWriter(process.stdout, onBroken);
  const stderr = new ConsoleWriter(process.stderr, onBroken);
  const say = (text: string) => void stderr.write(`horovodrun: ${text}\n`);
  const onStart = (started: Pick<Job, 'interrupt'>) => {
    job = started;
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
      process.on(signal, () => started.interrupt(signal));
  };
  let exitCode: number;
  try {
    exitCode = await run(argv, { stdout, stderr, say, onStart });
  } catch (error) {
    if (!HorovodError.is(error)) throw error;
    say(error.message.replace(/^ERR_HVD_\w+: /, ''));
    if (isUsageError(error)) say('Try `horovodrun --help`.');
    exitCode = isUsageError(error) ? usageExitCode : 1;
  }
  await Promise.all([stdout.flush(), stderr.flush()]);
  process.exit(exitCode);
}

interface Surroundings {
  readonly stdout: ConsoleWriter;
  readonly stderr: ConsoleWriter;
  readonly say: (text: string) => void;
  readonly onStart: (job: Pick<Job, 'interrupt'>) => void;
}

async function run(argv: readonly string[], { stdout, stderr, say, onStart }: Surroundings): Promise<number> {
  const driverEnvironment = processEnvironment();
  const { options, command, environment, settings, notices } = parseCommandLine(argv, driverEnvironment);
  if (options.help) return print(stdout, helpText());
  if (options.version) return print(stdout, `${packageVersion()}\n`);
  for (const notice of notices) say(notice);
  if (options.checkBuild) {
    const { checkBuild } = await import('./check-build.ts');
    return print(
      stdout,
      `${options.verbose ? '\n' : ''}${await checkBuild(packageVersion(), settings, driverEnvironment)}`,
    );
  }
  const slots = await planJob(options, command, settings.startTimeoutMs);
  if (settings.plane === 'mpi') {
    const { startMpirunJob } = await import('./mpirun/start.ts');
    const console = { stdout, stderr, say };
    const mpirun = await startMpirunJob({
      ...{ slots, command, options, settings, environment, driverEnvironment, ...console },
    });
    onStart(mpirun);
    return mpirun.finish();
  }
  const localSize = Math.max(...slots.map((slot) => slot.localSize));
  const job = await Job.start({
    corePinning: settings.pinCores ? new CorePinning(localSize, say) : undefined,
    gpus: settings.pinGpus ? planGpus(driverEnvironment['CUDA_VISIBLE_DEVICES'], localSize) : undefined,
    ...{ slots, environment, driverEnvironment, stdout, stderr, say },
    command: resolveCommand(command, process.execPath, process.execArgv),
    prefix: !options.prefixOutput ? 'none' : options.prefixTimestamp ? 'rank and time' : 'rank',
    outputDirectory: options.outputFilename,
    explain: options.verbose ? say : () => undefined,
  });
  onStart(job);
  return job.finish();
}

async function planJob(
  options: LaunchOptions,
  command: readonly string[],
  timeoutMs: number,
): Promise<Slot[]> {
  if (options.processes === undefined) throw usage('-np is missing: how many processes are to be started?');
  if (command.length === 0) throw usage('the command is missing: what is to be started?');
  const hosts =
    options.hosts !== undefined
      ? parseHosts(options.hosts)
      : options.hostfile !== undefined
        ? readHostfile(options.hostfile)
        : [{ name: 'localhost', slots: options.processes }];
  const areLocal = await Promise.all(hosts.map(({ name }) => isLocalHost(name, timeoutMs)));
  const remote = hosts.find((_, index) => !areLocal[index]);
  if (remote !== undefined) {
    throw new HorovodError(
      'ERR_HVD_UNSUPPORTED',
      `${remote.name} is another host, and other hosts are not in this version: use localhost.`,
    );
  }
  return planSlots(options.processes, hosts);
}

function print(stdout: ConsoleWriter, text: string): number {
  void stdout.write(text);
  return 0;
}

function packageVersion(): string {
  const text = readFileSync(new URL('../../package.json', import.meta.url), 'utf8');
  return String((JSON.parse(text) as { version: unknown }).version);
}

function isUsageError(error: HorovodError): boolean {
  return error.code === 'ERR_HVD_SETTING' || error.code === 'ERR_HVD_UNSUPPORTED';
}

function usage(message: string): HorovodError {
  return new HorovodError('ERR_HVD_SETTING', message);
}

// Run as a program of its own, without bin/: from tests, and from another output directory.
if (process.argv[1] === fileURLToPath(import.meta.url)) await main(process.argv.slice(2));
