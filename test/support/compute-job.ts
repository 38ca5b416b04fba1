// A compute job in one process: a registry, compute workers and dispatchers as `horovod compute-worker` runs them, whose registry and
// dispatchers can be lost. With a path its config is a file, which a process that has lost the registry reads again.

import { randomBytes } from 'node:crypto';
import { TfDataServiceConfig } from '../../src/data/service/config.ts';
import { Registry } from '../../src/data/service/registry.ts';
import type { DispatcherSide } from '../../src/data/service/registry-messages.ts';
import { runComputeWorker, runDispatcher } from '../../src/data/service/worker-process.ts';

export interface ComputeJobOptions {
  /** Of the config. */
  readonly path?: string;
}

export class ComputeJob {
  config: TfDataServiceConfig;
  /** What compute workers have said. */
  readonly lines: string[] = [];
  readonly #options: ComputeJobOptions;
  readonly #workerEnding = new AbortController();
  readonly #workers: Promise<unknown>[] = [];
  readonly #dispatchers = new Map<
    number,
    { readonly ending: AbortController; readonly running: Promise<unknown> }
  >();
  #registry: Registry;

  static async start(
    dispatchers: number,
    side: DispatcherSide,
    workersPerDispatcher = 1,
    options: ComputeJobOptions = {},
  ): Promise<ComputeJob> {
    const key = randomBytes(32).toString('hex');
    const fields = { dispatchers, workersPerDispatcher, dispatcherSide: side, key, timeout: 20 };
    const [registry, config] = await openRegistry({ ...fields, incarnation: 1 }, options);
    return new ComputeJob(registry, config, options);
  }

  private constructor(registry: Registry, config: TfDataServiceConfig, options: ComputeJobOptions) {
    this.#registry = registry;
    this.config = config;
    this.#options = options;
    for (let index = 0; index < config.dispatchers * config.workersPerDispatcher; index++) {
      const client = config.computeClient();
      const dispatcher = Math.floor(index / config.workersPerDispatcher);
      const { signal } = this.#workerEnding;
      const log = (line: string) => this.lines.push(line);
      const worker = { config, client, signal, index, dispatcher, threads: 0, modules: process.cwd(), log };
      this.#workers.push(runComputeWorker(worker).finally(() => client.close()));
      if (config.dispatcherSide === 'compute' && index % config.workersPerDispatcher === 0)
        this.#startDispatcher(dispatcher);
    }
  }

  /** The registry is lost, and another one takes over and rewrites the config. */
  async replaceRegistry(): Promise<void> {
    await this.#registry.close();
    const { dispatchers, workersPerDispatcher, dispatcherSide, key, timeout, incarnation } = this.config;
    const fields = { dispatchers, workersPerDispatcher, dispatcherSide, key, timeout };
    const next = { ...fields, incarnation: incarnation + 1 };
    [this.#registry, this.config] = await openRegistry(next, this.#options);
  }

  async loseDispatcher(index: number): Promise<void> {
    const dispatcher = this.#dispatchers.get(index);
    dispatcher?.ending.abort();
    await dispatcher?.running;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#workerEnding.abort();
    for (const index of this.#dispatchers.keys()) await this.loseDispatcher(index);
    await Promise.all(this.#workers);
    await this.#registry.close();
  }

  /** In a process of its own, as far as the registry knows. */
  #startDispatcher(index: number): void {
    const { config } = this;
    const [client, ending] = [config.computeClient(), new AbortController()];
    const running = runDispatcher({ config, client, index, signal: ending.signal }).finally(() =>
      client.close(),
    );
    this.#dispatchers.set(index, { ending, running });
  }
}

async function openRegistry(
  fields: Omit<ConstructorParameters<typeof TfDataServiceConfig>[0], 'addresses'> & {
    readonly timeout: number;
    readonly incarnation: number;
  },
  { path }: ComputeJobOptions,
): Promise<[Registry, TfDataServiceConfig]> {
  const registry = await Registry.start({ ...fields, onShutdown: async () => {} });
  const config = new TfDataServiceConfig({ ...fields, addresses: registry.addresses });
  if (path !== undefined) await config.write(path);
  return [registry, config];
}
