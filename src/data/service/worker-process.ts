// What a process of the compute job does: it is a worker, and may be a dispatcher too. When a dispatcher on the compute side is lost, the
// workers of its group see to the next one: the first of those that are left opens it, and the registry lets one through.

import { setTimeout as sleep } from 'node:timers/promises';
import { defaultFiles } from '../../context/default/default-files.ts';
import { HorovodError } from '../../errors.ts';
import { processEnvironment } from '../../settings/environment.ts';
import { JobSecret } from '../../settings/job-secret.ts';
import { readSettings } from '../../settings/read-settings.ts';
import type { TfDataServiceConfig } from './config.ts';
import { Dispatcher } from './dispatcher.ts';
import type { ComputeClient } from './registry-client.ts';
import { dispatcherReport, WorkerReports } from './reports.ts';
import { DispatcherSource } from './service-parts.ts';
import { Worker } from './worker.ts';

export interface ComputeWorkerOptions {
  readonly config: TfDataServiceConfig;
  readonly client: ComputeClient;
  /** Compute rank. */
  readonly index: number;
  /** That of its group. */
  readonly dispatcher: number;
  readonly threads?: number | undefined;
  /** For finished batches. */
  readonly memoryBytes?: number | undefined;
  /** The folder below which modules may be loaded. */
  readonly modules: string;
  readonly signal: AbortSignal;
  log(line: string): void;
}

export interface RunDispatcherOptions {
  readonly config: TfDataServiceConfig;
  readonly client: ComputeClient;
  readonly index: number;
  readonly signal: AbortSignal;
  readonly log?: ((line: string) => void) | undefined;
  /** It has its number and takes connections. */
  readonly onOpen?: ((place: { incarnation: number; addresses: readonly string[] }) => void) | undefined;
}

/** Who may connect in a data service. */
export function serviceIdentity(key: string): { secret: JobSecret; jobId: string } {
  const secret = JobSecret.fromHex(key);
  if (secret === undefined)
    throw new HorovodError('ERR_HVD_INVALID_ARGUMENT', 'the key of a data service has 32 bytes in hex.');
  return { secret, jobId: 'data service' };
}

const reportMs = 1000;
/** How long each worker of a group leaves the next dispatcher to those before it. */
const turnMs = 1500;

/** Ends when the signal aborts, with everything that it has opened. */
export async function runComputeWorker(options: ComputeWorkerOptions): Promise<void> {
  const { config, client, dispatcher: index, modules, signal, threads, log } = options;
  const own = readSettings(processEnvironment());
  const settings = threads === undefined ? own : { ...own, dataThreads: threads };
  const worker = await Worker.open({
    identity: serviceIdentity(config.key),
    isEncrypted: settings.encrypt,
    modules,
    settings,
    fileSystems: defaultFiles(),
    memoryBytes: options.memoryBytes ?? settings.dataMemoryMb * 2 ** 20,
    networkInterfaces: settings.networkInterfaces,
  });
  /** The next dispatcher, which is opened here or tries to be. */
  let taking: Promise<void> | undefined;
  let saysLoss = true;
  let reporting: NodeJS.Timeout | undefined;
  try {
    const { number } = await client.registerWorker(index, worker.addresses, { signal });
    reporting = startReports(worker, client, number);
    const find = new DispatcherSource(client, index);
    while (!signal.aborted) {
      const turn = await turnOf(client, index, number, signal);
      try {
        await find.connect(
          async (place, timeoutMs) => {
            const reason = await worker.serve(place, number, { timeoutMs, signal });
            saysLoss = true;
            return { reason };
          },
          { timeoutMs: turnMs * (turn + 1), signal },
        );
      } catch (error) {
        if (signal.aborted) break;
        if (!HorovodError.is(error)) throw error;
        if (error.code === 'ERR_HVD_SHUT_DOWN') throw error;
        // On the training side there is none between two training jobs. On the compute side there was one, or its rank is late.
        if (config.dispatcherSide !== 'compute' || !find.hasSeen) continue;
        if (saysLoss)
          log(`dispatcher ${index} is lost (${error.detail.replace(/\.$/, '')}); opening the next one.`);
        taking ??= takeOver(options, index, saysLoss).finally(() => {
          taking = undefined;
        });
        saysLoss = false;
        await sleep(turnMs, undefined, { signal }).catch(() => undefined);
      }
    }
  } catch (error) {
    if (!signal.aborted) throw error;
  } finally {
    clearInterval(reporting);
    await worker.close();
    await taking;
  }
}

/** A dispatcher until the signal aborts, or until the registry knows a newer one. */
export async function runDispatcher(options: RunDispatcherOptions): Promise<void> {
  const { config, client, index, signal, log, onOpen } = options;
  const { encrypt, networkInterfaces } = readSettings(processEnvironment());
  const dispatcher = await Dispatcher.open({
    identity: serviceIdentity(config.key),
    index,
    workersExpected: config.workersPerDispatcher,
    isEncrypted: encrypt,
    networkInterfaces,
    log,
  });
  let reporting: NodeJS.Timeout | undefined;
  try {
    const { addresses } = dispatcher;
    const { incarnation } = await client.registerDispatcher(index, addresses, { signal });
    dispatcher.begin(incarnation);
    onOpen?.({ incarnation, addresses });
    reporting = setInterval(() => {
      client.reportDispatcher(index, dispatcherReport(dispatcher.describe().jobs));
    }, reportMs).unref();
    await replacement(client, index, incarnation, signal);
  } catch (error) {
    if (!signal.aborted) throw error;
  } finally {
    clearInterval(reporting);
    await dispatcher.close();
  }
}

/** Resolves when there is a newer dispatcher, or the signal aborts. */
async function replacement(
  client: ComputeClient,
  index: number,
  incarnation: number,
  signal: AbortSignal,
): Promise<void> {
  while (!signal.aborted) {
    try {
      const entry = await client.waitForDispatcher(index, {
        timeoutMs: 60_000,
        signal,
        after: incarnation,
      });
      if (entry.incarnation > incarnation) return;
    } catch (error) {
      if (signal.aborted) return;
      if (!HorovodError.is(error)) throw error;
      // Without a registry, connections go on.
      if (error.code !== 'ERR_HVD_TIMEOUT')
        await sleep(reportMs, undefined, { signal }).catch(() => undefined);
    }
  }
}

async function takeOver(
  { config, client, signal, log }: ComputeWorkerOptions,
  index: number,
  saysWhyNot: boolean,
): Promise<void> {
  try {
    await runDispatcher({
      config,
      client,
      index,
      signal,
      log,
      onOpen: ({ incarnation }) => log(`dispatcher ${index} runs here now (incarnation ${incarnation}).`),
    });
  } catch (error) {
    // Another worker was first, or the old one is still there.
    if (saysWhyNot && !signal.aborted)
      log(`dispatcher ${index} is not opened here: ${(error as Error).message}`);
  }
}

/** Its place among the workers of the group that are there. */
async function turnOf(
  client: ComputeClient,
  dispatcher: number,
  number: number,
  signal: AbortSignal,
): Promise<number> {
  try {
    const workers = await client.workers(dispatcher, { signal, timeoutMs: turnMs });
    return Math.max(
      0,
      workers
        .map((each) => each.number)
        .sort((a, b) => a - b)
        .indexOf(number),
    );
  } catch {
    return number;
  }
}

function startReports(worker: Worker, client: ComputeClient, number: number): NodeJS.Timeout {
  const reports = new WorkerReports(performance.now(), worker.describe());
  return setInterval(
    () => client.reportWorker(number, reports.look(performance.now(), worker.describe())),
    reportMs,
  ).unref();
}
