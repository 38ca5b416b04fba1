// One run(): starts the job, sends the call to the ranks through the launcher's store, and collects the results. It ends
// when every rank has ended; ranks that keep running after they have delivered their result are stopped.

import { relative, resolve } from 'node:path';
import { Writable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { HorovodError } from '../../errors.ts';
import { isLocal } from '../../files/location.ts';
import { withoutLoopback } from '../../net/addresses.ts';
import type { Store } from '../../rendezvous/store/store.ts';
import { TcpStoreServer } from '../../rendezvous/store/tcp-store-server.ts';
import { driverSettings, launchOptions } from '../../settings/command-line.ts';
import { processEnvironment } from '../../settings/environment.ts';
import { JobSecret } from '../../settings/job-secret.ts';
import { readSettings } from '../../settings/read-settings.ts';
import { settingError } from '../../settings/setting.ts';
import { settingsTable } from '../../settings/table.ts';
import type { ElasticJob } from '../elastic/elastic-job.ts';
import { isElastic } from '../elastic/is-elastic.ts';
import { Job } from '../job.ts';
import { jobRequest, type Launch, listedHosts, planHosts } from '../job-request.ts';
import { CellOutput, isDenoCell } from '../output/cell-output.ts';
import { ConsoleWriter } from '../output/console-writer.ts';
import { runNameVariable } from '../tensorboard/run-name.ts';
import { encodeCall } from './call.ts';
import { type Collection, collectElastic } from './collect-elastic.ts';
import { aborted, failureOf, type RankOutcome, withoutResult } from './failures.ts';
import { decodeOutcome } from './outcome.ts';
import type { RunOptions } from './run.ts';
import { callKey, getBytes, outcomeKey, putBytes, runJobId } from './store-bytes.ts';

/** How long ranks may take to end by themselves after all results have arrived. */
const lingerMs = 1000;
/** After the error of a rank: how long the launcher may take to stop the others. */
const launcherMs = 3000;

/** A job whose ranks run rank-main.ts, and the store that is used to talk to them. */
interface RunJob {
  readonly size: number;
  readonly store: Store;
  /** After finish(), where the launcher knows it: the rank whose failure came first. */
  readonly failedRank?: number | undefined;
  interrupt(signal: NodeJS.Signals): void;
  finish(): Promise<number>;
}

export async function startRun(target: unknown, options: RunOptions): Promise<unknown[]> {
  const { signal } = options;
  if (signal?.aborted) throw aborted(signal);
  requireNoRank(processEnvironment());
  const call = encodeCall(target, options.args ?? []);
  const remarks: string[] = [];
  const job = await startJob(options, remarks);
  const onAbort = () => job.interrupt('SIGTERM');
  signal?.addEventListener('abort', onAbort, { once: true });
  // The signal may have come while the job was starting.
  if (signal?.aborted) onAbort();
  try {
    const collection = { call, signal, remarks };
    return await ('workers' in job ? collectElastic(job, collection) : collect(job, collection));
  } finally {
    signal?.removeEventListener('abort', onAbort);
  }
}

/** A rank that starts a job of ranks that run the same script would never come to an end. */
function requireNoRank(env: NodeJS.ProcessEnv): void {
  const { jobId, rank, size } = readSettings(env);
  if (jobId === undefined && size === 1) return;
  throw new HorovodError(
    'ERR_HVD_RUN',
    `run: run() was called by a rank (rank ${rank} of ${size}), and each rank would start a job of its own. Start the script ` +
      'that calls run() with node, not with horovodrun or mpirun, and call init() in the function that run() calls.',
    { rank },
  );
}

async function startJob(options: RunOptions, remarks: string[]): Promise<RunJob | ElasticJob> {
  const driverEnvironment = processEnvironment();
  const environment = { ...variablesOf(options), ...runNameVariable() };
  const settings = driverSettings(driverEnvironment, environment);
  const { hosts, hostfile, sshPort, sshIdentityFile, outputFilename } = options;
  const { prefixOutput = true, verbose = false } = options;
  if (hosts !== undefined && hostfile !== undefined) {
    throw settingError('run: hosts and hostfile cannot be used together.');
  }
  if (outputFilename !== undefined && !isLocal(outputFilename)) {
    throw settingError(`run: outputFilename is ${outputFilename}; expected a folder of this machine.`);
  }
  const isElasticRun = isElastic(settings) || options.discover !== undefined;
  const processes = options.np ?? (isElasticRun ? options.minNp : undefined) ?? slotsOf(options);
  if (!Number.isSafeInteger(processes) || processes < 1) {
    throw settingError(`run: np is ${processes}; expected an integer ≥ 1.`);
  }
  const say = (text: string) => {
    remarks.push(text);
    if (verbose) process.stderr.write(`horovod.run: ${text}\n`);
  };
  const launch: Omit<Launch, 'plan'> = {
    command: [rankScript()],
    options: {
      ...launchOptions(new Map()),
      processes,
      hosts,
      hostfile,
      sshPort,
      sshIdentityFile,
      outputFilename,
      prefixOutput,
      verbose,
    },
    settings,
    environment,
    driverEnvironment,
    stdout: writerTo('stdout', options),
    stderr: writerTo('stderr', options),
    say,
  };
  if (isElasticRun) {
    const { startElasticJob } = await import('../elastic/start.ts');
    return startElasticJob({
      ...launch,
      discover: typeof options.discover === 'function' ? options.discover : undefined,
    });
  }
  const plan = await planHosts({ processes, hosts, hostfile }, settings.startTimeoutMs);
  const planned = { ...launch, plan };
  if (settings.transport === 'mpi') return startWithMpirun(planned);
  return withSize(await Job.start(jobRequest(planned)), plan.slots.length);
}

function withSize(job: Job, size: number): RunJob {
  return {
    size,
    store: job.store,
    interrupt: (signal) => job.interrupt(signal),
    finish: () => job.finish(),
    get failedRank() {
      return job.failedRank;
    },
  };
}

/** Ranks of mpirun find each other without us, so the call and the results need a separate store. */
async function startWithMpirun(launch: Launch): Promise<RunJob> {
  const { startMpirunJob } = await import('../mpirun/start.ts');
  const { plan, settings } = launch;
  const secret = JobSecret.generate();
  const isOneHost = plan.remoteNames.size === 0;
  const server = await TcpStoreServer.start({
    secret,
    jobId: runJobId,
    ranks: plan.slots.length,
    listenOn: isOneHost ? 'loopback' : 'all',
    ...(settings.networkInterfaces === undefined ? {} : { networkInterfaces: settings.networkInterfaces }),
  });
  const given = {
    [settingsTable.runAddress.env as string]: (isOneHost
      ? server.addresses
      : withoutLoopback(server.addresses)
    ).join(','),
    [settingsTable.runSecret.env as string]: secret.revealForEnvironment(),
  };
  try {
    const job = await startMpirunJob({ ...launch, environment: { ...launch.environment, ...given } });
    return {
      size: plan.slots.length,
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

async function collect(job: RunJob, { call, signal, remarks }: Collection): Promise<unknown[]> {
  const { size } = job;
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

function variablesOf(options: RunOptions): Record<string, string> {
  const { transport, encrypt, startTimeoutMs, networkInterfaces, env } = options;
  const variables: Record<string, string> = { ...env };
  const set = (name: keyof typeof settingsTable, text: string | undefined) => {
    if (text !== undefined) variables[settingsTable[name].env as string] = text;
  };
  const { minNp, maxNp, discover } = options;
  set('minProcesses', minNp === undefined ? undefined : String(minNp));
  set('maxProcesses', maxNp === undefined ? undefined : String(maxNp));
  set('hostDiscoveryScript', typeof discover === 'string' ? resolve(discover) : undefined);
  set('transport', transport);
  set('encrypt', encrypt === undefined ? undefined : encrypt ? '1' : '0');
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
function writerTo(name: 'stdout' | 'stderr', { showOutput = true }: RunOptions): ConsoleWriter {
  const stream = process[name];
  if (showOutput && isDenoCell()) return new ConsoleWriter(new CellOutput(name), () => undefined);
  const target = new Writable({
    write(bytes, _encoding, done) {
      let isPassedOn = false;
      const passedOn = () => {
        if (!isPassedOn) done();
        isPassedOn = true;
      };
      // Only a full stream is waited for: in the cells of tslab, whose write() is another function, it never calls back.
      if (!showOutput || stream.write(bytes, passedOn)) passedOn();
    },
  });
  return new ConsoleWriter(target, () => undefined);
}
