// One run(): starts the job, sends the call to the ranks through the launcher's store, and collects the results. It ends
// when every rank has ended; ranks that keep running after they have delivered their result are stopped.

import { relative } from 'node:path';
import { Writable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { HorovodError } from '../../errors.ts';
import type { Store } from '../../rendezvous/store/store.ts';
import { TcpStoreServer } from '../../rendezvous/store/tcp-store-server.ts';
import { driverSettings, launchOptions } from '../../settings/command-line.ts';
import { processEnvironment } from '../../settings/environment.ts';
import { JobSecret } from '../../settings/job-secret.ts';
import { settingError } from '../../settings/setting.ts';
import { settingsTable } from '../../settings/table.ts';
import { Job } from '../job.ts';
import { jobRequest, type Launch, listedHosts, planHosts } from '../job-request.ts';
import { ConsoleWriter } from '../output/console-writer.ts';
import { encodeCall } from './call.ts';
import { decodeOutcome, type Outcome, rebuildError } from './outcome.ts';
import type { RunOptions } from './run.ts';
import { callKey, getBytes, outcomeKey, putBytes, runJobId } from './store-bytes.ts';

/** How long ranks may take to end by themselves after all results have arrived. */
const lingerMs = 1000;
/** After the error of a rank: how long the launcher may take to stop the others. */
const launcherMs = 3000;

interface RankOutcome {
  readonly rank: number;
  readonly outcome: Outcome;
}

export async function startRun(target: unknown, options: RunOptions): Promise<unknown[]> {
  const { signal } = options;
  if (signal?.aborted) throw aborted(signal);
  const call = encodeCall(target, options.args ?? []);
  const remarks: string[] = [];
  const { job, size } = await startJob(options, remarks);
  const onAbort = () => job.interrupt('SIGTERM');
  signal?.addEventListener('abort', onAbort, { once: true });
  // The signal may have come while the job was starting.
  if (signal?.aborted) onAbort();
  try {
    return await collect(job, { size, call, signal, remarks });
  } finally {
    signal?.removeEventListener('abort', onAbort);
  }
}

/** A job whose ranks run rank-main.ts, and the store that is used to talk to them. */
interface RunJob {
  readonly store: Store;
  /** After finish(), where the launcher knows it: the rank whose failure came first. */
  readonly failedRank?: number | undefined;
  interrupt(signal: NodeJS.Signals): void;
  finish(): Promise<number>;
}

async function startJob(options: RunOptions, remarks: string[]): Promise<{ job: RunJob; size: number }> {
  const driverEnvironment = processEnvironment();
  const environment = variablesOf(options);
  const settings = driverSettings(driverEnvironment, environment);
  const { hosts, hostfile, sshPort, sshIdentityFile, outputFilename } = options;
  const { prefixOutput = true, verbose = false } = options;
  if (hosts !== undefined && hostfile !== undefined) {
    throw settingError('run: hosts and hostfile cannot be used together.');
  }
  const processes = options.np ?? slotsOf(options);
  if (!Number.isSafeInteger(processes) || processes < 1) {
    throw settingError(`run: np is ${processes}; expected an integer ≥ 1.`);
  }
  const say = (text: string) => {
    remarks.push(text);
    if (verbose) process.stderr.write(`horovod.run: ${text}\n`);
  };
  const plan = await planHosts({ processes, hosts, hostfile }, settings.startTimeoutMs);
  const launch: Launch = {
    plan,
    command: [rankScript()],
    options: {
      ...launchOptions(new Map()),
      sshPort,
      sshIdentityFile,
      outputFilename,
      prefixOutput,
      verbose,
    },
    settings,
    environment,
    driverEnvironment,
    stdout: writerTo(process.stdout, options),
    stderr: writerTo(process.stderr, options),
    say,
  };
  const job = await (settings.transport === 'mpi' ? startWithMpirun(launch) : Job.start(jobRequest(launch)));
  return { job, size: plan.slots.length };
}

/** Ranks of mpirun find each other without us, so the call and the results need a separate store. */
async function startWithMpirun(launch: Launch): Promise<RunJob> {
  const { startMpirunJob } = await import('../mpirun/start.ts');
  const { plan, settings } = launch;
  const secret = JobSecret.generate();
  const server = await TcpStoreServer.start({
    secret,
    jobId: runJobId,
    ranks: plan.slots.length,
    listenOn: plan.remoteNames.size === 0 ? 'loopback' : 'all',
    ...(settings.networkInterfaces === undefined ? {} : { networkInterfaces: settings.networkInterfaces }),
  });
  const given = {
    [settingsTable.runAddress.env as string]: server.address,
    [settingsTable.runSecret.env as string]: secret.revealForEnvironment(),
  };
  try {
    const job = await startMpirunJob({ ...launch, environment: { ...launch.environment, ...given } });
    return {
      store: server.store,
      interrupt: (signal) => job.interrupt(signal),
      async finish() {
        const code = await job.finish();
        await server.close();
        return code;
      },
    };
  } catch (error) {
    await server.close();
    throw error;
  }
}

async function collect(
  job: RunJob,
  {
    size,
    call,
    signal,
    remarks,
  }: { size: number; call: Buffer; signal: AbortSignal | undefined; remarks: readonly string[] },
): Promise<unknown[]> {
  const outcomes: RankOutcome[] = [];
  const deliveries = Array.from({ length: size }, async (_, rank) => {
    const outcome = decodeOutcome(await getBytes(job.store, outcomeKey(rank), { from: rank }));
    outcomes.push({ rank, outcome });
    return outcome;
  });
  // A rank without an outcome is reported when the job has ended.
  const delivered = Promise.allSettled(deliveries);
  void putBytes(job.store, callKey, call).catch(() => undefined);
  let isEnded = false;
  let lingering: NodeJS.Timeout | undefined;
  const endLater = (ms: number) => {
    lingering ??= setTimeout(() => {
      isEnded = true;
      job.interrupt('SIGTERM');
    }, ms);
  };
  void delivered.then((all) => {
    if (all.every(({ status }) => status === 'fulfilled')) endLater(lingerMs);
  });
  for (const delivery of deliveries) {
    delivery.then(
      // The launcher stops the others; if it does not (MPICH's does not), we do.
      (outcome) => outcome.kind === 'error' && endLater(launcherMs),
      () => undefined,
    );
  }
  const code = await job.finish();
  await delivered;
  clearTimeout(lingering);
  if (signal?.aborted) throw aborted(signal);
  const failure = failureOf(outcomes);
  if (failure !== undefined) throw failure;
  if (outcomes.length < size || (code !== 0 && !isEnded)) throw withoutResult(code, job.failedRank, remarks);
  const values: unknown[] = new Array(size);
  for (const { rank, outcome } of outcomes)
    values[rank] = outcome.kind === 'value' ? outcome.value : undefined;
  return values;
}

/** The first error that is not a consequence of another rank's error. */
function failureOf(outcomes: readonly RankOutcome[]): HorovodError | undefined {
  const failed = outcomes.flatMap(({ rank, outcome }) =>
    outcome.kind === 'error' ? [{ rank, error: outcome.error }] : [],
  );
  const isConsequence = ({ rank, error }: (typeof failed)[number]) =>
    (error.code === 'ERR_HVD_PEER_LOST' || error.code === 'ERR_HVD_SHUT_DOWN') && error.rank !== rank;
  const first = failed.find((each) => !isConsequence(each)) ?? failed[0];
  if (first === undefined) return undefined;
  const { rank, error } = first;
  const unknown =
    error.name === 'ReferenceError'
      ? / (\S+ is not defined)|^(\S+) is not defined/.exec(error.message)
      : null;
  const hint =
    unknown === null
      ? ''
      : ' The function is sent to the ranks as source text, without the variables and imports around it. Import inside ' +
        'the function, pass values as `args`, or pass the path of a module instead.';
  const text = `rank ${rank} failed: ${error.name}: ${error.message}${/[.!?]$/.test(error.message) ? '' : '.'}`;
  return new HorovodError('ERR_HVD_RUN', `run: ${text}${hint}`, { rank, cause: rebuildError(error) });
}

/** A rank was killed or called process.exit(); the report of the launcher has the details. */
function withoutResult(
  code: number,
  failedRank: number | undefined,
  remarks: readonly string[],
): HorovodError {
  const report = remarks.at(-1) ?? `the job ended with code ${code}`;
  return new HorovodError('ERR_HVD_RUN', `run: a rank ended without a result. ${report}`, {
    rank: failedRank,
    exitCode: code === 0 ? undefined : code,
  });
}

function variablesOf(options: RunOptions): Record<string, string> {
  const { transport, startTimeoutMs, networkInterfaces, env } = options;
  const variables: Record<string, string> = { ...env };
  const set = (name: keyof typeof settingsTable, text: string | undefined) => {
    if (text !== undefined) variables[settingsTable[name].env as string] = text;
  };
  set('transport', transport);
  set('startTimeoutMs', startTimeoutMs === undefined ? undefined : String(startTimeoutMs / 1000));
  set('networkInterfaces', networkInterfaces?.join(','));
  return variables;
}

function slotsOf(options: RunOptions): number {
  return listedHosts(options)?.reduce((sum, { slots }) => sum + slots, 0) ?? 1;
}

/** Relative if below the working directory, because another host may have the project elsewhere. */
function rankScript(): string {
  const absolute = fileURLToPath(new URL('./rank-main.js', import.meta.url));
  const inside = relative(process.cwd(), absolute);
  return inside.startsWith('..') ? absolute : `./${inside}`;
}

/** Passes output on without leaving listeners on a stream that is not ours. */
function writerTo(stream: NodeJS.WritableStream, { showOutput = true }: RunOptions): ConsoleWriter {
  const target = new Writable({
    write(bytes, _encoding, done) {
      if (showOutput) stream.write(bytes, () => done());
      else done();
    },
  });
  return new ConsoleWriter(target, () => undefined);
}

function aborted(signal: AbortSignal): HorovodError {
  return new HorovodError('ERR_HVD_ABORTED', 'run: the AbortSignal stopped the job.', {
    cause: signal.reason,
  });
}
