// The registry of a data service: where dispatchers and workers say where they are, and everybody else asks. Compute rank 0 runs
// it. It is the store of a job's start with another secret, the key of the service, which answers calls (registry-messages.ts).
// Every client says something every second; one that is silent for 10 s is lost, as one whose connection has ended.

import { hostname } from 'node:os';
import { HorovodError } from '../../errors.ts';
import { SilenceDetector } from '../../net/silence.ts';
import { TcpStoreServer } from '../../rendezvous/store/tcp-store-server.ts';
import { JobSecret } from '../../settings/job-secret.ts';
import { RegistryMembers } from './registry-members.ts';
import {
  type Call,
  type Page,
  parseCall,
  type ServicePlace,
  type ServiceStatus,
} from './registry-messages.ts';

export interface RegistryOptions extends Omit<ServicePlace, 'addresses'> {
  /** Names of interfaces, or subnets: narrows the addresses. */
  readonly networkInterfaces?: readonly string[] | undefined;
  /** Loopback is for tests. Default: all interfaces. */
  readonly listenOn?: 'loopback' | 'all' | undefined;
  /** Called once when the service is shut down, before anybody hears of it; `isAsked`: by a client. */
  readonly onShutdown?: (isAsked: boolean) => Promise<void>;
  /** Default: 10 s. */
  readonly silenceMs?: number | undefined;
}

/** The secret is what tells one service from another. */
export const registryJobId = 'data service';
/** Clients choose their number at random; it means nothing. */
export const clientNumbers: number = 2 ** 32 - 1;
/** A page of a list leaves room in its frame for what is around it. */
const maxPageBytes = 40 * 1024;
const defaultSilenceMs = 10_000;

export class Registry {
  readonly #options: RegistryOptions;
  readonly #members: RegistryMembers;
  readonly #startedAt = Date.now();
  readonly #gone: (() => void)[] = [];
  #silence!: SilenceDetector<number>;
  #server!: TcpStoreServer;
  #shutdown: Promise<void> | undefined;

  private constructor(options: RegistryOptions) {
    this.#options = options;
    this.#members = new RegistryMembers(options);
  }

  /** Rejects with the system's error if it cannot listen. */
  static async start(options: RegistryOptions): Promise<Registry> {
    const registry = new Registry(options);
    const secret = JobSecret.fromHex(options.key);
    if (secret === undefined)
      throw new HorovodError('ERR_HVD_INVALID_ARGUMENT', 'the key of a data service has 32 bytes in hex.');
    registry.#server = await TcpStoreServer.start({
      secret,
      jobId: registryJobId,
      ranks: clientNumbers,
      listenOn: options.listenOn ?? 'all',
      networkInterfaces: options.networkInterfaces,
      onMember: (client) => registry.#silence.heard(client),
      onMemberGone: (client) => registry.#lose(client),
      onCall: (client, body, signal) => registry.#answer(client, body, signal),
    });
    // A connection that is silent is one that has ended.
    registry.#silence = new SilenceDetector(options.silenceMs ?? defaultSilenceMs, (client) =>
      registry.#server.drop(client),
    );
    registry.#silence.unref();
    return registry;
  }

  /** host:port candidates, for the config. */
  get addresses(): string[] {
    return this.#server.addresses;
  }

  get isShutDown(): boolean {
    return this.#members.isShutDown;
  }

  /** What computeClient().shutdown() does, which asks for it. */
  shutDown(isAsked = false): Promise<void> {
    this.#shutdown ??= (async () => {
      try {
        await this.#options.onShutdown?.(isAsked);
      } finally {
        this.#members.shutDown();
      }
    })();
    return this.#shutdown;
  }

  /** Resolves when every client has ended its connection, so that all have heard of the end; or after `timeoutMs`. */
  async waitForLeave(timeoutMs: number): Promise<void> {
    if (this.#server.members === 0) return;
    let timer: NodeJS.Timeout | undefined;
    await new Promise<void>((resolve) => {
      timer = setTimeout(resolve, timeoutMs);
      this.#gone.push(resolve);
    });
    clearTimeout(timer);
  }

  async close(): Promise<void> {
    this.#silence.stop();
    await this.#server.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  #lose(client: number): void {
    this.#members.lose(client);
    if (this.#server.members === 0) for (const resolve of this.#gone.splice(0)) resolve();
  }

  async #answer(client: number, body: string, signal: AbortSignal): Promise<string> {
    this.#silence.heard(client);
    const answer = await this.#carryOut(client, parseCall(body), signal);
    return JSON.stringify(answer ?? null);
  }

  async #carryOut(client: number, call: Call, signal: AbortSignal): Promise<unknown> {
    const members = this.#members;
    switch (call.call) {
      case 'register dispatcher': {
        const { index, addresses, host, pid } = call;
        const by = { client, addresses, host, pid };
        return { incarnation: members.registerDispatcher(index, by, call.incarnation) };
      }
      case 'register worker': {
        const { dispatcher, addresses, host, pid } = call;
        const by = { client, addresses, host, pid };
        return { number: members.registerWorker(dispatcher, by, call.number) };
      }
      case 'dispatcher': {
        const found = await members.until(() => members.dispatcher(call.index, call.after), signal);
        const { index, incarnation, addresses, side } = found;
        return { index, incarnation, addresses, side };
      }
      case 'all workers':
        return members.until(() => (members.hasAllWorkers(call.dispatcher) ? true : undefined), signal);
      case 'workers':
        return page(members.workersOf(call.dispatcher), call.after, ({ report: _, ...worker }) => worker);
      case 'remove worker':
        return members.removeWorker(call.number);
      case 'report':
        return members.report(client, call.workers, call.dispatchers);
      case 'shut down':
        return this.shutDown(true);
      case 'wait for the end':
        return members.until(() => (members.isShutDown ? true : undefined), signal);
      case 'status':
        return this.#status();
      case 'status of dispatchers':
        return page(
          members.dispatchers.map((each) => ({ ...each, number: each.index })),
          call.after,
          ({ number: _, ...dispatcher }) => dispatcher,
        );
      case 'status of workers':
        return page(members.workers, call.after, (worker) => worker);
    }
  }

  #status(): Omit<ServiceStatus, 'dispatchers' | 'workers'> {
    const { dispatchers, workersPerDispatcher, dispatcherSide } = this.#options;
    return {
      host: hostname(),
      pid: process.pid,
      startedAt: this.#startedAt,
      expected: { dispatchers, workersPerDispatcher },
      dispatcherSide,
      isShutDown: this.#members.isShutDown,
    };
  }
}

/** Of a list that is ordered by number: as many as fit, from the first one after `after`. */
function page<T extends { readonly number: number }, Shown>(
  list: readonly T[],
  after: number,
  show: (entry: T) => Shown,
): Page<Shown> {
  const entries: Shown[] = [];
  let bytes = 0;
  let last = after;
  for (const entry of list) {
    if (entry.number <= after) continue;
    const shown = show(entry);
    bytes += Buffer.byteLength(JSON.stringify(shown));
    // One always fits: its fields are limited.
    if (entries.length > 0 && bytes > maxPageBytes) return { entries, next: last };
    entries.push(shown);
    last = entry.number;
  }
  return { entries };
}
