// Places of a job that Spark gives: starts a Spark job whose tasks are the agents, and waits for them. What Spark says meanwhile goes into
// errors: too few slots, dynamic allocation, a job that has failed.

import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { HorovodError } from '../../errors.ts';
import { inSeconds, waitFor } from '../../net/wait.ts';
import { packageRoot } from '../../settings/package.ts';
import { settingError } from '../../settings/setting.ts';
import { nodeOf } from '../job-request.ts';
import { AgentPlaces, type PlaceManager, soon } from '../places/agent-places.ts';
import type { PlaceGiver, PlacesWanted } from '../places/place-giver.ts';
import type { SparkEvent, SparkLink, SparkOrder } from './spark-messages.ts';

/** How long Spark may take to find out why it has lost an executor. */
const reasonMs = 5000;
/** How often a barrier job that does not fit yet is tried again. By default every 15 s, 40 times. */
const retryMs = 1000;
/** A task of an elastic job that fails is started again so often. */
const maxTaskFailures = 1000;

/** `connect`: a new connection to horovod_spark.py. */
export function sparkPlaces(connect: (wanted: PlacesWanted) => SparkLink): PlaceGiver {
  return async (wanted) => {
    const { settings, say, processes, elastic, signal, isVerbose } = wanted;
    const startedAt = performance.now();
    const timeoutMs = settings.sparkStartTimeoutMs;
    const left = () => Math.max(timeoutMs - (performance.now() - startedAt), 1);
    const job = new SparkJob(connect(wanted), wanted);
    const explain = isVerbose ? say : () => undefined;
    const places = await AgentPlaces.open({ manager: job, settings, say, explain });
    try {
      job.begin(places);
      const context = await job.context(left(), signal);
      explain(`Spark ${context.applicationId} on ${context.master} has ${context.slots} slots`);
      const count = processes ?? context.slots;
      job.needs(count);
      checkContext(context, count, elastic !== undefined);
      await places.gather({ count, timeoutMs: left(), signal });
      job.hasStarted();
      return places;
    } catch (error) {
      await places.close();
      throw error;
    }
  };
}

type SparkContext = SparkEvent & { readonly event: 'context' };

/** What would never come to pass. */
function checkContext({ isDynamic, master, slots }: SparkContext, count: number, isElastic: boolean): void {
  if (isDynamic && !isElastic)
    throw settingError(
      'spark: dynamic allocation does not work with a job of a fixed size, because Spark starts all of its tasks or none. ' +
        'Set spark.dynamicAllocation.enabled=false and spark.executor.instances, or give minNumProc (--min-np) to make the job elastic.',
    );
  // Spark of one process has no more slots later.
  if (/^local(\[|$)/.test(master) && slots < count)
    throw settingError(
      `spark: the job needs ${count} slots, and ${master} has ${slots}. Start fewer processes, or use local[${count}].`,
    );
}

class SparkJob implements PlaceManager {
  readonly name = 'Spark';
  readonly #link: SparkLink;
  readonly #wanted: PlacesWanted;
  #context: SparkContext | undefined;
  #onContext: (context: SparkContext) => void = () => undefined;
  #onFailure: (error: HorovodError) => void = () => undefined;
  #failure: HorovodError | undefined;
  #isRunning = false;
  #slots = 0;
  #count = 0;
  #reason: string | undefined;
  #onReason: (reason: string) => void = () => undefined;
  readonly #reasonCame = new Promise<string>((resolve) => {
    this.#onReason = resolve;
  });

  constructor(link: SparkLink, wanted: PlacesWanted) {
    this.#link = link;
    this.#wanted = wanted;
  }

  begin(places: AgentPlaces): void {
    const fail = (text: string) => {
      this.#failure ??= new HorovodError('ERR_HVD_HOST', text);
      this.#onFailure(this.#failure);
      places.fail(this.#failure);
    };
    this.#link.begin(
      this.#order(places),
      (event) => this.#hear(event, fail),
      (how) => {
        this.#onReason(how);
        fail(`spark: there are no places: ${how}.`);
      },
    );
  }

  /** Spark has started, and its tasks are about to. */
  context(timeoutMs: number, signal: AbortSignal | undefined): Promise<SparkContext> {
    return waitFor<SparkContext>(
      (resolve, reject) => {
        this.#onContext = resolve;
        this.#onFailure = reject;
        if (this.#context !== undefined) resolve(this.#context);
        if (this.#failure !== undefined) reject(this.#failure);
      },
      'for Spark',
      { timeoutMs, signal },
      () =>
        new HorovodError(
          'ERR_HVD_TIMEOUT',
          `spark: Spark has not started within ${inSeconds(timeoutMs)} (HOROVOD_SPARK_START_TIMEOUT). ` +
            'Is its master running, and does it have memory and cores for this application?',
        ),
    );
  }

  /** All tasks are there. */
  hasStarted(): void {
    this.#isRunning = true;
  }

  needs(count: number): void {
    this.#count = count;
  }

  describeMissing(): string | undefined {
    const { spark, advice } =
      this.#slots < this.#count
        ? {
            spark: `Spark has ${this.#slots} slots, and the job needs ${this.#count}.`,
            advice:
              'Start fewer processes, or give the application more executors or cores (spark.executor.instances, spark.executor.cores, spark.cores.max).',
          }
        : {
            spark: `Spark has ${this.#slots} slots, which other jobs may be using.`,
            advice: "See the application's page of Spark.",
          };
    return `${spark} ${advice} To wait longer, set HOROVOD_SPARK_START_TIMEOUT.`;
  }

  async explainLoss(): Promise<string | undefined> {
    const reason = this.#reason ?? (await soon(this.#reasonCame, reasonMs));
    if (reason === undefined) return undefined;
    const text = `Spark says: ${reason.replace(/\.$/, '')}.`;
    return isMemory(reason) ? `${text}\n${memoryAdvice}` : text;
  }

  close(): Promise<void> {
    // Tasks that still wait for slots, and those that Spark would start again, do not end by themselves.
    return this.#link.close(this.#isRunning && this.#wanted.elastic === undefined);
  }

  #hear(event: SparkEvent, fail: (text: string) => void): void {
    switch (event.event) {
      case 'context':
        this.#context = event;
        this.#slots = event.slots;
        this.#onContext(event);
        return;
      case 'slots':
        this.#slots = event.slots;
        return;
      case 'failed':
        this.#reason = event.reason;
        this.#onReason(event.reason);
        fail(`spark: Spark could not run the places: ${event.reason.replace(/\.$/, '')}.`);
        return;
      default:
        event satisfies never;
    }
  }

  #order(places: AgentPlaces): SparkOrder {
    const { processes, elastic, settings, command, isVerbose } = this.#wanted;
    const { addresses, secret, jobId, timeoutMs } = places.dialOrder(0, 0);
    const count = elastic?.max ?? processes ?? null;
    const retries = Math.ceil(settings.sparkStartTimeoutMs / retryMs) + 60;
    return {
      addresses,
      secret,
      jobId,
      timeoutMs,
      count,
      isElastic: elastic !== undefined,
      node: nodeOf(this.#wanted).execPath,
      agents: [
        fileURLToPath(new URL('../agent/main.js', import.meta.url)),
        join(packageRoot(), 'dist/launch/agent/main.js'),
        'node_modules/horovod/dist/launch/agent/main.js',
      ],
      directory: process.cwd(),
      name: `horovod ${command.join(' ')}`.slice(0, 100),
      isVerbose,
      defaults: {
        'spark.scheduler.barrier.maxConcurrentTasksCheck.interval': `${retryMs / 1000}s`,
        'spark.scheduler.barrier.maxConcurrentTasksCheck.maxFailures': String(retries),
        'spark.ui.showConsoleProgress': 'false',
        ...(elastic === undefined ? {} : { 'spark.task.maxFailures': String(maxTaskFailures) }),
      },
    };
  }
}

/** 137 is SIGKILL: of the kernel, or of the cluster manager, when memory runs out. */
function isMemory(reason: string): boolean {
  return /\b137\b|\b143\b|memory|OOM/i.test(reason);
}

const memoryAdvice =
  'If this was for memory: the memory of Node counts as the overhead of an executor. All ranks of an executor share it: raise ' +
  'spark.executor.memoryOverhead (or start fewer ranks with spark.executor.cores), and lower spark.executor.memory, which ranks do not use.';
