// The store of a job without a launcher, served by one of its ranks. Processes come, say who they are, and get their rank
// when all are there. Nobody else watches over the start, so the end of a connection is the loss of a rank.
//   gathering  processes come; one that goes again ends the job
//   running    all are here; a rank that disconnects without a goodbye is lost
//   closing    this rank has left; it answers others while they still ask
// It keeps the process alive only while others wait for something.

import { randomBytes } from 'node:crypto';
import { HorovodError } from '../../errors.ts';
import { inSeconds, type WaitOptions, waitFor } from '../../net/wait.ts';
import type { JobSecret } from '../../settings/job-secret.ts';
import type { Store } from '../store/store.ts';
import { TcpStoreServer, type TcpStoreServerOptions } from '../store/tcp-store-server.ts';
import {
  type Arrival,
  arrivalKey,
  nameComer,
  notedKey,
  parseArrival,
  type Reply,
  replyKey,
} from './arrival.ts';
import { assignRanks } from './assign-ranks.ts';
import { type ElasticMeeting, RankDriver } from './rank-driver.ts';

export interface JobServerOptions
  extends Pick<TcpStoreServerOptions, 'listenOn' | 'port' | 'networkInterfaces'> {
  readonly secret: JobSecret;
  /** The process that serves; it is rank 0. */
  readonly own: Arrival;
  /** By which horovodrun --mpi knows its job. Default: a random one, because names of jobs are used again and again. */
  readonly jobId?: string | undefined;
  /** Of an elastic job: this process drives it. */
  readonly elastic?: ElasticMeeting | undefined;
  /** Called for every process that is accepted. */
  readonly onComer?: ((text: string) => void) | undefined;
}

export interface Membership {
  readonly rank: number;
  readonly jobId: string;
}

/** The job of the first handshake, when nobody knows yet which job it will be. */
export const gatheringJob = 'gathering';

/** In the handshake a process claims a random number, its ticket: ranks are assigned later. */
const tickets = 2 ** 32;
/** Once others have been quiet for this long, they have what they need. */
const quietMs = 500;
const checkEveryMs = 50;
const maxGoodbyeMs = 30_000;

export class JobServer {
  /** For the rank that serves. */
  readonly store: Store;
  readonly #own: Arrival;
  readonly #onComer: JobServerOptions['onComer'];
  readonly #elastic: ElasticMeeting | undefined;
  #driver: RankDriver | undefined;
  readonly #comers = new Map<number, Arrival>();
  readonly #ranks = new Map<number, number>();
  readonly #complete: Promise<Membership>;
  readonly #jobId: string;
  #server!: TcpStoreServer;
  #finish!: (membership: Membership) => void;
  #fail!: (error: HorovodError) => void;
  #state: 'gathering' | 'running' | 'closing' = 'gathering';
  #ownWaits = 0;
  #lastRequestAt = 0;
  #timer: NodeJS.Timeout | undefined;
  #goodbyeUntil = 0;

  private constructor({ own, jobId = randomBytes(8).toString('hex'), onComer, elastic }: JobServerOptions) {
    this.#own = own;
    this.#jobId = jobId;
    this.#elastic = elastic;
    this.#onComer = onComer;
    this.#complete = new Promise((resolve, reject) => {
      this.#finish = resolve;
      this.#fail = reject;
    });
    this.#complete.catch(() => undefined);
    this.store = {
      set: async (key, value) => {
        await this.#server.store.set(key, value);
        // The answers to those who wait for it are on their way before the caller goes on, and perhaps ends.
        await new Promise((resolve) => setImmediate(resolve));
      },
      get: (key, wait) => this.#holding(this.#server.store.get(key, wait)),
      close: () => this.close(),
    };
  }

  /** Rejects with the system's error (EADDRINUSE …) if it cannot listen. */
  static async start(options: JobServerOptions): Promise<JobServer> {
    const job = new JobServer(options);
    job.#server = await TcpStoreServer.start({
      ...options,
      jobId: gatheringJob,
      ranks: tickets,
      mayUse: (ticket, key) => job.#mayUse(ticket, key),
      onMember: (ticket) => void job.#receive(ticket),
      onMemberGone: (ticket, hasLeft) => job.#lose(ticket, hasLeft),
      onRequest: () => {
        job.#lastRequestAt = performance.now();
        job.#watch();
      },
    });
    job.#watch();
    job.#completeIfAll();
    return job;
  }

  get port(): number {
    return this.#server.port;
  }

  get addresses(): string[] {
    return this.#server.addresses;
  }

  /** Waits until all ranks of the job have come. */
  async gather(wait: WaitOptions): Promise<Membership> {
    try {
      const start = (resolve: (value: Membership) => void, reject: (error: HorovodError) => void) =>
        void this.#complete.then(resolve, reject);
      const late = () => this.#incomplete(`waited ${inSeconds(wait.timeoutMs ?? 0)} for the others`);
      return await this.#holding(waitFor(start, 'for all ranks', wait, late));
    } catch (error) {
      if (HorovodError.is(error)) this.#server.store.fail(error);
      this.close();
      throw error;
    }
  }

  /** Goes on answering for a moment: other ranks may be about to read what was written. */
  close(): void {
    if (this.#state === 'closing') return;
    this.#state = 'closing';
    this.#driver?.stop();
    const { host, pid } = this.#own;
    const text = `rank 0 (${host}, pid ${pid}) has shut down and no longer takes part in anything.`;
    this.#server.store.rankLost(0, new HorovodError('ERR_HVD_SHUT_DOWN', text, { rank: 0, pid }));
    this.#lastRequestAt = performance.now();
    this.#goodbyeUntil = performance.now() + maxGoodbyeMs;
    this.#watch();
  }

  /** One that has not been accepted may announce itself and read the reply, and nothing else. */
  #mayUse(ticket: number, key: string): boolean {
    return (
      this.#comers.has(ticket) || [arrivalKey, notedKey, replyKey].some((keyOf) => keyOf(ticket) === key)
    );
  }

  async #receive(ticket: number): Promise<void> {
    let comer: Arrival | undefined;
    try {
      comer = parseArrival(await this.#server.store.get(arrivalKey(ticket), { timeoutMs: 10_000 }));
    } catch {
      return;
    }
    const rejection = comer === undefined ? rejected('not an arrival') : this.#rejectionOf(comer);
    if (comer === undefined || rejection !== undefined) {
      await this.#reply(ticket, rejection as Reply);
      return;
    }
    const later = this.#state === 'running' ? this.#driver?.admit(comer) : undefined;
    if (this.#state === 'running' && later === undefined) {
      await this.#reply(ticket, this.#full());
      return;
    }
    this.#comers.set(ticket, comer);
    if (later !== undefined) {
      this.#ranks.set(ticket, later);
      await this.#server.store.set(notedKey(ticket), '');
      await this.#reply(ticket, { kind: 'welcome', rank: later, jobId: this.#jobId });
      return;
    }
    const count = this.#comers.size + 1;
    // The comer knows that it was noted before anybody reads so: whoever loses this process from then on was one of its job.
    await this.store.set(notedKey(ticket), '');
    this.#onComer?.(`${nameComer(comer)} has come: ${count} of ${this.#own.size}.`);
    this.#completeIfAll();
  }

  #rejectionOf(comer: Arrival): Reply | undefined {
    const here = `The job of ${nameComer(this.#own)}`;
    const canJoin = this.#state === 'running' && this.#elastic?.canGrow === true;
    if (this.#state !== 'gathering' && !canJoin) return this.#full();
    if (comer.size !== this.#own.size)
      return rejected(
        `${here} has ${this.#own.size} ranks, but HOROVOD_SIZE of this process is ${comer.size}.`,
      );
    if (comer.job !== this.#own.job) {
      const [theirs, ours] = [this.#own.job, comer.job].map((job) => job ?? 'not set');
      return rejected(`HOROVOD_JOB_ID of ${nameComer(this.#own)} is ${theirs}, of this process ${ours}.`);
    }
    if ((comer.rank === undefined) !== (this.#own.rank === undefined)) {
      const [ours, theirs] = comer.rank === undefined ? ['no', 'one'] : ['a', 'none'];
      return rejected(
        `this process has ${ours} HOROVOD_RANK, but ${nameComer(this.#own)} has ${theirs}. Set it on all ranks or on none.`,
      );
    }
    // It takes the place of one that was lost, under a number of its own.
    if (canJoin) return undefined;
    const twin = [this.#own, ...this.#comers.values()].find((each) => each.rank === comer.rank);
    if (comer.rank === undefined || twin === undefined) return undefined;
    return rejected(`${nameComer(twin)} has come already. Do two jobs use the same address?`);
  }

  #full(): Reply {
    return {
      kind: 'full',
      reason: `The job of ${nameComer(this.#own)} has all its ${this.#own.size} ranks.`,
    };
  }

  /** The workers have the numbers of their ranks. */
  #startDriver(byRank: readonly Arrival[]): void {
    if (this.#elastic === undefined) return;
    this.#driver = new RankDriver(this.#server.store, this.#elastic, this.#own);
    for (const comer of byRank) this.#driver.admit(comer);
  }

  #completeIfAll(): void {
    if (this.#comers.size + 1 < this.#own.size || this.#state !== 'gathering') return;
    this.#state = 'running';
    const all = [this.#own, ...this.#comers.values()];
    const assigned = assignRanks(all);
    const jobId = this.#jobId;
    const rankOf = (place: number) => all[place]?.rank ?? (assigned[place] as number);
    this.#startDriver(
      all
        .map((comer, place) => ({ comer, rank: rankOf(place) }))
        .sort((a, b) => a.rank - b.rank)
        .map(({ comer }) => comer),
    );
    for (const [place, ticket] of [...this.#comers.keys()].entries()) {
      const rank = rankOf(place + 1);
      this.#ranks.set(ticket, rank);
      void this.#reply(ticket, { kind: 'welcome', rank, jobId });
    }
    this.#finish({ rank: this.#own.rank ?? 0, jobId });
  }

  async #reply(ticket: number, reply: Reply): Promise<void> {
    try {
      await this.#server.store.set(replyKey(ticket), JSON.stringify(reply));
    } catch {
      // Closed meanwhile: the end of the connection says it.
    }
  }

  #lose(ticket: number, hasLeft: boolean): void {
    this.#watch();
    const comer = this.#comers.get(ticket);
    if (comer === undefined) return;
    const rank = this.#ranks.get(ticket);
    const { pid } = comer;
    if (this.#state === 'gathering') {
      this.#comers.delete(ticket);
      const error = hasLeft
        ? this.#incomplete(`${nameComer(comer)} has stopped waiting`)
        : new HorovodError(
            'ERR_HVD_PEER_LOST',
            `${nameComer(comer)} ended before all ranks had come together: its connection was closed without a goodbye.`,
            { rank: comer.rank, pid },
          );
      this.#fail(error);
      this.#server.store.fail(error);
      return;
    }
    if (rank === undefined) return;
    const who = nameComer({ ...comer, rank });
    if (this.#driver !== undefined) {
      const how = hasLeft ? 'has shut down' : 'has ended: its connection was closed without a goodbye';
      const code = hasLeft ? 'ERR_HVD_SHUT_DOWN' : 'ERR_HVD_PEER_LOST';
      this.#server.store.rankLost(rank, new HorovodError(code, `${who} ${how}.`, { rank, pid }));
      this.#driver.gone(rank, how, hasLeft ? 0 : 1);
      return;
    }
    if (hasLeft) {
      const text = `${who} has shut down and no longer takes part in anything.`;
      this.#server.store.rankLost(rank, new HorovodError('ERR_HVD_SHUT_DOWN', text, { rank, pid }));
    } else {
      const text = `${who} ended while the job was starting: its connection was closed without a goodbye.`;
      this.#server.store.fail(new HorovodError('ERR_HVD_PEER_LOST', text, { rank, pid }));
    }
  }

  #incomplete(what: string): HorovodError {
    const here = [this.#own, ...this.#comers.values()];
    const { size } = this.#own;
    const ranks = Array.from({ length: size }, (_, rank) => rank);
    const missing = ranks.filter((rank) => !here.some((each) => each.rank === rank));
    const who = this.#own.rank === undefined ? `${size - here.length} more` : `rank ${missing.join(', ')}`;
    return new HorovodError(
      'ERR_HVD_TIMEOUT',
      `${what}: ${here.length} of ${size} have come (${here.map(nameComer).join(', ')}), missing: ${who}. ` +
        'Has every rank been started, and does every rank call init()? To wait longer, set HOROVOD_START_TIMEOUT.',
    );
  }

  async #holding<T>(wait: Promise<T>): Promise<T> {
    this.#ownWaits++;
    this.#watch();
    try {
      return await wait;
    } finally {
      this.#ownWaits--;
    }
  }

  /** Checks now and then whether somebody still needs this process. */
  #watch(): void {
    if (this.#timer !== undefined) return;
    this.#server.holdProcess(true);
    this.#timer = setInterval(() => {
      const now = performance.now();
      const isClosing = this.#state === 'closing';
      const isNeeded = this.#server.waiting > 0 || now - this.#lastRequestAt < quietMs;
      if (
        isClosing
          ? this.#server.members > 0 && isNeeded && now < this.#goodbyeUntil
          : isNeeded || this.#ownWaits > 0
      )
        return;
      clearInterval(this.#timer);
      this.#timer = undefined;
      this.#server.holdProcess(false);
      if (isClosing) void this.#server.close();
    }, checkEveryMs);
  }
}

function rejected(reason: string): Reply {
  return { kind: 'rejected', reason };
}
