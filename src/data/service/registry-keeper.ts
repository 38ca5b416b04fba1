// Who runs the registry of a data service. Compute rank 0 opens the first one. When nobody answers any more, another compute process
// opens the next *incarnation* with the same key and rewrites the config; the lower its number, the earlier it tries. Of two that try,
// the one that creates the file <config>.<incarnation> wins. A registry that finds a higher incarnation in the config, because it was
// frozen or cut off meanwhile, ends: its clients find the new one there.

import { setTimeout as sleep } from 'node:timers/promises';
import { defaultFiles } from '../../context/default/default-files.ts';
import { HorovodError } from '../../errors.ts';
import { problemOf } from '../../files/file-system.ts';
import { locationOf } from '../../files/location.ts';
import { processEnvironment } from '../../settings/environment.ts';
import { readSettings } from '../../settings/read-settings.ts';
import { clientOf, removeConfig, TfDataServiceConfig } from './config.ts';
import { Registry } from './registry.ts';
import type { ServicePlace } from './registry-messages.ts';

export interface RegistryKeeperOptions {
  /** Of the config. */
  readonly path: string;
  /** Of this process among the compute processes: it tries the later, the higher it is. */
  readonly index: number;
  /** Whether the service ends with this process. If not, another one takes over. */
  readonly endsService: boolean;
  log(line: string): void;
  /** For tests. Default: 3 s. */
  readonly lookMs?: number | undefined;
}

/** Nobody has answered for this long before anybody tries to take over: a registry may be slow, or a line broken for a moment. */
const patienceMs = 3000;
const perIndexMs = 500;
const maxIndexMs = 20_000;
/** Whoever has created the file writes the config at once; after this long it must have been lost as well. */
const claimMs = 10_000;
/** A process that has taken over before may be the one whose line is broken. */
const perTakeoverMs = 15_000;
/** How long the registry stays for those that have not heard of the end yet. */
const leaveMs = 5000;
const endSuccessorMs = 5000;
const defaultLookMs = 3000;

interface Kept {
  readonly registry: Registry;
  readonly config: TfDataServiceConfig;
  readonly watching: AbortController;
}

export class RegistryKeeper {
  readonly #options: RegistryKeeperOptions;
  readonly #location: string;
  readonly #closing = new AbortController();
  #kept: Kept | undefined;
  #takeovers = 0;
  #trying: Promise<void> | undefined;

  constructor(options: RegistryKeeperOptions) {
    this.#options = options;
    this.#location = locationOf(options.path);
  }

  /** Whether this process runs the registry. */
  get isKeeper(): boolean {
    return this.#kept !== undefined;
  }

  /** Opens a registry and writes the config. */
  async open(service: Omit<ServicePlace, 'addresses'>): Promise<TfDataServiceConfig> {
    const { log, path } = this.#options;
    let config: TfDataServiceConfig | undefined;
    const registry = await Registry.start({
      ...service,
      networkInterfaces: readSettings(processEnvironment()).networkInterfaces,
      // Before anybody hears of the end: who looks for the service afterwards finds no file.
      onShutdown: async (isAsked) => {
        if (config === undefined) return;
        if (isAsked) await this.#endSuccessor(config);
        await this.#removeFiles(config).catch((error: unknown) =>
          log(`the config ${path} could not be removed: ${(error as Error).message}`),
        );
      },
    });
    try {
      config = new TfDataServiceConfig({ ...service, addresses: registry.addresses });
      await config.write(path);
    } catch (error) {
      await registry.close();
      throw error;
    }
    const watching = new AbortController();
    this.#kept = { registry, config, watching };
    void this.#watch(this.#kept);
    return config;
  }

  /** The registry of `place` does not answer; `sinceMs`: for how long. Called again and again by the client of this process. */
  consider(place: ServicePlace, sinceMs: number): void {
    const { index } = this.#options;
    const dueMs = patienceMs + Math.min(index * perIndexMs, maxIndexMs) + this.#takeovers * perTakeoverMs;
    if (sinceMs < dueMs || this.isKeeper || this.#trying !== undefined || this.#closing.signal.aborted)
      return;
    this.#trying = this.#takeOver(place)
      .catch((error: unknown) => {
        if (!this.#closing.signal.aborted)
          this.#options.log(`the registry could not be replaced: ${(error as Error).message}`);
      })
      .finally(() => {
        this.#trying = undefined;
      });
  }

  /** A signal has come: ends the service for everybody, where this process runs the registry and the service ends with it. */
  async shutDown(): Promise<void> {
    if (this.#options.endsService) await this.#kept?.registry.shutDown();
  }

  async close(): Promise<void> {
    this.#closing.abort();
    await this.#trying;
    const kept = this.#kept;
    if (kept === undefined) return;
    kept.watching.abort();
    if (this.#options.endsService) await kept.registry.shutDown();
    if (kept.registry.isShutDown) await kept.registry.waitForLeave(leaveMs);
    await this.#drop(kept);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  async #takeOver(place: ServicePlace): Promise<void> {
    const { log, path } = this.#options;
    const { signal } = this.#closing;
    for (let incarnation = place.incarnation + 1; ; incarnation++) {
      if ((await this.#incarnationThere()) !== place.incarnation) return;
      if (await this.#claim(incarnation)) {
        // Somebody with a higher number may have been faster.
        if ((await this.#incarnationThere()) !== place.incarnation) return;
        await this.open({ ...place, incarnation });
        this.#takeovers++;
        log(`the registry of the data service was lost; this process runs the next one (${path}).`);
        return;
      }
      const giveUpAt = performance.now() + claimMs;
      while (performance.now() < giveUpAt) {
        if ((await this.#incarnationThere()) !== place.incarnation) return;
        await sleep(Math.min(claimMs / 20, this.#lookMs), undefined, { signal });
      }
    }
  }

  /** The file <config>.<incarnation> is ours. */
  async #claim(incarnation: number): Promise<boolean> {
    const file = this.#claimOf(incarnation);
    const fileSystem = await defaultFiles().fileSystem(file);
    try {
      const handle = await fileSystem.create(file, { permission: 0o600 });
      await handle.close();
      return true;
    } catch (error) {
      if (problemOf(error) === 'exists') return false;
      throw error;
    }
  }

  /** Of the config; undefined if there is none: the service has ended. */
  async #incarnationThere(): Promise<number | undefined> {
    try {
      return (await TfDataServiceConfig.read(this.#location)).incarnation;
    } catch (error) {
      if (problemOf(error) === 'missing') return undefined;
      throw error;
    }
  }

  /** Until the registry ends, or finds that another one has taken over. */
  async #watch(kept: Kept): Promise<void> {
    const { signal } = kept.watching;
    try {
      for (;;) {
        await sleep(this.#lookMs, undefined, { signal, ref: false });
        const there = await this.#incarnationThere().catch(() => undefined);
        if (there === undefined || there <= kept.config.incarnation || signal.aborted) continue;
        this.#options.log('another process runs the registry of the data service now.');
        await this.#drop(kept);
        return;
      }
    } catch (error) {
      if (!signal.aborted) throw error;
    }
  }

  async #drop(kept: Kept): Promise<void> {
    kept.watching.abort();
    if (this.#kept === kept) this.#kept = undefined;
    await kept.registry.close();
    await this.#remove(this.#claimOf(kept.config.incarnation)).catch(() => undefined);
  }

  /**
   * A registry that was taken for lost may be asked to end the service before it notices its successor, of which those who
   * ask know nothing either: nobody else would tell that one.
   */
  async #endSuccessor({ key, incarnation }: TfDataServiceConfig): Promise<void> {
    const { log, path } = this.#options;
    const there = await TfDataServiceConfig.read(this.#location).catch(() => undefined);
    if (there === undefined || there.key !== key || there.incarnation <= incarnation) return;
    await using client = clientOf(there, path, { isHasty: true });
    await client
      .shutdown({ timeoutMs: endSuccessorMs })
      .catch((error: unknown) =>
        log(`the process that runs the registry now did not hear of the end: ${(error as Error).message}`),
      );
  }

  async #removeFiles(config: TfDataServiceConfig): Promise<void> {
    await removeConfig(config, this.#location);
    for (let each = 2; each <= config.incarnation; each++) await this.#remove(this.#claimOf(each));
  }

  async #remove(file: string): Promise<void> {
    await (await defaultFiles().fileSystem(file)).remove(file);
  }

  get #lookMs(): number {
    return this.#options.lookMs ?? defaultLookMs;
  }

  #claimOf(incarnation: number): string {
    return `${this.#location}.${incarnation}`;
  }
}

/** Two services cannot have one config: training processes of the first would find the second. */
export async function checkNobodyThere(path: string, signal: AbortSignal): Promise<void> {
  const config = await TfDataServiceConfig.read(path, { signal }).catch(() => undefined);
  if (config === undefined) return;
  await using client = clientOf(config, path, { isHasty: true });
  const status = await client.status({ signal, timeoutMs: 3000 }).catch(() => undefined);
  if (status === undefined || status.isShutDown) return;
  throw new HorovodError(
    'ERR_HVD_DATA_SERVICE',
    `a data service with the config ${path} is running already (process ${status.pid} on ${status.host}). End it, for example with ` +
      'SIGTERM, use another path, or add a worker to it with --join.',
  );
}
