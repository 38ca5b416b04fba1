// One run(): starts the job, sends the call to the ranks through the launcher's store, and collects the results. It ends
// when every rank has ended; ranks that keep running after they have delivered their result are stopped.

import { relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { withoutLoopback } from '../../net/addresses.ts';
import type { JobView } from '../../observe/status/job-view.ts';
import type { Store } from '../../rendezvous/store/store.ts';
import { TcpStoreServer } from '../../rendezvous/store/tcp-store-server.ts';
import { JobSecret } from '../../settings/job-secret.ts';
import { settingsTable } from '../../settings/table.ts';
import type { JobDashboard } from '../dashboard/job-dashboard.ts';
import type { ElasticJob } from '../elastic/elastic-job.ts';
import { Job } from '../job.ts';
import { jobRequest, type Launch } from '../job-request.ts';
import type { PlaceGiver } from '../places/place-giver.ts';
import { encodeCall } from './call.ts';
import { type Collection, collectElastic } from './collect-elastic.ts';
import { aborted, failureOf, type RankOutcome, withoutResult } from './failures.ts';
import { JobWatch, lineListener } from './job-watch.ts';
import { decodeOutcome } from './outcome.ts';
import { type PlannedLaunch, planLaunch } from './plan-launch.ts';
import type { RunOptions } from './run.ts';
import { callKey, getBytes, outcomeKey, putBytes, runJobId } from './store-bytes.ts';
import { writerTo } from './writer-to.ts';

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
  look(): JobView | undefined;
  interrupt(signal: NodeJS.Signals): void;
  finish(): Promise<number>;
}

/** `givePlaces`: a cluster manager that gives the job its places. */
export async function startRun(
  target: unknown,
  options: RunOptions,
  givePlaces?: PlaceGiver,
): Promise<unknown[]> {
  const { signal } = options;
  if (signal?.aborted) throw aborted(signal);
  const call = encodeCall(target, options.args ?? []);
  const remarks: string[] = [];
  const { job, dashboard } = await startJob(options, remarks, titleOf(target), givePlaces);
  const onAbort = () => job.interrupt('SIGTERM');
  signal?.addEventListener('abort', onAbort, { once: true });
  // The signal may have come while the job was starting.
  if (signal?.aborted) onAbort();
  const watch = new JobWatch(options.onStatus, warn);
  watch.begin(() => job.look());
  try {
    const collection = { call, signal, remarks };
    const values = await ('workers' in job ? collectElastic(job, collection) : collect(job, collection));
    dashboard?.finish(0);
    return values;
  } catch (error) {
    dashboard?.finish(1, (error as Error).message);
    throw error;
  } finally {
    signal?.removeEventListener('abort', onAbort);
    watch.end();
    await dashboard?.close();
  }
}

interface Begun {
  readonly job: RunJob | ElasticJob;
  readonly dashboard: JobDashboard | undefined;
}

async function startJob(
  options: RunOptions,
  remarks: string[],
  title: string,
  givePlaces: PlaceGiver | undefined,
): Promise<Begun> {
  const say = (text: string) => {
    remarks.push(text);
    if (options.verbose === true) process.stderr.write(`horovod.run: ${text}\n`);
  };
  const planned = await planLaunch({
    caller: 'run',
    options,
    command: [rankScript()],
    stdout: writerTo('stdout', options),
    stderr: writerTo('stderr', options),
    say,
    onLine: lineListener(options.onOutput, warn),
    givePlaces,
  });
  const { dashboard: wanted = false } = options;
  if (wanted === false) return { job: await startPlanned(planned), dashboard: undefined };
  const { startProgramDashboard } = await import('../dashboard/for-program.ts');
  const about = { title, caller: 'run' };
  const choice = wanted === true ? {} : wanted;
  const { dashboard, launch } = await startProgramDashboard(planned.launch, choice, about).catch(
    async (error) => {
      await planned.launch.places?.close();
      throw error;
    },
  );
  try {
    warn(`Dashboard: ${dashboard.url}`);
    const job = await startPlanned({ ...planned, launch } as PlannedLaunch);
    dashboard.show(job, () => remarks.push('the page of the dashboard stops the job.'));
    return { job, dashboard };
  } catch (error) {
    await dashboard.close();
    throw error;
  }
}

async function startPlanned(planned: PlannedLaunch): Promise<RunJob | ElasticJob> {
  try {
    return await startAsPlanned(planned);
  } catch (error) {
    await planned.launch.places?.close();
    throw error;
  }
}

async function startAsPlanned({ kind, launch }: PlannedLaunch): Promise<RunJob | ElasticJob> {
  if (kind === 'elastic') {
    const { startElasticJob } = await import('../elastic/start.ts');
    return startElasticJob(launch);
  }
  if (launch.settings.transport === 'mpi') return startWithMpirun(launch);
  return withSize(await Job.start(jobRequest(launch)), launch.plan.slots.length);
}

/** What the page of its dashboard calls it. */
function titleOf(target: unknown): string {
  if (typeof target !== 'function') return `run(${String(target)})`;
  return target.name === '' ? 'run()' : `run(${target.name})`;
}

/** What the user has to know in any case. */
function warn(text: string): void {
  process.stderr.write(`horovod.run: ${text}\n`);
}

function withSize(job: Job, size: number): RunJob {
  return {
    size,
    store: job.store,
    look: () => job.look(),
    interrupt: (signal) => job.interrupt(signal),
    finish: () => job.finish(),
    get failedRank() {
      return job.failure?.rank;
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
      look: () => undefined,
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

/** Relative if below the working directory, because another host may have the project elsewhere. */
function rankScript(): string {
  const absolute = fileURLToPath(new URL('./rank-main.js', import.meta.url));
  const inside = relative(process.cwd(), absolute);
  return inside.startsWith('..') ? absolute : `./${inside}`;
}
