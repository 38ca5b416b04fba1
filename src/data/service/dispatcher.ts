// The dispatcher: where compute workers and consumers of one group meet. It listens, tells who connects, and keeps the jobs. It runs in a
// compute worker's process, or in a thread of a training process.

import { HorovodError } from '../../errors.ts';
import type { Identity } from '../../net/handshake.ts';
import { channelDigest } from '../../net/handshake.ts';
import { type Incoming, Listener, type ListenerOptions } from '../../net/listener.ts';
import { errorOf, plainError } from '../execute/thread-messages.ts';
import { Job, nameOf, type WorkerMember } from './job.ts';
import { Link } from './link.ts';
import type { Message } from './messages.ts';

export interface DispatcherOptions {
  readonly identity: Identity;
  /** Its number in the service. */
  readonly index: number;
  readonly workersExpected: number;
  readonly isEncrypted: boolean;
  readonly networkInterfaces?: readonly string[] | undefined;
  readonly listenOn?: ListenerOptions['listenOn'];
  readonly silenceMs?: number | undefined;
  readonly forgetAfterMs?: number | undefined;
  readonly log?: ((line: string) => void) | undefined;
}

/** What a connection to a dispatcher is for. A later incarnation takes none that is meant for an earlier one. */
export function dispatcherChannel(incarnation: number, isEncrypted: boolean): string {
  return `data dispatcher ${incarnation}${isEncrypted ? ' encrypted' : ''}`;
}

/** Who a connection belongs to; 'new' until its first message. */
type Member =
  | { readonly kind: 'new' }
  | { readonly kind: 'worker'; readonly worker: number }
  | { readonly kind: 'consumer'; readonly consumer: number; readonly job: Job };

export class Dispatcher {
  readonly #options: DispatcherOptions;
  readonly #listener: Listener;
  readonly #links = new Set<Link>();
  readonly #workers = new Map<number, WorkerMember>();
  readonly #jobs = new Map<string, Job>();
  #lastWorker = 0;
  #lastJob = 0;
  #incarnation = 0;
  #channel: Buffer | undefined;

  static async open(options: DispatcherOptions): Promise<Dispatcher> {
    const { identity, index, networkInterfaces, listenOn } = options;
    let dispatcher: Dispatcher | undefined;
    const listener = await Listener.open({
      ...identity,
      purpose: 'data',
      number: index,
      networkInterfaces,
      ...(listenOn === undefined ? {} : { listenOn }),
      accepts: ({ channel }) => (dispatcher?.isFor(channel) === true ? 'yes' : 'no'),
      onIncoming: (incoming) => dispatcher?.accept(incoming),
    });
    dispatcher = new Dispatcher(options, listener);
    return dispatcher;
  }

  private constructor(options: DispatcherOptions, listener: Listener) {
    this.#options = options;
    this.#listener = listener;
  }

  get addresses(): string[] {
    return this.#listener.addresses;
  }

  /** The registry has given it its number; from now on others are let in. */
  begin(incarnation: number): void {
    this.#incarnation = incarnation;
    const { identity, isEncrypted } = this.#options;
    this.#channel = channelDigest(identity, dispatcherChannel(incarnation, isEncrypted));
  }

  isFor(channel: Buffer): boolean {
    return this.#channel?.equals(channel) === true;
  }

  describe(): { incarnation: number; workers: number; jobs: ReturnType<Job['describe']>[] } {
    const jobs = [...this.#jobs.values()].map((job) => job.describe());
    return { incarnation: this.#incarnation, workers: this.#workers.size, jobs };
  }

  accept(incoming: Incoming): void {
    const { isEncrypted, silenceMs } = this.#options;
    let member: Member = { kind: 'new' };
    const link: Link = new Link(incoming.accept(), {
      name: 'a member of the data service',
      isEncrypted,
      maxPayloadBytes: 0,
      silenceMs,
      onMessage: (message) => {
        member = this.#receive(link, member, message);
      },
      onLost: (error) => this.#lose(link, member, error),
    });
    this.#links.add(link);
  }

  /** Connections end; workers and consumers look for the next incarnation. */
  async close(): Promise<void> {
    for (const job of this.#jobs.values()) job.end();
    for (const link of this.#links) link.close();
    this.#links.clear();
    await this.#listener.close();
  }

  /** For tests: as if the process had been killed. */
  async closeAbruptly(): Promise<void> {
    for (const link of this.#links) link.fail(new HorovodError('ERR_HVD_DATA_SERVICE', 'closed'));
    await this.#listener.close();
  }

  #receive(link: Link, member: Member, message: Message): Member {
    switch (message.kind) {
      case 'worker-hello': {
        if (member.kind !== 'new') break;
        const { number, addresses, token, host, pid } = message;
        this.#lastWorker += 1;
        const worker = this.#lastWorker;
        // The same process again: the dispatcher has not noticed yet that its connection is gone.
        for (const each of this.#workers.values())
          if (each.place.token === token)
            each.link.fail(workerLost(nameOf(each.place), 'has connected again'));
        this.#workers.set(worker, { place: { worker, number, addresses, token, host, pid }, link });
        link.send({ kind: 'worker-welcome', worker, incarnation: this.#incarnation });
        this.#options.log?.(`${nameOf(message)} is there.`);
        for (const job of this.#jobs.values()) job.workerCame();
        return { kind: 'worker', worker };
      }
      case 'open':
        if (member.kind !== 'new') break;
        return this.#open(link, message);
      case 'leave':
        if (member.kind === 'consumer') member.job.consumerLost(member.consumer, link, true);
        return { kind: 'new' };
      case 'event':
        if (member.kind === 'worker')
          this.#jobById(message.job)?.workerEvent(member.worker, message.event as never);
        else if (member.kind === 'consumer')
          member.job.consumerEvent(member.consumer, message.event as never);
        return member;
      case 'starved':
        if (member.kind !== 'consumer') break;
        member.job.consumerStarved(member.consumer, message.share);
        return member;
      case 'prepared':
        if (member.kind !== 'worker') break;
        this.#jobById(message.job)?.workerPrepared(member.worker, message);
        return member;
      case 'failed': {
        if (member.kind !== 'worker') break;
        const error = errorOf(message.error);
        this.#jobById(message.job)?.fail(this.#failureOf(member.worker, error));
        return member;
      }
      default:
    }
    link.fail(
      new HorovodError(
        'ERR_HVD_DATA_SERVICE',
        `data service: ${link.name} sent "${message.kind}" out of turn.`,
      ),
    );
    return { kind: 'new' };
  }

  #failureOf(worker: number, error: Error): HorovodError {
    const place = this.#workers.get(worker)?.place;
    const where = place === undefined ? 'a compute worker' : nameOf(place);
    const code = HorovodError.is(error) ? error.code : 'ERR_HVD_DATA_SERVICE';
    const text = HorovodError.is(error) ? error.detail : error.message;
    return new HorovodError(code, `${text} (on ${where})`, { cause: error.cause });
  }

  #open(link: Link, { request, consumer, report }: Extract<Message, { kind: 'open' }>): Member {
    const key = JSON.stringify([request.run, request.name]);
    let job = this.#jobs.get(key);
    // Nobody is left of those who were there before, and this one has been nowhere: it begins anew.
    if (job !== undefined && report === null && !job.isWatched) {
      job.end();
      job = undefined;
    }
    if (job === undefined) {
      this.#lastJob += 1;
      const made: Job = new Job({
        id: `${this.#incarnation}.${this.#lastJob}`,
        request,
        incarnation: this.#incarnation,
        workersExpected: this.#options.workersExpected,
        workers: this.#workers,
        forgetAfterMs: this.#options.forgetAfterMs,
        onOver: () => {
          if (this.#jobs.get(key) === made) this.#jobs.delete(key);
        },
      });
      job = made;
      this.#jobs.set(key, job);
    }
    try {
      job.open(consumer, request, report, link);
    } catch (error) {
      link.send({ kind: 'failed', job: job.id, error: plainError(error) });
      return { kind: 'new' };
    }
    return { kind: 'consumer', consumer, job };
  }

  #lose(link: Link, member: Member, error: HorovodError): void {
    if (!this.#links.delete(link)) return;
    if (member.kind === 'consumer') member.job.consumerLost(member.consumer, link, false);
    if (member.kind !== 'worker') return;
    const place = this.#workers.get(member.worker)?.place;
    this.#workers.delete(member.worker);
    const reason = place === undefined ? error.detail : `${nameOf(place)} was lost: ${error.detail}`;
    this.#options.log?.(reason);
    for (const job of this.#jobs.values()) job.workerLost(member.worker, reason);
  }

  #jobById(id: string): Job | undefined {
    for (const job of this.#jobs.values()) if (job.id === id) return job;
    return undefined;
  }
}

function workerLost(name: string, reason: string): HorovodError {
  return new HorovodError('ERR_HVD_DATA_SERVICE', `${name} ${reason}.`);
}
