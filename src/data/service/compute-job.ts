// One process of a compute job, which is a data service: compute rank 0 runs the registry and writes the config, the others read it;
// then each is a worker, and the first of every group is a dispatcher as well where dispatchers are on the compute side. They need a
// rank and a size, no collective and no connection to whoever has started them. See `horovod compute-worker`.

import { randomBytes } from 'node:crypto';
import { HorovodError } from '../../errors.ts';
import { processEnvironment } from '../../settings/environment.ts';
import { readSettings } from '../../settings/read-settings.ts';
import { settingError } from '../../settings/setting.ts';
import { clientOf, TfDataServiceConfig } from './config.ts';
import type { ComputeClient } from './registry-client.ts';
import { checkNobodyThere, RegistryKeeper } from './registry-keeper.ts';
import type { DispatcherSide } from './registry-messages.ts';

export interface ComputeJobOptions {
  /** Of the config. */
  readonly path: string;
  readonly rank: number;
  readonly size: number;
  readonly dispatchers: number;
  readonly dispatcherSide: DispatcherSide;
  /** In seconds. */
  readonly timeout: number;
  readonly parts: ComputeJobParts;
  /** SIGTERM or SIGINT has come. On rank 0 it ends the service, on another one that worker. */
  readonly signal: AbortSignal;
  log(line: string): void;
}

export type JoinOptions = Pick<ComputeJobOptions, 'path' | 'signal' | 'parts' | 'log'>;

interface PartOptions {
  readonly config: TfDataServiceConfig;
  readonly client: ComputeClient;
  readonly signal: AbortSignal;
}

/** What runs in a process of the service, until its signal aborts. */
export interface ComputeJobParts {
  runWorker(
    options: PartOptions & { readonly index: number; readonly dispatcher: number; log(line: string): void },
  ): Promise<void>;
  runDispatcher(options: PartOptions & { readonly index: number }): Promise<void>;
}

/** How long a worker may take to stop. */
const endMs = 10_000;

/** Resolves at the end of the service, or of this process's part in it. */
export async function runComputeJob(options: ComputeJobOptions): Promise<void> {
  const { rank, size, dispatchers } = options;
  if (size % dispatchers !== 0) {
    throw settingError(
      `Number of processes (${size}) must be a multiple of number of dispatchers (${dispatchers}).`,
    );
  }
  const { path, log } = options;
  await using keeper = new RegistryKeeper({ path, index: rank, endsService: true, log });
  const config = rank === 0 ? await openService(keeper, options) : await readOwnConfig(options);
  const onSignal = () => void keeper.shutDown().catch(() => undefined);
  options.signal.addEventListener('abort', onSignal, { once: true });
  if (options.signal.aborted) onSignal();
  try {
    const dispatcher = Math.floor(rank / config.workersPerDispatcher);
    const alsoRun = rank === 0 ? sayWhenReady : undefined;
    await runMember(config, rank, dispatcher, options, keeper, alsoRun);
  } finally {
    options.signal.removeEventListener('abort', onSignal);
  }
  if (rank === 0) log('the data service has ended.');
}

/** One more worker for a service that is running; the dispatcher with the fewest gets it. */
export async function joinService(options: JoinOptions): Promise<void> {
  const config = await TfDataServiceConfig.read(options.path);
  await using asking = config.computeClient();
  const { workers } = await asking.status({ signal: options.signal });
  const counts = Array.from(
    { length: config.dispatchers },
    (_, index) => workers.filter(({ dispatcher }) => dispatcher === index).length,
  );
  const dispatcher = counts.indexOf(Math.min(...counts));
  // Its place behind those that the service was started with.
  const index = Math.max(workers.length, config.dispatchers * config.workersPerDispatcher);
  await asking.close();
  const { path, log } = options;
  await using keeper = new RegistryKeeper({ path, index, endsService: false, log });
  await runMember(config, index, dispatcher, options, keeper);
}

async function openService(keeper: RegistryKeeper, options: ComputeJobOptions): Promise<TfDataServiceConfig> {
  const { path, size, dispatchers, dispatcherSide, timeout, log, signal } = options;
  await checkNobodyThere(path, signal);
  const { dataServiceKey } = readSettings(processEnvironment());
  const config = await keeper.open({
    dispatchers,
    workersPerDispatcher: size / dispatchers,
    dispatcherSide,
    key: dataServiceKey?.revealForEnvironment() ?? randomBytes(32).toString('hex'),
    timeout,
    incarnation: 1,
  });
  log(`the config of the data service is in ${path}; waiting for ${workersText(size)}.`);
  return config;
}

async function readOwnConfig(options: ComputeJobOptions): Promise<TfDataServiceConfig> {
  const { path, rank, size, dispatchers, dispatcherSide, timeout, signal } = options;
  const config = await TfDataServiceConfig.read(path, {
    waitForFileCreation: true,
    timeoutMs: timeout * 1000,
    signal,
  });
  const theirs = config.dispatchers * config.workersPerDispatcher;
  if (theirs === size && config.dispatchers === dispatchers && config.dispatcherSide === dispatcherSide)
    return config;
  throw new HorovodError(
    'ERR_HVD_DATA_SERVICE',
    `${path} is the config of a service of ${workersText(theirs)} and ${config.dispatchers} dispatchers on the ${config.dispatcherSide} ` +
      `side; compute rank ${rank} was started for one of ${workersText(size)} and ${dispatchers} on the ${dispatcherSide} side. Is ` +
      'another compute job using the same path?',
  );
}

/** A worker and, where it has one, a dispatcher, until the service ends, the signal aborts or a part fails. */
async function runMember(
  config: TfDataServiceConfig,
  index: number,
  dispatcher: number,
  options: JoinOptions,
  keeper: RegistryKeeper,
  alsoRun?: (member: PartOptions, options: JoinOptions) => Promise<void>,
): Promise<void> {
  const { parts, log, path } = options;
  await using client = clientOf(config, path, {
    name: `compute rank ${index}`,
    onSilence: (place, sinceMs) => keeper.consider(place, sinceMs),
  });
  const end = new AbortController();
  const signal = AbortSignal.any([end.signal, options.signal]);
  const member = { config, client, signal };
  const hasDispatcher =
    config.dispatcherSide === 'compute' &&
    index % config.workersPerDispatcher === 0 &&
    index < config.dispatchers * config.workersPerDispatcher;
  const running = [
    waitForEnd(client, signal).finally(() => end.abort()),
    parts.runWorker({ ...member, index, dispatcher, log }),
    ...(hasDispatcher ? [parts.runDispatcher({ ...member, index: dispatcher })] : []),
    ...(alsoRun === undefined ? [] : [alsoRun(member, options)]),
  ];
  const failures: unknown[] = [];
  const ended = Promise.all(
    running.map((part) =>
      part.catch((error: unknown) => {
        // What fails at the end fails because of the end.
        if (!signal.aborted) failures.push(error);
        end.abort();
      }),
    ),
  );
  await endsInTime(ended, signal);
  if (failures.length > 0) throw failures[0];
}

/** Resolves with `ended`; rejects if that takes too long after the signal. */
async function endsInTime(ended: Promise<unknown>, signal: AbortSignal): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  let onAbort: (() => void) | undefined;
  const late = new Promise<never>((_, reject) => {
    const error = new HorovodError(
      'ERR_HVD_TIMEOUT',
      `the worker did not stop within ${endMs / 1000} s of the end of the data service; a function of a pipeline may not return.`,
    );
    onAbort = () => {
      timer = setTimeout(() => reject(error), endMs);
    };
    signal.addEventListener('abort', onAbort, { once: true });
    if (signal.aborted) onAbort();
  });
  try {
    await Promise.race([ended, late]);
  } finally {
    clearTimeout(timer);
    if (onAbort !== undefined) signal.removeEventListener('abort', onAbort);
  }
}

/** Resolves when somebody has shut the service down, or has done so while this process was cut off. */
async function waitForEnd(client: ComputeClient, signal: AbortSignal): Promise<void> {
  try {
    await client.waitForShutdown({ signal });
  } catch (error) {
    if (!signal.aborted && !(HorovodError.is(error) && error.code === 'ERR_HVD_SHUT_DOWN')) throw error;
  }
}

async function sayWhenReady(
  { client, config, signal }: PartOptions,
  { path, log }: JoinOptions,
): Promise<void> {
  const { dispatchers, workersPerDispatcher, dispatcherSide, timeout } = config;
  const timeoutMs = timeout * 1000;
  for (let index = 0; index < dispatchers; index++) {
    if (dispatcherSide === 'compute') await client.waitForDispatcher(index, { timeoutMs, signal });
    await client.waitForWorkers(index, { timeoutMs, signal });
  }
  const who = dispatchers === 1 ? '1 dispatcher' : `${dispatchers} dispatchers`;
  const where = dispatcherSide === 'compute' ? who : `${who} in the training job`;
  log(
    `the data service is ready: ${workersText(dispatchers * workersPerDispatcher)}, ${where}. Training processes read ${path}.`,
  );
}

function workersText(count: number): string {
  return `${count} worker${count === 1 ? '' : 's'}`;
}
