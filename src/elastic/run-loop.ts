// The loop of elastic.run() in one worker: calls the training function, and calls it again, with the state of the last commit, when ranks
// were lost or are to be added. run-machine.ts says what follows what; here it is done.

import { channel } from 'node:diagnostics_channel';
import type { Log } from '../console/log.ts';
import { HorovodError } from '../errors.ts';
import { allgatherObject } from '../operations/collectives.ts';
import { stepsText } from '../rendezvous/driver/describe-reset.ts';
import type { Assignment, Seat } from '../rendezvous/elastic-messages.ts';
import { type ElectedShards, type Election, elect, electShards } from './elect.ts';
import { type CheckedContext, GenerationRunner } from './generation-runner.ts';
import { Membership, type Reporter } from './membership.ts';
import { firstState, nextState, type RunEvent, type RunState } from './run-machine.ts';
import type { Reset } from './runner.ts';
import type { RunSide } from './state.ts';

/** Heard by the timeline. */
const resets = channel('horovod.elastic.reset');

/** What the loop needs of the process. */
export interface ElasticJob extends Reporter {
  /** Whether the states of the ranks are compared after each synchronization. */
  readonly verifies: boolean;
  /** Collective: ends the context of the generation before, and opens one for this. */
  form(seat: Seat): Promise<CheckedContext>;
  /** Closes the context, if there is one. */
  retire(): void;
}

/** What it needs of the user. */
export interface Trained<R> {
  train(): Promise<R>;
  save(): void;
  restore(): void;
}

/** The loop, for one worker. */
export class Run<R> {
  readonly #job: ElasticJob;
  readonly #side: RunSide;
  readonly #trained: Trained<R>;
  readonly #membership: Membership;
  #state: RunState<R> = firstState;
  #context: CheckedContext | undefined;
  /** Of the reset that is under way: when training ended here, and steps that are done again. */
  #interruptedAt: number | undefined;
  #repeatedSteps = 0;
  /** Of the generation that trains. */
  #runner: GenerationRunner | undefined;
  /** The last that it was given. */
  #seat: Seat | undefined;
  /** In the last generation in which this worker has trained. */
  #previousRank: number | undefined;

  constructor(job: ElasticJob, side: RunSide, trained: Trained<R>) {
    this.#job = job;
    this.#side = side;
    this.#trained = trained;
    this.#membership = new Membership(job);
  }

  async toTheEnd(): Promise<R> {
    this.#side.becomeNewcomer();
    try {
      for (;;) {
        const state = this.#state;
        if (state.name === 'returned') return state.value;
        if (state.name === 'failed') throw state.error;
        this.#state = nextState(state, await this.#do(state), this.#job.worker);
      }
    } finally {
      this.#side.attach(undefined);
    }
  }

  async #do(state: Exclude<RunState<R>, { name: 'returned' | 'failed' }>): Promise<RunEvent<R>> {
    try {
      switch (state.name) {
        case 'reporting':
          return { type: 'assigned', assignment: await this.#report(state) };
        case 'forming':
          this.#seat = state.seat;
          this.#context = await this.#job.form(state.seat);
          return { type: 'formed' };
        case 'syncing':
          await this.#synchronize(state);
          return { type: 'synced' };
        case 'training':
          return { type: 'returned', value: await this.#train(state.seat) };
        default:
          return state satisfies never;
      }
    } catch (error) {
      return { type: 'threw', error };
    }
  }

  async #report({ goesBack, cause, done }: RunState<R> & { name: 'reporting' }): Promise<Assignment> {
    this.#side.attach(undefined);
    const isDone = done !== undefined;
    // What a worker that is done has beyond its last commit counts, too, if others have to go on.
    if (isDone) this.#trained.save();
    // The context of one that is done stays: others may still need it, and so may the user after run().
    else this.#job.retire();
    const stepsSince = goesBack ? (this.#runner?.goBack() ?? 0) : 0;
    if (this.#runner !== undefined) this.#interruptedAt ??= performance.now();
    this.#repeatedSteps += stepsSince;
    this.#runner = undefined;
    const { commits: commit } = this.#side;
    const workers = this.#seat?.workers;
    const answer = await this.#membership.report({ commit, stepsSince, cause, workers, isDone });
    // While the driver waits for the others.
    if (goesBack) this.#trained.restore();
    return answer();
  }

  async #synchronize({ seat, cause }: RunState<R> & { name: 'syncing' }): Promise<void> {
    const context = this.#context as CheckedContext;
    const { root, lacking, shards } = await this.#elect(context, seat);
    // Before the callbacks: what they set is not to be undone.
    const wentBack = shards === undefined ? 0 : this.#goBackTo(shards, context);
    if (seat.previousSize > 0) await this.#side.callResets(this.#resetOf(seat, cause));
    const { generation, rank } = seat;
    const hostOf = context.membersOf(undefined, 'elastic.run').hostOf ?? seat.workers.map(() => 0);
    const { steps } = context;
    await this.#side.syncFrom({ root, lacking, shards, place: { generation, rank, hostOf }, steps });
    if (this.#job.verifies) await this.#verify(context, seat);
    await this.#membership.formed(seat.generation, wentBack);
    if (seat.previousSize > 0) this.#publish(context.log, seat, cause);
  }

  /** All shards are there only of an earlier commit than the last one. Returns how many steps more are done again. */
  #goBackTo(shards: ElectedShards, { steps }: CheckedContext): number {
    const step = this.#side.goBackTo(shards);
    const since = step === undefined ? 0 : steps.step - step;
    steps.goBack(since);
    this.#repeatedSteps += since;
    return since;
  }

  /** For the timeline and the log. */
  #publish(
    log: Log,
    { generation, size, previousSize, lost, joined, workers }: Seat,
    cause?: HorovodError,
  ): void {
    const args = {
      generation,
      size,
      previous_size: previousSize,
      lost: lost
        .map(({ rank, host, how }) => `rank ${rank} on ${host} ${how.replace(/[.,]$/, '')}`)
        .join('; '),
      joined: joined.map((worker) => workers.indexOf(worker)).join(', '),
      repeated_steps: this.#repeatedSteps,
      took_ms: this.#interruptedAt === undefined ? 0 : Math.round(performance.now() - this.#interruptedAt),
      ...(cause === undefined ? {} : { code: cause.code }),
    };
    resets.publish({ args });
    const who =
      this.#previousRank === undefined ? 'is new' : `was rank ${this.#previousRank} of ${previousSize}`;
    const text =
      `generation ${generation} of the job has begun, with ${size} rank${size === 1 ? '' : 's'}; this one ${who}. ` +
      `Lost: ${args.lost || 'none'}. New: ${args.joined || 'none'}. ${args.took_ms} ms, ${stepsText(args.repeated_steps)}.`;
    log.write('info', text, { reset: args });
    this.#interruptedAt = undefined;
    this.#repeatedSteps = 0;
  }

  /** Whose state counts: the same on all ranks. */
  async #elect(context: CheckedContext, { rank, lost }: Seat): Promise<Election> {
    const { commits: commit, versions } = this.#side;
    const offers = await allgatherObject(context, { commit, versions }, { name: 'horovod.elastic.elect' });
    if (versions === undefined) return elect(offers.map((offer) => offer.commit));
    const election = electShards(offers);
    if (!('lost' in election)) return election;
    const gone = [...lost].sort((a, b) => a.rank - b.rank);
    const who = gone.map((each) => `rank ${each.rank} (${each.host})`).join(', ') || 'ranks';
    const what =
      election.version === undefined
        ? 'the ranks that are left have no commit in common'
        : `nobody has shard ${election.lost.join(', ')} of ${election.version.members} of commit ${election.version.commit}`;
    throw new HorovodError(
      'ERR_HVD_STATE_LOST',
      `rank ${rank}: the job has lost ${who} at once, and with them a part of the sharded optimizer state and its copy: ${what}. ` +
        'Start again from your last checkpoint. Ranks on more hosts, or fewer on each, make this less likely.',
    );
  }

  async #verify(context: CheckedContext, { generation, rank }: Seat): Promise<void> {
    const own = { all: this.#side.digest(), shards: this.#side.shardDigests() };
    const states = await allgatherObject(context, own, { name: 'horovod.elastic.verify' });
    const digests = states.map(({ all }) => all);
    const byShard = new Map<string, string>();
    states.forEach(({ shards }, each) => {
      for (const [shard, digest] of Object.entries(shards)) {
        // A copy that differs counts against the rank that has it later in the list.
        if ((byShard.get(shard) ?? digest) !== digest) digests[each] = `${digests[each]}, ${shard} differs`;
        byShard.set(shard, byShard.get(shard) ?? digest);
      }
    });
    const others = digests.flatMap((digest, each) => (digest === digests[0] ? [] : [each]));
    if (others.length === 0) return;
    throw new HorovodError(
      'ERR_HVD_MISMATCH',
      `rank ${rank}: after the synchronization of generation ${generation}, the state of rank ${others.join(', ')} differs from that of rank 0. ` +
        'Does sync() of a StatePart leave something out? (HOROVOD_ELASTIC_VERIFY)',
      { rank: others[0] },
    );
  }

  #resetOf(seat: Seat, cause: HorovodError | undefined): Reset {
    const { generation, rank, size, previousSize, lost, joined, workers } = seat;
    const hasFailed = cause !== undefined && cause.code !== 'ERR_HVD_HOSTS_UPDATED';
    return {
      generation,
      rank,
      size,
      previousRank: this.#previousRank,
      previousSize,
      joined: workers.flatMap((worker, each) => (joined.includes(worker) ? [each] : [])),
      lost,
      ...(hasFailed ? { cause } : {}),
    };
  }

  async #train({ generation, rank }: Seat): Promise<R> {
    this.#previousRank = rank;
    const runner = new GenerationRunner(generation, this.#context as CheckedContext, this.#side.commits);
    this.#side.attach(runner);
    this.#runner = runner;
    return this.#trained.train();
  }
}
