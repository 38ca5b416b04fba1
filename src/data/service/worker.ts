// A compute worker: connected to its dispatcher, it prepares jobs, makes the batches of its leases and sends each to the consumer that the
// dispatcher names. Consumers connect to it. A batch stays here until the dispatcher says that somebody has it.

import { randomBytes } from 'node:crypto';
import { hostname } from 'node:os';
import { HorovodError } from '../../errors.ts';
import type { Files } from '../../files/registry.ts';
import { channelDigest, type Identity } from '../../net/handshake.ts';
import { type Incoming, Listener, type ListenerOptions } from '../../net/listener.ts';
import type { Settings } from '../../settings/table.ts';
import { BusyTimes } from '../execute/busy-times.ts';
import { plainError } from '../execute/thread-messages.ts';
import { encodeValue, type ValueLayout } from './batch-bytes.ts';
import { dispatcherChannel } from './dispatcher.ts';
import { keyOf, type LedgerEvent, type LedgerMessage } from './ledger-state.ts';
import { dialLink, Link } from './link.ts';
import type { Message } from './messages.ts';
import { Producer } from './producer.ts';
import type { WorkerFigures } from './reports.ts';
import type { DispatcherPlace } from './service-parts.ts';
import { Payload, Sharing } from './sharing.ts';

export interface WorkerOptions {
  readonly identity: Identity;
  readonly isEncrypted: boolean;
  /** The folder of --modules. */
  readonly modules: string;
  readonly settings: Settings;
  readonly fileSystems: Files;
  /** For finished batches. */
  readonly memoryBytes: number;
  readonly networkInterfaces?: readonly string[] | undefined;
  readonly listenOn?: ListenerOptions['listenOn'];
  readonly silenceMs?: number | undefined;
}

/** What a connection to a worker is for. */
export function workerChannel(token: string, isEncrypted: boolean): string {
  return `data worker ${token}${isEncrypted ? ' encrypted' : ''}`;
}

interface Made {
  readonly id: { readonly epoch: number; readonly group: number; readonly ordinal: number };
  readonly lease: number;
  readonly value: ValueLayout | undefined;
  readonly payload: Payload;
  /** To whom it is to be sent. */
  order: Extract<LedgerMessage, { kind: 'send' }> | undefined;
  isSent: boolean;
}

interface WorkerJob {
  readonly id: string;
  producer: Producer | undefined;
  readonly leases: Map<number, AbortController>;
  /** By lease and batch. */
  readonly made: Map<string, Made>;
  readonly consumers: Map<number, Link>;
  room: number;
  isOver: boolean;
}

const firstRoom = 8;
const [minRoom, maxRoom] = [2, 64];

export class Worker {
  readonly #options: WorkerOptions;
  readonly #listener: Listener;
  readonly #token: string;
  readonly #jobs = new Map<string, WorkerJob>();
  /** Of consumers whose job is not known yet. */
  readonly #early = new Map<Link, { readonly job: string; readonly consumer: number }>();
  readonly #links = new Set<Link>();
  #dispatcher: Link | undefined;
  #largestBytes = 1;
  #isClosed = false;
  #madeBatches = 0;
  #madeBytes = 0;
  /** Of jobs that have ended. */
  readonly #pastTimes = new BusyTimes();
  readonly #sharing: Sharing;

  static async open(options: WorkerOptions): Promise<Worker> {
    const token = randomBytes(12).toString('hex');
    const { identity, networkInterfaces, listenOn, isEncrypted } = options;
    const channel = channelDigest(identity, workerChannel(token, isEncrypted));
    let worker: Worker | undefined;
    const listener = await Listener.open({
      ...identity,
      purpose: 'data',
      number: 0,
      networkInterfaces,
      ...(listenOn === undefined ? {} : { listenOn }),
      accepts: (claim) => (claim.channel.equals(channel) ? 'yes' : 'no'),
      onIncoming: (incoming) => worker?.accept(incoming),
    });
    worker = new Worker(options, listener, token);
    return worker;
  }

  private constructor(options: WorkerOptions, listener: Listener, token: string) {
    this.#options = options;
    this.#listener = listener;
    this.#token = token;
    const { native, nativePath } = options.settings;
    this.#sharing = new Sharing({ native, nativePath });
  }

  /** How many trainers on this host have copied or copy from its memory. */
  get sharedBatches(): number {
    return this.#sharing.count;
  }

  get addresses(): string[] {
    return this.#listener.addresses;
  }

  /** Made so far. */
  describe(): WorkerFigures {
    const jobs = [...this.#jobs.values()];
    const held = jobs.flatMap(({ made }) => [...made.values()]);
    return {
      batches: this.#madeBatches,
      bytes: this.#madeBytes,
      leases: jobs.reduce((sum, { leases }) => sum + leases.size, 0),
      // How full its memory is.
      share: Math.min(
        1,
        held.reduce((sum, { payload }) => sum + payload.bytes, 0) / this.#options.memoryBytes,
      ),
      busy: this.#busyTimes(jobs).read(),
    };
  }

  /** Serves a dispatcher until its connection ends; resolves with the reason. Rejects if there is none to connect to. */
  async serve(
    dispatcher: DispatcherPlace,
    /** Its number in the registry. */
    number: number,
    wait: { timeoutMs: number; signal?: AbortSignal | undefined },
  ): Promise<HorovodError> {
    const { identity, isEncrypted, silenceMs } = this.#options;
    let onLost: (error: HorovodError) => void = () => {};
    const lost = new Promise<HorovodError>((resolve) => {
      onLost = resolve;
    });
    const link = await dialLink(
      {
        identity,
        from: number,
        to: dispatcher.index,
        channel: dispatcherChannel(dispatcher.incarnation, isEncrypted),
        addresses: dispatcher.addresses,
        ...wait,
      },
      {
        name: `dispatcher ${dispatcher.index} of the data service`,
        isEncrypted,
        maxPayloadBytes: 0,
        silenceMs,
        onMessage: (message) => this.#receive(link, message),
        onLost,
      },
    );
    this.#dispatcher = link;
    const onAbort = () => {
      link.close();
      onLost(new HorovodError('ERR_HVD_ABORTED', 'the compute worker ends.'));
    };
    wait.signal?.addEventListener('abort', onAbort, { once: true });
    if (wait.signal?.aborted) onAbort();
    link.send({
      kind: 'worker-hello',
      number,
      addresses: this.addresses,
      token: this.#token,
      host: hostname(),
      pid: process.pid,
    });
    const reason = await lost;
    wait.signal?.removeEventListener('abort', onAbort);
    this.#dispatcher = undefined;
    // The next incarnation knows nothing of these leases, and gives its own.
    for (const job of [...this.#jobs.values()]) await this.#forget(job);
    return reason;
  }

  accept(incoming: Incoming): void {
    const { isEncrypted, silenceMs } = this.#options;
    const link: Link = new Link(incoming.accept(), {
      name: 'a consumer of the data service',
      isEncrypted,
      maxPayloadBytes: 0,
      silenceMs,
      onMessage: (message) => {
        if (message.kind === 'receive') this.#addConsumer(link, message);
        else if (message.kind === 'arena-opened') this.#sharing.opened(link, message);
        else if (message.kind === 'copied') this.#sharing.copied(link, message.number);
        else link.fail(new HorovodError('ERR_HVD_DATA_SERVICE', `${link.name} sent "${message.kind}".`));
      },
      onLost: () => this.#loseConsumer(link),
    });
    this.#links.add(link);
  }

  /** Everything ends: connections, threads, files. */
  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#dispatcher?.close();
    for (const link of this.#links) link.close();
    await this.#listener.close();
    for (const job of [...this.#jobs.values()]) await this.#forget(job);
    this.#sharing.close();
  }

  /** For tests: as if the process had been killed. */
  async closeAbruptly(): Promise<void> {
    const error = new HorovodError('ERR_HVD_DATA_SERVICE', 'closed');
    this.#dispatcher?.fail(error);
    for (const link of [...this.#links]) link.fail(error);
    await this.close();
  }

  #receive(link: Link, message: Message): void {
    switch (message.kind) {
      case 'worker-welcome':
        return;
      case 'prepare':
        void this.#prepare(link, message);
        return;
      case 'order': {
        const job = this.#jobs.get(message.job);
        if (job !== undefined) this.#obey(link, job, message.message);
        return;
      }
      case 'forget': {
        const job = this.#jobs.get(message.job);
        if (job !== undefined) void this.#forget(job);
        return;
      }
      default:
        link.fail(
          new HorovodError('ERR_HVD_DATA_SERVICE', `${link.name} sent "${message.kind}" out of turn.`),
        );
    }
  }

  async #prepare(link: Link, message: Extract<Message, { kind: 'prepare' }>): Promise<void> {
    const { job: id, plan, layout, isParallel, workers } = message;
    const { modules, settings, fileSystems } = this.#options;
    const job: WorkerJob = {
      id,
      producer: undefined,
      leases: new Map(),
      made: new Map(),
      consumers: new Map(),
      room: firstRoom,
      isOver: false,
    };
    this.#jobs.set(id, job);
    for (const [early, { job: wanted, consumer }] of this.#early) {
      if (wanted !== id) continue;
      this.#early.delete(early);
      job.consumers.set(consumer, early);
    }
    try {
      const producer = await Producer.prepare({
        plan,
        modules,
        layout,
        isParallel,
        workers,
        settings,
        fileSystems,
        allocate: this.#sharing.allocate,
      });
      if (job.isOver) {
        await producer.close();
        return;
      }
      job.producer = producer;
      const { lengths, index } = producer;
      link.send({ kind: 'prepared', job: id, layout: producer.layout, lengths, index });
      this.#tell(job, { kind: 'room', worker: 0, room: job.room });
    } catch (error) {
      if (!job.isOver) link.send({ kind: 'failed', job: id, error: plainError(error) });
    }
  }

  #obey(link: Link, job: WorkerJob, order: Extract<LedgerMessage, { worker: number }>): void {
    switch (order.kind) {
      case 'lease':
        if (!job.leases.has(order.lease)) void this.#make(link, job, order);
        return;
      case 'revoke':
        for (const [lease, controller] of job.leases)
          if (order.lease === null || order.lease === lease) {
            controller.abort();
            job.leases.delete(lease);
          }
        if (order.lease !== null) return;
        this.#dropAll(job);
        job.producer?.forget();
        return;
      case 'release':
        this.#drop(job, madeKey(order.lease, order.id));
        return;
      case 'send': {
        const made = job.made.get(madeKey(order.lease, order.id));
        if (made === undefined) return;
        made.order = order;
        made.isSent = false;
        this.#send(job, made);
        return;
      }
      default:
        order satisfies never;
    }
  }

  async #make(link: Link, job: WorkerJob, order: Extract<LedgerMessage, { kind: 'lease' }>): Promise<void> {
    const { lease, epoch, group, from, to, start } = order;
    const controller = new AbortController();
    const { signal } = controller;
    job.leases.set(lease, controller);
    try {
      const producer = job.producer as Producer;
      for await (const product of producer.make({ epoch, group, from, to, start, signal })) {
        if (signal.aborted || this.#dispatcher !== link) return;
        if ('endsAt' in product) {
          this.#tell(job, { kind: 'group-ended', worker: 0, lease, length: product.endsAt });
          continue;
        }
        const id = { epoch, group, ordinal: product.ordinal };
        const encoded = product.value === undefined ? undefined : encodeValue(product.value);
        const payload = new Payload(encoded?.payload ?? [], producer.ownsBatches);
        job.made.set(madeKey(lease, id), {
          id,
          lease,
          value: encoded?.value,
          payload,
          order: undefined,
          isSent: false,
        });
        this.#count(job, payload.bytes);
        const { behind } = product as { behind?: unknown };
        this.#tell(job, { kind: 'made', worker: 0, lease, id, ...(behind === undefined ? {} : { behind }) });
      }
    } catch (error) {
      if (!signal.aborted && !job.isOver)
        link.send({ kind: 'failed', job: job.id, error: plainError(error) });
    } finally {
      job.leases.delete(lease);
    }
  }

  /** As many batches as the memory holds. */
  #count(job: WorkerJob, bytes: number): void {
    this.#madeBatches += 1;
    this.#madeBytes += bytes;
    this.#largestBytes = Math.max(this.#largestBytes, bytes);
    const most = Math.floor(this.#options.memoryBytes / this.#largestBytes);
    const room = Math.min(firstRoom, Math.max(minRoom, Math.min(maxRoom, most)));
    if (room === job.room) return;
    job.room = room;
    this.#tell(job, { kind: 'room', worker: 0, room });
  }

  #send(job: WorkerJob, made: Made): void {
    const { order, id, value, payload } = made;
    if (order === undefined || made.isSent) return;
    const link = job.consumers.get(order.consumer);
    // It goes out when the consumer has connected.
    if (link === undefined) return;
    made.isSent = true;
    const { era, round } = order;
    const message = { kind: 'batch', id, era, round, ...(value === undefined ? {} : { value }) } as const;
    const shared = this.#sharing.share(link, payload);
    if (shared !== undefined) {
      link.send({ ...message, shared });
      return;
    }
    payload.goesOverConnection();
    link.send(message, payload.pieces);
  }

  /** The dispatcher says that nobody needs it any more. */
  #drop(job: WorkerJob, key: string): void {
    const made = job.made.get(key);
    if (made === undefined) return;
    job.made.delete(key);
    made.payload.done();
    this.#sharing.free(made.payload);
  }

  #dropAll(job: WorkerJob): void {
    for (const key of [...job.made.keys()]) this.#drop(job, key);
  }

  #addConsumer(
    link: Link,
    { job: id, consumer, shares }: { job: string; consumer: number; shares: boolean },
  ): void {
    if (shares) this.#sharing.offerTo(link);
    const job = this.#jobs.get(id);
    if (job === undefined) {
      this.#early.set(link, { job: id, consumer });
      return;
    }
    const before = job.consumers.get(consumer);
    job.consumers.set(consumer, link);
    if (before !== undefined && before !== link) {
      this.#closeLink(before);
      this.#giveBack(job, consumer);
    }
    for (const made of job.made.values()) if (made.order?.consumer === consumer) this.#send(job, made);
  }

  #closeLink(link: Link): void {
    link.close();
    this.#links.delete(link);
    this.#sharing.lose(link);
  }

  #loseConsumer(link: Link): void {
    this.#links.delete(link);
    this.#sharing.lose(link);
    this.#early.delete(link);
    for (const job of this.#jobs.values())
      for (const [consumer, each] of job.consumers) {
        if (each !== link) continue;
        job.consumers.delete(consumer);
        this.#giveBack(job, consumer);
      }
  }

  /** What was sent to it may not have arrived. */
  #giveBack(job: WorkerJob, consumer: number): void {
    for (const made of job.made.values()) {
      if (made.order?.consumer !== consumer || !made.isSent) continue;
      made.order = undefined;
      made.isSent = false;
      this.#tell(job, { kind: 'undelivered', worker: 0, id: made.id });
    }
  }

  /** The dispatcher puts in whose event it is. */
  #tell(job: WorkerJob, event: LedgerEvent): void {
    if (!job.isOver) this.#dispatcher?.send({ kind: 'event', job: job.id, event });
  }

  async #forget(job: WorkerJob): Promise<void> {
    job.isOver = true;
    this.#jobs.delete(job.id);
    for (const controller of job.leases.values()) controller.abort();
    this.#dropAll(job);
    for (const link of job.consumers.values()) this.#closeLink(link);
    if (job.producer === undefined) return;
    this.#pastTimes.addAll(job.producer.busyTimes().read());
    await job.producer.close();
  }

  #busyTimes(jobs: readonly WorkerJob[]): BusyTimes {
    const all = new BusyTimes();
    all.addAll(this.#pastTimes.read());
    for (const { producer } of jobs) all.addAll(producer?.busyTimes().read());
    return all;
  }
}

function madeKey(lease: number, id: { readonly group: number; readonly ordinal: number }): string {
  return `${lease} ${keyOf(id)}`;
}
