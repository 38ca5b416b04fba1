// Training whose weights say which samples were used: each step adds 1 to the weight of every sample of its window, so that a
// sample that was lost or used twice shows in the weights of all ranks. It passes the fault points of training.

import assert from 'node:assert/strict';
import type { HorovodContext } from '../../src/context/context.ts';
import { shareOf, type Window, windowAt } from '../../src/elastic/deal.ts';
import type { ElasticRunner, Reset } from '../../src/elastic/runner.ts';
import type { RunSide, Source } from '../../src/elastic/state.ts';
import { allreduce, broadcast } from '../../src/operations/collectives.ts';
import { Max, Sum } from '../../src/tensor/reduce-op.ts';

/** In the order of a step, of its commit, of the end, and of a reset. */
export const trainingPoints = [
  'post:before',
  'post:inside',
  'reduce:after',
  'apply:inside',
  'commit:before',
  'commit:inside',
  'check:before',
  'check:inside',
  'check:after',
  'done:before',
  'reset:inside',
  'elect:inside',
  'elect:after',
  'sync:inside',
  'sync:after',
] as const;
export type TrainingPoint = (typeof trainingPoints)[number];

const samples = 40;
/** It divides neither the number of samples nor that of ranks. */
const globalBatchSize = 7;
const half = samples / 2;
const padding = 4000;

interface Values {
  readonly weights: Float64Array;
  readonly position: number;
  readonly epochs: number;
  readonly steps: number;
}

/** The state of one worker, as run() sees it. */
export class SampledState implements RunSide {
  weights: Float64Array = new Float64Array(samples);
  position = 0;
  epochs = 0;
  steps = 0;
  context: HorovodContext | undefined;
  /** Does not resolve on a worker that dies at this point. */
  pass: (point: TrainingPoint) => Promise<void> = async () => {};
  #saved: Values | undefined;
  #commits = 0;
  #isNewcomer = false;
  #runner: ElasticRunner | undefined;

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

  async callResets(_reset: Reset): Promise<void> {
    await this.pass('reset:inside');
    // The election follows at once: its allgather has been submitted when this happens.
    setImmediate(() => void this.pass('elect:inside').catch(() => undefined));
  }

  async syncFrom({ root }: Source): Promise<void> {
    await this.pass('elect:after');
    const context = this.context as HorovodContext;
    const numbers = Float64Array.of(this.position, this.epochs, this.steps, this.#commits);
    const first = broadcast(context, numbers, root, { name: 'numbers' });
    first.catch(() => undefined);
    await this.pass('sync:inside');
    const [position = 0, epochs = 0, steps = 0, commits = 0] = await first;
    const weights = await broadcast(context, this.weights, root, { name: 'weights' });
    await this.pass('sync:after');
    this.#set({ weights, position, epochs, steps });
    this.#commits = commits;
    this.#saved = this.#values();
    this.#isNewcomer = false;
  }

  /** One half of a step: the first is applied when the second has not been reduced yet. */
  add(values: Float64Array, start: number): void {
    for (let i = 0; i < half; i++)
      this.weights[start + i] = (this.weights[start + i] as number) + (values[i] as number);
  }

  digest(): string {
    return [...this.weights].join(' ');
  }

  save(): void {
    this.#saved = this.#values();
    this.#commits++;
  }

  restore(): void {
    if (this.#saved !== undefined) this.#set(this.#saved);
  }

  async commit(): Promise<void> {
    await this.pass('commit:before');
    this.#saved = this.#values();
    await this.pass('commit:inside');
    this.#commits++;
    await this.pass('check:before');
    if (this.#runner?.isDue(this.#commits)) {
      const checked = this.#runner.check(this.#commits);
      checked.catch(() => undefined);
      await this.pass('check:inside');
      await checked;
    }
    await this.pass('check:after');
  }

  #values(): Values {
    const { weights, position, epochs, steps } = this;
    return { weights: weights.slice(), position, epochs, steps };
  }

  #set({ weights, position, epochs, steps }: Values): void {
    this.weights = weights.slice();
    this.position = position;
    this.epochs = epochs;
    this.steps = steps;
  }
}

/** Until `isEnough` on any rank. */
export async function trainOnSamples(state: SampledState, isEnough: () => boolean): Promise<void> {
  const context = state.context as HorovodContext;
  const { rank, size } = context.world;
  const dealing = { length: samples, globalBatchSize, size, uneven: 'exact' } as const;
  for (;;) {
    // A step of a real job takes time, in which others do something.
    await new Promise((later) => setTimeout(later, 2));
    const window = windowAt(state.position, dealing) as Window;
    const { places, weight } = shareOf(window, dealing, rank);
    const gradient = new Float64Array(samples);
    if (weight > 0) for (const place of places) gradient[place] = 1;
    await state.pass('post:before');
    const [reduced, stops] = [
      reduceHalf(context, gradient.subarray(0, half), 'first half'),
      allreduce(context, Int32Array.of(isEnough() ? 1 : 0), { op: Max, name: 'stop' }),
    ];
    for (const each of [reduced, stops]) each.catch(() => undefined);
    await state.pass('post:inside');
    const firstHalf = await reduced;
    const [mustStop] = await stops;
    await state.pass('reduce:after');
    state.add(firstHalf, 0);
    await state.pass('apply:inside');
    // Whoever fails here has applied one half of the step.
    state.add(await reduceHalf(context, gradient.subarray(half), 'second half'), half);
    state.position = window.end % samples;
    if (state.position === 0) state.epochs++;
    state.steps++;
    // Not after every step, so that there is something to go back from.
    if (state.steps % 2 === 0 || mustStop === 1) await state.commit();
    if (mustStop === 1) break;
  }
  await state.pass('done:before');
}

/** Large enough for more than one message. */
function reduceHalf(context: HorovodContext, part: Float64Array, name: string): Promise<Float64Array> {
  const padded = new Float64Array(half + padding);
  padded.set(part);
  return allreduce(context, padded, { op: Sum, name });
}

/** Every sample was used once in each epoch, whoever has died meanwhile. */
export function assertSamplesOnce({ weights, epochs, position, steps }: SampledState): void {
  const expected = Array.from({ length: samples }, (_, place) => epochs + (place < position ? 1 : 0));
  assert.deepEqual([...weights], expected);
  const stepsPerEpoch = Math.ceil(samples / globalBatchSize);
  assert.equal(steps, epochs * stepsPerEpoch + position / globalBatchSize);
}
