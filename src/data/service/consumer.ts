// A consumer: the trainer's side of a job. It connects to the dispatcher and to all compute workers, claims what arrives, and hands out
// what it is granted. It knows what it has and what was taken of it, so that a new incarnation of the dispatcher can ask. It runs in a
// thread of the trainer: what goes in and out is plain data (ConsumerOrder, ConsumerEvent).

import { HorovodError } from '../../errors.ts';
import type { Identity } from '../../net/handshake.ts';
import { inSeconds } from '../../net/wait.ts';
import type { NativeSearch } from '../../transport/native/load.ts';
import { BufferPool } from '../execute/buffer-pool.ts';
import { errorOf, plainError } from '../execute/thread-messages.ts';
import type { ValueLayout } from './batch-bytes.ts';
import type { ConsumerEvent, ConsumerOrder } from './consumer-messages.ts';
import { dispatcherChannel } from './dispatcher.ts';
import type { BatchId, Cut, LedgerEvent } from './ledger-state.ts';
import { dialLink, type Link } from './link.ts';
import type { JobRequest, Message, ToConsumer, WireReport, WorkerPlace } from './messages.ts';
import { including, type Ranges } from './ranges.ts';
import type { DispatcherSource } from './service-parts.ts';
import { TrainerWaits } from './trainer-waits.ts';
import { WorkerConnections } from './worker-connections.ts';

export interface ConsumerOptions {
  readonly identity: Identity;
  readonly isEncrypted: boolean;
  readonly dispatcher: number;
  readonly find: DispatcherSource;
  readonly request: JobRequest;
  readonly consumer: number;
  /** For a dispatcher or a worker that is not there. */
  readonly timeoutMs: number;
  readonly maxBatchBytes: number;
  /** With which addon batches are copied from the memory of workers on this host. Undefined: they all come over connections. */
  readonly sharing: NativeSearch | undefined;
  readonly silenceMs?: number | undefined;
  /** Opens a compute worker here, instead of failing, when there has been none for the timeout. */
  readonly work?: (() => void) | undefined;
  readonly post: (event: ConsumerEvent) => void;
}

/** A batch that has arrived and was not taken. */
interface Held {
  readonly id: BatchId;
  readonly round: number | null;
  readonly value: ValueLayout | undefined;
  payload: Uint8Array | undefined;
  isGranted: boolean;
}

type Arrival = Omit<Held, 'isGranted'> & { readonly era: number };

export class Consumer {
  readonly #options: ConsumerOptions;
  readonly #closing = new AbortController();
  readonly #workers: WorkerConnections;
  #dispatcher: Link | undefined;
  #job: string | undefined;
  #request: JobRequest;
  #isOver = false;
  /** Why there was no dispatcher or no worker at last. */
  #lastLoss = '';
  #waiting: NodeJS.Timeout | undefined;
  /** A compute worker was opened here. */
  #works = false;
  // What it knows of the job.
  #era: number | undefined;
  #cut: Cut | undefined;
  #attempt = 0;
  #epoch = 0;
  readonly #ring = new Map<string, Held>();
  #early: Arrival[] = [];
  /** Ranges of ordinals by group, of this epoch and era. */
  #taken: Ranges[] = [];
  #mark = 0;
  #restoring: Extract<ConsumerOrder, { kind: 'restore' }> | undefined;
  readonly #memory: BufferPool<ArrayBuffer>;
  readonly #waits = new TrainerWaits((share) => this.#dispatcher?.send({ kind: 'starved', share }));

  constructor(options: ConsumerOptions) {
    this.#options = options;
    this.#request = options.request;
    this.#memory = new BufferPool((bytes) => new ArrayBuffer(bytes), options.request.depth + 1);
    this.#workers = new WorkerConnections({
      ...options,
      allocate: (bytes) => this.#memory.take(bytes),
      onBatch: ({ id, era, round, value }, payload) => this.#arrive({ id, era, round, value, payload }),
      onFailed: (error) => this.#fail(error),
    });
    void this.#run();
  }

  order(order: ConsumerOrder): void {
    switch (order.kind) {
      case 'taken':
        this.#take(order);
        return;
      case 'mark':
        this.#mark = order.number;
        this.#sendMark();
        return;
      case 'restore':
        this.#ring.clear();
        this.#restoring = order;
        this.#request = { ...this.#request, consumers: order.consumers };
        if (this.#job !== undefined) this.#tell({ ...order, consumer: 0 });
        return;
      case 'waits':
        this.#waits.hear(order);
        return;
      case 'memory':
        this.#memory.give(order.buffer);
        return;
      case 'close':
        this.close();
        return;
      default:
        order satisfies never;
    }
  }

  close(): void {
    if (this.#isOver) return;
    this.#dispatcher?.send({ kind: 'leave' });
    this.#end();
  }

  /** For tests: as if the process had been killed. */
  closeAbruptly(): void {
    const error = new HorovodError('ERR_HVD_DATA_SERVICE', 'closed');
    this.#isOver = true;
    this.#dispatcher?.fail(error);
    this.#workers.fail(error);
    this.#end();
  }

  #end(): void {
    this.#isOver = true;
    clearTimeout(this.#waiting);
    this.#waits.close();
    this.#closing.abort();
    this.#dispatcher?.close();
    this.#workers.close();
    this.#ring.clear();
  }

  #fail(error: unknown): void {
    if (this.#isOver) return;
    this.#end();
    this.#options.post({ kind: 'failed', error: plainError(error) });
  }

  /** Connects to the dispatcher, again and again, until the end. */
  async #run(): Promise<void> {
    const { identity, dispatcher: index, find, timeoutMs, isEncrypted, silenceMs, consumer } = this.#options;
    const { signal } = this.#closing;
    try {
      while (!this.#isOver) {
        this.#post({ kind: 'state', text: `for dispatcher ${index}` });
        const lost = await find.connect(
          async ({ incarnation, addresses }, attemptMs) => {
            let onLost: (error: HorovodError) => void = () => {};
            const ended = new Promise<HorovodError>((resolve) => {
              onLost = resolve;
            });
            const channel = dispatcherChannel(incarnation, isEncrypted);
            const link = await dialLink(
              { identity, from: consumer, to: index, channel, addresses, timeoutMs: attemptMs, signal },
              {
                name: `dispatcher ${index} of the data service`,
                isEncrypted,
                maxPayloadBytes: 0,
                silenceMs,
                onMessage: (message) => this.#receive(message),
                onLost,
              },
            );
            return { link, ended };
          },
          { timeoutMs, signal, lastLoss: this.#lastLoss },
        );
        this.#dispatcher = lost.link;
        lost.link.send({ kind: 'open', request: this.#request, consumer, report: this.#report() });
        const error = await lost.ended;
        this.#lastLoss = error.detail;
        this.#dispatcher = undefined;
        this.#job = undefined;
        this.#workers.introduce(undefined);
      }
    } catch (error) {
      if (!this.#isOver) this.#fail(error);
    }
  }

  #receive(message: Message): void {
    if (this.#isOver) return;
    switch (message.kind) {
      case 'opened': {
        const isNew = this.#job !== message.job;
        this.#job = message.job;
        const { layout, lengths, index, era, cut } = message;
        if (this.#era === undefined) {
          this.#request = { ...this.#request, layout };
          this.#begin(era, cut);
          this.#post({ kind: 'opened', layout, lengths, index, era, cut });
        }
        if (this.#restoring !== undefined) this.#tell({ ...this.#restoring, consumer: 0 });
        for (const { id, isGranted } of this.#ring.values()) if (!isGranted) this.#claim(id);
        this.#sendMark();
        if (isNew) this.#workers.introduce(message.job);
        return;
      }
      case 'workers':
        this.#setWorkers(message.workers, message.lastLoss);
        return;
      case 'answer':
        this.#answer(message.message);
        return;
      case 'failed':
        this.#fail(errorOf(message.error));
        return;
      default:
        this.#fail(
          new HorovodError('ERR_HVD_DATA_SERVICE', `data service: the dispatcher sent "${message.kind}".`),
        );
    }
  }

  #answer(message: ToConsumer): void {
    if (message.kind === 'restored') {
      this.#restored(message);
      return;
    }
    if (message.kind === 'rejected') {
      this.#rejected(message.reason);
      return;
    }
    if (this.#restoring !== undefined) return;
    switch (message.kind) {
      case 'granted':
      case 'denied':
        this.#settle(message);
        return;
      case 'opened':
        for (const { id, isGranted } of this.#ring.values()) if (!isGranted) this.#claim(id);
        this.#sendMark();
        return;
      case 'epoch-ended': {
        const { era, epoch } = message;
        if (era !== this.#era) return;
        if (epoch > this.#epoch) {
          this.#epoch = epoch;
          this.#taken = [];
        }
        this.#post({ kind: 'epoch-ended', era, epoch });
        return;
      }
      case 'cut': {
        const { era, number, cut } = message;
        if (era === this.#era && number === this.#mark) this.#post({ kind: 'cut', era, number, cut });
        return;
      }
      default:
        message satisfies never;
    }
  }

  #settle({ kind, era, id }: Extract<ToConsumer, { kind: 'granted' | 'denied' }>): void {
    const key = ringKey(id);
    const held = this.#ring.get(key);
    if (era !== this.#era || held === undefined || held.isGranted) return;
    if (kind === 'denied') {
      this.#ring.delete(key);
      return;
    }
    held.isGranted = true;
    if (id.epoch > this.#epoch) {
      this.#epoch = id.epoch;
      this.#taken = [];
    }
    const { round, value, payload } = held;
    held.payload = undefined;
    this.#post({ kind: 'batch', era, id, round, value, payload });
  }

  #restored({ era, attempt, cut }: Extract<ToConsumer, { kind: 'restored' }>): void {
    if (this.#restoring?.attempt !== attempt) return;
    this.#restoring = undefined;
    this.#attempt = attempt;
    this.#begin(era, cut);
    this.#post({ kind: 'restored', era, attempt, cut });
    for (const arrival of this.#early.splice(0)) this.#arrive(arrival);
  }

  #rejected(reason: string): void {
    const pending = this.#restoring;
    if (pending === undefined) {
      // Another consumer has begun a later era: this one is not of the training any more, or restores soon.
      this.#lastLoss = reason;
      return;
    }
    // Another has heard of the era that this one has asked for.
    if (reason === 'it is in an earlier era') {
      this.#tell({ ...pending, consumer: 0 });
      return;
    }
    const text = `restore(): ${reason}. Call it with the same state on all trainers.`;
    this.#fail(new HorovodError('ERR_HVD_DATA_STATE', text));
  }

  #begin(era: number, cut: Cut): void {
    this.#era = era;
    this.#cut = cut;
    this.#epoch = cut.epoch;
    this.#ring.clear();
    this.#taken = [];
    this.#mark = 0;
  }

  #arrive(arrival: Arrival): void {
    const { era, id } = arrival;
    if (this.#era === undefined || era > this.#era || this.#restoring !== undefined) {
      this.#early.push(arrival);
      return;
    }
    const key = ringKey(id);
    if (era !== this.#era || this.#ring.has(key)) return;
    this.#ring.set(key, { ...arrival, isGranted: false });
    this.#claim(id);
  }

  #take({ era, id }: Extract<ConsumerOrder, { kind: 'taken' }>): void {
    if (era !== this.#era) return;
    this.#ring.delete(ringKey(id));
    if (id.epoch === this.#epoch) this.#taken[id.group] = including(this.#taken[id.group] ?? [], id.ordinal);
    this.#tell({ kind: 'taken', consumer: 0, era, ids: [id] });
  }

  #claim(id: BatchId): void {
    if (this.#era !== undefined) this.#tell({ kind: 'claim', consumer: 0, era: this.#era, id });
  }

  #sendMark(): void {
    if (this.#mark > 0 && this.#era !== undefined && this.#restoring === undefined)
      this.#tell({ kind: 'mark', consumer: 0, era: this.#era, number: this.#mark });
  }

  /** The dispatcher puts in whose event it is. */
  #tell(event: LedgerEvent): void {
    if (this.#job !== undefined) this.#dispatcher?.send({ kind: 'event', job: this.#job, event });
  }

  #report(): WireReport | null {
    const [era, cut] = [this.#era, this.#cut];
    if (era === undefined || cut === undefined) return null;
    const taken = Array.from({ length: cut.done.length + 1 }, (_, group) => this.#taken[group] ?? []);
    const granted = [...taken];
    for (const { id, isGranted } of this.#ring.values())
      if (isGranted && id.epoch === this.#epoch)
        granted[id.group] = including(granted[id.group] ?? [], id.ordinal);
    return { era, cut, attempt: this.#attempt, epoch: this.#epoch, granted, taken };
  }

  // Workers

  #setWorkers(places: readonly WorkerPlace[], lastLoss: string): void {
    if (lastLoss !== '') this.#lastLoss = lastLoss;
    this.#workers.set(places);
    clearTimeout(this.#waiting);
    if (places.length > 0) {
      this.#post({ kind: 'state', text: `for a batch of ${places.length} compute workers` });
      return;
    }
    this.#post({ kind: 'state', text: 'for compute workers' });
    const { timeoutMs, request, work } = this.#options;
    this.#waiting = setTimeout(() => {
      if (work !== undefined && !this.#works) {
        this.#works = true;
        work();
        return;
      }
      const last = this.#lastLoss === '' ? 'None has come' : `The last one: ${this.#lastLoss}`;
      this.#fail(
        new HorovodError(
          'ERR_HVD_DATA_SERVICE',
          `data service: the job "${request.name}" has had no compute worker for ${inSeconds(timeoutMs)}. ${last.replace(/\.$/, '')}. Start compute workers (horovod compute-worker … --join), or raise the timeout.`,
        ),
      );
    }, timeoutMs);
  }

  #post(event: ConsumerEvent): void {
    if (!this.#isOver) this.#options.post(event);
  }
}

function ringKey({ epoch, group, ordinal }: BatchId): string {
  return `${epoch}/${group}/${ordinal}`;
}
