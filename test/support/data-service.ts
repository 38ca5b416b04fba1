// A data service in one process: a dispatcher, compute workers and consumers with real connections over loopback, and a registry that is
// a list. For tests of what they do together; whole jobs have processes of their own.

import type { Dataset } from '../../src/data/dataset.ts';
import { InlineHost } from '../../src/data/service/consumer-host.ts';
import { Dispatcher } from '../../src/data/service/dispatcher.ts';
import type { ServiceRequest, TrainerProgress } from '../../src/data/service/service-data.ts';
import {
  type Directory,
  type DispatcherPlace,
  DispatcherSource,
} from '../../src/data/service/service-parts.ts';
import { throughService } from '../../src/data/service/through.ts';
import { Worker } from '../../src/data/service/worker.ts';
import { HorovodError } from '../../src/errors.ts';
import { Files } from '../../src/files/registry.ts';
import { waitFor } from '../../src/net/wait.ts';
import { JobSecret } from '../../src/settings/job-secret.ts';
import { readSettings } from '../../src/settings/read-settings.ts';

export interface TestServiceOptions {
  readonly workers: number;
  readonly timeoutMs?: number;
  readonly silenceMs?: number;
  readonly isEncrypted?: boolean;
  readonly modules?: string;
  readonly memoryBytes?: number;
  /** When a job whose consumers are all lost is forgotten. */
  readonly forgetAfterMs?: number;
  /** HOROVOD_… of the workers. */
  readonly environment?: Readonly<Record<string, string>>;
  /** Default: trainers copy batches from the memory of workers, where the addon is there. */
  readonly sharesMemory?: boolean;
}

export interface TrainerOptions {
  readonly rank?: number;
  readonly size?: number;
  readonly jobName?: string | undefined;
  readonly isRoundRobin?: boolean;
  readonly isParallel?: boolean;
  readonly depth?: number;
  readonly gather?: (own: TrainerProgress) => readonly TrainerProgress[];
  readonly generation?: () => number;
  readonly secret?: JobSecret;
}

class ListedDispatchers implements Directory {
  #place: DispatcherPlace | undefined;
  #wake: (() => void)[] = [];

  set(place: DispatcherPlace): void {
    this.#place = place;
    for (const each of this.#wake.splice(0)) each();
  }

  async waitForDispatcher(
    index: number,
    { timeoutMs, signal, after = 0 }: { timeoutMs: number; signal?: AbortSignal | undefined; after?: number },
  ): Promise<DispatcherPlace> {
    const end = performance.now() + timeoutMs;
    for (;;) {
      if (this.#place !== undefined && this.#place.incarnation > after) return this.#place;
      await waitFor<void>((resolve) => this.#wake.push(resolve), `for dispatcher ${index}`, {
        timeoutMs: end - performance.now(),
        signal,
      });
    }
  }
}

export class TestService {
  readonly secret: JobSecret = JobSecret.generate();
  readonly directory: ListedDispatchers = new ListedDispatchers();
  readonly hosts: InlineHost[] = [];
  dispatcher!: Dispatcher;
  readonly workers: {
    readonly worker: Worker;
    readonly ending: AbortController;
    readonly served: Promise<void>;
  }[] = [];
  readonly #options: TestServiceOptions;
  #incarnation = 0;
  #lastWorker = 0;

  static async start(options: TestServiceOptions): Promise<TestService> {
    const service = new TestService(options);
    await service.startDispatcher();
    for (let count = 0; count < options.workers; count++) await service.addWorker();
    return service;
  }

  private constructor(options: TestServiceOptions) {
    this.#options = options;
  }

  get identity(): { secret: JobSecret; jobId: string } {
    return { secret: this.secret, jobId: 'test' };
  }

  async startDispatcher(): Promise<void> {
    const { isEncrypted = false, silenceMs, workers, forgetAfterMs } = this.#options;
    this.dispatcher = await Dispatcher.open({
      identity: this.identity,
      index: 0,
      workersExpected: workers,
      isEncrypted,
      silenceMs,
      forgetAfterMs,
      listenOn: 'loopback',
    });
    this.#incarnation += 1;
    this.dispatcher.begin(this.#incarnation);
    const { addresses } = this.dispatcher;
    this.directory.set({ index: 0, incarnation: this.#incarnation, addresses });
  }

  async addWorker(): Promise<Worker> {
    const { isEncrypted = false, silenceMs, modules = process.cwd(), memoryBytes = 2 ** 26 } = this.#options;
    const settings = readSettings({ HOROVOD_DATA_THREADS: '0', ...this.#options.environment });
    this.#lastWorker += 1;
    const worker = await Worker.open({
      identity: this.identity,
      isEncrypted,
      silenceMs,
      modules,
      settings,
      fileSystems: new Files(() => settings),
      memoryBytes,
      listenOn: 'loopback',
    });
    const ending = new AbortController();
    const served = this.#serve(worker, this.#lastWorker, ending.signal);
    this.workers.push({ worker, ending, served });
    return worker;
  }

  /** As if its process had been killed. */
  async killWorker(at: number): Promise<void> {
    const [found] = this.workers.splice(at, 1);
    found?.ending.abort();
    await found?.worker.closeAbruptly();
    await found?.served;
  }

  async killDispatcher(): Promise<void> {
    await this.dispatcher.closeAbruptly();
  }

  /** A trainer's dataset that comes from this service. */
  through<T>(dataset: Dataset<T>, options: TrainerOptions = {}): Dataset<T> {
    const { rank = 0, size = 1, jobName, isRoundRobin = false, isParallel = false, depth = 4 } = options;
    const { generation = () => 0, gather = (own) => [own], secret = this.secret } = options;
    const request: ServiceRequest = {
      call: 'sendToDataService()',
      place: () => ({ rank, size }),
      jobName,
      run: jobName === undefined ? `test ${this.hosts.length}` : 'test',
      isRoundRobin,
      isParallel,
      silenceMs: 30_000,
      generation,
      depth,
      gather,
      openHost: (job, consumer) => {
        const { timeoutMs = 10_000, silenceMs, isEncrypted = false, sharesMemory = true } = this.#options;
        const host = new InlineHost({
          identity: { secret, jobId: 'test' },
          isEncrypted,
          dispatcher: 0,
          find: new DispatcherSource(this.directory, 0),
          request: job,
          consumer,
          timeoutMs,
          maxBatchBytes: 2 ** 24,
          sharing: sharesMemory ? {} : undefined,
          silenceMs,
        });
        this.hosts.push(host);
        return host;
      },
    };
    const through = (dataset as never as Record<symbol, (request: ServiceRequest) => Dataset<T>>)[
      throughService
    ];
    if (through === undefined) throw new Error('not a dataset');
    return through(request);
  }

  async close(): Promise<void> {
    for (const host of this.hosts) await host.close();
    for (const { worker, ending, served } of this.workers) {
      ending.abort();
      await worker.close();
      await served;
    }
    await this.dispatcher.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  async #serve(worker: Worker, number: number, signal: AbortSignal): Promise<void> {
    const find = new DispatcherSource(this.directory, 0);
    while (!signal.aborted) {
      try {
        await find.connect(
          async (place, timeoutMs) => ({ ended: await worker.serve(place, number, { timeoutMs, signal }) }),
          { timeoutMs: 20_000, signal },
        );
      } catch (error) {
        if (!signal.aborted && !HorovodError.is(error)) throw error;
      }
    }
  }
}
