// Exactly once under faults: samples are their own ids, trainers log what they take, and seeded faults hit workers, dispatcher and
// trainers over 20 epochs. Of every epoch, what was taken is every sample once, less what a restore() has taken back.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { TestService } from '../../../test/support/data-service.ts';
import { randomFrom } from '../../../test/support/late-links.ts';
import { batchInfo } from '../data-iterator.ts';
import type { Dataset } from '../dataset.ts';
import type { DataState } from '../order/state.ts';
import { rangeDataset } from '../sources.ts';

const [epochs, sampleCount, batchSize] = [20, 120, 5];

interface Entry {
  readonly epoch: number;
  readonly samples: readonly number[];
}

class Training {
  readonly #service: TestService;
  readonly #isRoundRobin: boolean;
  readonly #size: number;
  datasets: Dataset[] = [];
  log: Entry[] = [];
  #saved: { readonly state: DataState; readonly log: readonly Entry[] } | undefined;
  #restores = 0;

  constructor(service: TestService, size: number, isRoundRobin: boolean) {
    this.#service = service;
    this.#size = size;
    this.#isRoundRobin = isRoundRobin;
    for (let rank = 0; rank < size; rank++) this.datasets.push(this.#dataset(rank));
  }

  /** Up to so many steps. True: the epoch has ended. */
  async steps(count: number): Promise<boolean> {
    const iterators = this.datasets.map((dataset) => dataset.iterator());
    for (let step = 0; step < count; step++) {
      const turns = await Promise.all(iterators.map((iterator) => iterator.next()));
      const ends = turns.filter(({ done }) => done === true).length;
      assert.ok(ends === 0 || ends === turns.length, 'trainers end an epoch at the same step');
      if (ends > 0) return true;
      for (const { value } of turns) {
        const epoch = batchInfo(value)?.epoch ?? -1;
        this.log.push({ epoch, samples: [...(value as { data: Float64Array }).data] });
      }
    }
    return false;
  }

  async save(): Promise<void> {
    const states = await Promise.all(this.datasets.map((dataset) => dataset.state()));
    for (const state of states) assert.deepEqual(state, states[0]);
    this.#saved = { state: states[0] as DataState, log: [...this.log] };
  }

  /** A trainer dies; a new one and the others go on from the last state. */
  async loseTrainer(rank: number): Promise<void> {
    if (this.#saved === undefined) return;
    this.#restores += 1;
    const hosts = this.#service.hosts.splice(0);
    hosts[rank]?.consumer.closeAbruptly();
    for (const host of hosts) await host.close();
    this.datasets = this.datasets.map((_, each) => this.#dataset(each));
    const { state, log } = this.#saved;
    for (const dataset of this.datasets) dataset.restore(JSON.parse(JSON.stringify(state)));
    this.log = [...log];
  }

  #dataset(rank: number): Dataset {
    const plan = rangeDataset(0, sampleCount, { shuffle: { seed: 8, pool: 'all' } }).batch(batchSize);
    return this.#service.through(plan as Dataset, {
      rank,
      size: this.#size,
      jobName: 'job',
      isRoundRobin: this.#isRoundRobin,
      depth: 3,
      generation: () => this.#restores,
    });
  }
}

describe('exactly once under faults', { timeout: 300_000 }, () => {
  for (const [seed, isRoundRobin] of [
    [1, false],
    [2, false],
    [3, true],
  ] as const) {
    test(`${epochs} epochs, seed ${seed}${isRoundRobin ? ', round robin' : ''}`, async () => {
      const random = randomFrom(seed);
      const pick = (count: number) => Math.floor(random() * count);
      await using service = await TestService.start({ workers: 3, timeoutMs: 30_000 });
      const training = new Training(service, 2, isRoundRobin);
      const happened: string[] = [];
      for (let epoch = 0; epoch < epochs; ) {
        const hasEnded = await training.steps(1 + pick(8));
        if (hasEnded) epoch = Math.max(...training.log.map((each) => each.epoch)) + 1;
        const fault = ['worker', 'worker', 'dispatcher', 'save', 'save', 'trainer'][pick(12)];
        if (fault === undefined) continue;
        happened.push(fault);
        if (fault === 'worker') {
          await service.killWorker(pick(service.workers.length));
          await service.addWorker();
        } else if (fault === 'dispatcher') {
          await service.killDispatcher();
          await service.startDispatcher();
        } else if (fault === 'save') await training.save();
        else {
          await training.loseTrainer(pick(2));
          epoch = Math.max(0, ...training.log.map((each) => each.epoch));
        }
      }
      assert.ok(new Set(happened).size === 4, `all kinds of faults have happened: ${happened}`);
      for (let epoch = 0; epoch < epochs; epoch++) {
        const taken = training.log.filter((each) => each.epoch === epoch).flatMap(({ samples }) => samples);
        assert.deepEqual(
          taken.sort((a, b) => a - b),
          Array.from({ length: sampleCount }, (_, each) => each),
          `epoch ${epoch} after ${happened}`,
        );
      }
    });
  }
});
