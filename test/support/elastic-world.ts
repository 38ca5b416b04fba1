// An elastic job in one process: workers with a small state of their own over the in-memory transport, and a driver whose part
// a test plays. Keys and messages are the real ones.

import { createLog } from '../../src/console/log.ts';
import { HorovodContext } from '../../src/context/context.ts';
import { Run } from '../../src/elastic/run-loop.ts';
import type { ElasticRunner, Reset } from '../../src/elastic/runner.ts';
import type { RunSide, Source } from '../../src/elastic/state.ts';
import { HorovodError } from '../../src/errors.ts';
import { broadcastObject } from '../../src/operations/collectives.ts';
import { ProcessSet } from '../../src/operations/process-set.ts';
import {
  type Assignment,
  assignmentKey,
  decodeReady,
  encodeAssignment,
  formedKey,
  generationPrefix,
  type Ready,
  readyKey,
  type Seat,
} from '../../src/rendezvous/elastic-messages.ts';
import { gather } from '../../src/rendezvous/store/gather.ts';
import { MemoryStore } from '../../src/rendezvous/store/memory-store.ts';
import { makeExchange } from '../../src/testing/exchange.ts';
import { defaultLimits } from '../../src/testing/run-contexts.ts';
import { MemoryHub } from '../../src/transport/memory/memory-transport.ts';

/** One number that training counts up, and what a commit keeps of it. */
export class CountingState implements RunSide {
  value: number;
  #saved: { readonly value: number; readonly commit: number } | undefined;
  #commits = 0;
  #isNewcomer = false;
  #runner: ElasticRunner | undefined;
  context: HorovodContext | undefined;
  readonly resets: Reset[] = [];
  readonly syncs: { root: number; lacking: readonly number[] }[] = [];
  /** Awaited in the middle of syncFrom(). */
  beforeSyncEnds: () => Promise<void> = async () => {};

  constructor(value: number) {
    this.value = value;
  }

  get commits(): number {
    return this.#isNewcomer ? -1 : this.#commits;
  }

  attach(runner: ElasticRunner | undefined): void {
    this.#runner = runner;
  }

  becomeNewcomer(): void {
    this.#isNewcomer = true;
  }

  readonly versions: undefined;

  goBackTo(): number {
    throw new Error('this state has no shards');
  }

  shardDigests(): Record<string, string> {
    return {};
  }

  async syncFrom({ root, lacking }: Source): Promise<void> {
    this.syncs.push({ root, lacking });
    const context = this.context as HorovodContext;
    const [value, commit] = await broadcastObject(context, [this.value, this.#commits] as const, root, {
      name: 'sync',
    });
    this.value = value;
    await this.beforeSyncEnds();
    this.#commits = commit;
    this.#saved = { value, commit };
    this.#isNewcomer = false;
  }

  /** What digest() adds to the value. */
  oddity = '';

  digest(): string {
    return `${this.value}${this.oddity}`;
  }

  async callResets(reset: Reset): Promise<void> {
    this.resets.push(reset);
  }

  save(): void {
    this.#commits++;
    this.#saved = { value: this.value, commit: this.#commits };
  }

  restore(): void {
    if (this.#saved !== undefined) this.value = this.#saved.value;
  }

  async commit(): Promise<void> {
    this.save();
    if (this.#runner?.isDue(this.#commits)) await this.#runner.check(this.#commits);
  }
}

export type Train<R> = (state: CountingState, context: HorovodContext, call: number) => Promise<R>;

interface Generation {
  readonly hub: MemoryHub;
  readonly exchange: ReturnType<typeof makeExchange>;
}

export class ElasticWorld {
  readonly store: MemoryStore = new MemoryStore();
  /** HOROVOD_ELASTIC_VERIFY of the workers that are started from now on. */
  verifies = false;
  readonly #generations = new Map<number, Generation>();
  readonly #notices = new Set<number>();
  readonly #answered = new Map<number, number>();

  /** A worker that calls run(). */
  start<R>(
    worker: number,
    train: Train<R>,
    state: CountingState = new CountingState(worker),
  ): {
    readonly state: CountingState;
    readonly result: Promise<R>;
  } {
    let calls = 0;
    let context: HorovodContext | undefined;
    let generation = 0;
    const retire = () => context?.retire(generation);
    const run = new Run<R>(
      {
        worker,
        hostname: 'here',
        verifies: this.verifies,
        store: this.store,
        form: async (seat) => {
          retire();
          generation = seat.generation;
          context = await this.#form(worker, seat);
          state.context = context;
          return context;
        },
        retire,
      },
      state,
      {
        train: () => train(state, context as HorovodContext, ++calls),
        save: () => state.save(),
        restore: () => state.restore(),
      },
    );
    const result = run.toTheEnd();
    result.catch(() => undefined);
    return { state, result };
  }

  /** The next report of each worker. */
  async reports(...workers: number[]): Promise<Ready[]> {
    return Promise.all(
      workers.map(async (worker) => {
        const count = (this.#answered.get(worker) ?? 0) + 1;
        return decodeReady(await this.store.get(readyKey(worker, count), { timeoutMs: 20_000 }));
      }),
    );
  }

  /** Answers the last report of a worker. */
  async answer(worker: number, assignment: Assignment): Promise<void> {
    const count = (this.#answered.get(worker) ?? 0) + 1;
    this.#answered.set(worker, count);
    await this.store.set(assignmentKey(worker, count), encodeAssignment(assignment));
  }

  /** Seats for all workers of a generation. */
  async seat(
    generation: number,
    workers: readonly number[],
    about: Partial<Pick<Seat, 'joined' | 'lost' | 'previousSize'>> = {},
  ): Promise<void> {
    const size = workers.length;
    const common = {
      generation,
      size,
      workers,
      joined: [],
      lost: [],
      previousSize: 0,
      since: workers.map(() => 1),
      ...about,
    };
    await Promise.all(workers.map((worker, rank) => this.answer(worker, { kind: 'seat', ...common, rank })));
  }

  async formed(generation: number, ...workers: number[]): Promise<void> {
    await Promise.all(
      workers.map((worker) => this.store.get(formedKey(generation, worker), { timeoutMs: 20_000 })),
    );
  }

  /** The driver wants another membership. */
  notice(generation: number): void {
    this.#notices.add(generation);
  }

  /** What the ranks of a generation see when one of them dies. */
  kill(generation: number, rank: number): void {
    this.#generationOf(generation, 0).hub.fail(lost(rank));
  }

  /** What the driver does when a member is lost before all have formed. */
  close(generation: number, rank: number): void {
    this.store.closePrefix(generationPrefix(generation), lost(rank));
  }

  async #form(worker: number, { generation, rank, size, workers }: Seat): Promise<HorovodContext> {
    const { hub, exchange } = this.#generationOf(generation, size);
    await gather(this.store, `${generationPrefix(generation)}introduction`, '', {
      members: workers,
      rank: worker,
      timeoutMs: 20_000,
    });
    return HorovodContext.create({
      world: {
        rank,
        size,
        localRank: rank,
        localSize: size,
        crossRank: 0,
        crossSize: 1,
        isHomogeneous: true,
      },
      transport: hub.transport(rank),
      limits: defaultLimits,
      log: createLog({ logLevel: 'fatal' }, rank),
      hasDynamicProcessSets: false,
      processSet: new ProcessSet([]),
      members: workers.map((_, each) => each),
      exchange: exchange(rank),
      hasNotice: () => this.#notices.has(generation),
      failJob: (error) => hub.fail(error),
      leave() {},
      close() {},
    });
  }

  #generationOf(generation: number, size: number): Generation {
    let known = this.#generations.get(generation);
    if (known === undefined) {
      known = { hub: new MemoryHub(size), exchange: makeExchange(size) };
      this.#generations.set(generation, known);
    }
    return known;
  }
}

function lost(rank: number): HorovodError {
  return new HorovodError('ERR_HVD_PEER_LOST', `rank ${rank} was killed by SIGKILL.`, { rank });
}
