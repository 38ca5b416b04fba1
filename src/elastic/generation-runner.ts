// What a state sees of its generation while the training function runs: when to ask the other ranks whether the membership is
// to change, and the asking itself.

import { HorovodError } from '../errors.ts';
import { allreduce, allreduceSync } from '../operations/collectives.ts';
import type { OperationRunner } from '../operations/runner.ts';
import { Max } from '../tensor/reduce-op.ts';
import { CheckSchedule } from './check-schedule.ts';
import type { ElasticRunner, StepCount } from './runner.ts';

/** What it needs of a context. */
export interface CheckedContext extends OperationRunner {
  /** Whether the driver wants another membership, as far as this rank knows. */
  readonly hasNotice: boolean;
  /** Training steps of this process, in all its generations. */
  readonly steps: StepCount & { goBack(steps: number): void };
}

/** Named alike for every commit: ranks that commit at different points must meet to find out. */
const options = { name: 'horovod.elastic.check', op: Max, inPlace: true } as const;

const proposal = { name: 'horovod.elastic.mirror', op: Max, inPlace: true } as const;

export class GenerationRunner implements ElasticRunner {
  readonly generation: number;
  readonly #context: CheckedContext;
  readonly #schedule: CheckSchedule;
  #stepAtCommit: number;

  constructor(generation: number, context: CheckedContext, commit: number) {
    this.generation = generation;
    this.#context = context;
    this.#schedule = new CheckSchedule(commit, performance.now());
    this.#stepAtCommit = context.steps.step;
  }

  get steps(): StepCount {
    return this.#context.steps;
  }

  saved(): void {
    this.#stepAtCommit = this.#context.steps.step;
  }

  /** The training goes back to the last commit. Returns how many steps it had done since. */
  goBack(): number {
    const { steps } = this.#context;
    const since = steps.step - this.#stepAtCommit;
    steps.goBack(since);
    return since;
  }

  isDue(commit: number): boolean {
    return this.#schedule.isDue(commit);
  }

  async check(commit: number): Promise<void> {
    const start = performance.now();
    this.#judge(commit, start, await allreduce(this.#context, this.#question(commit, start), options));
  }

  checkSync(commit: number): void {
    const start = performance.now();
    this.#judge(commit, start, allreduceSync(this.#context, this.#question(commit, start), options));
  }

  async highest(value: number): Promise<number> {
    return (await allreduce(this.#context, Float64Array.of(value), proposal))[0] as number;
  }

  highestSync(value: number): number {
    return allreduceSync(this.#context, Float64Array.of(value), proposal)[0] as number;
  }

  #question(commit: number, now: number): Float64Array {
    const proposal = this.#schedule.propose(commit, now);
    return Float64Array.of(this.#context.hasNotice ? 1 : 0, commit, -commit, proposal);
  }

  #judge(commit: number, start: number, [notice, highest, lowest, interval]: Float64Array): void {
    if (highest !== -(lowest as number)) {
      throw new HorovodError(
        'ERR_HVD_MISMATCH',
        `the ranks commit at different points: rank ${this.#context.world.rank} is at commit ${commit}, others are between ` +
          `${-(lowest as number)} and ${highest}. Every rank has to call commit() equally often.`,
      );
    }
    const now = performance.now();
    this.#schedule.checked(commit, interval as number, now, now - start);
    if (notice === 0) return;
    throw new HorovodError(
      'ERR_HVD_HOSTS_UPDATED',
      `ranks are about to be added or taken away; training goes on from commit ${commit}. Let this error pass to elastic.run().`,
    );
  }
}
