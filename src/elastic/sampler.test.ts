import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { resumableOf } from '../data/resumable.ts';
import * as hvd from '../index.ts';
import { ElasticSampler, type ElasticSamplerOptions } from './sampler.ts';
import type { World } from './world.ts';

/** Samplers of several ranks, whose number the test changes. */
class Ranks {
  samplers: ElasticSampler[] = [];
  #worlds: World[] = [];
  readonly #options: ElasticSamplerOptions;

  constructor(options: ElasticSamplerOptions, size: number) {
    this.#options = options;
    this.resize(size);
  }

  /** Those that stay keep their samplers; newcomers take over the place of rank 0. */
  resize(size: number): void {
    const membership = {};
    this.#worlds = Array.from({ length: size }, (_, rank) => ({ rank, size, membership }));
    const [first] = this.samplers;
    this.samplers = Array.from({ length: size }, (_, rank) => {
      const world = () => this.#worlds[rank] as World;
      const old = this.samplers[rank];
      if (old !== undefined) return old;
      const made = new ElasticSampler(this.#options, { world });
      if (first !== undefined) resumableOf(made)?.resumeAt(resumableOf(first)?.place());
      return made;
    });
  }
}

describe('ElasticSampler', () => {
  test('test_elastic_sampler: every index once over the ranks, and after a change only what is left', () => {
    // As upstream's: 2 ranks, then one of them is lost.
    const ranks = new Ranks({ length: 30, batchSize: 2, shuffle: true, seed: 5, uneven: 'exact' }, 2);
    const seen: number[] = [];
    const iterators = ranks.samplers.map((sampler) => sampler.batches());
    for (let step = 0; step < 4; step += 1) {
      for (const [rank, iterator] of iterators.entries()) {
        const batch = iterator.next().value as hvd.elastic.ElasticBatch;
        assert.equal(batch.indices.length, 2);
        seen.push(...batch.indices);
        ranks.samplers[rank]?.record(batch);
      }
    }
    assert.equal(ranks.samplers[0]?.position, 16);
    ranks.resize(1);
    const [sampler] = ranks.samplers as [ElasticSampler];
    assert.equal(sampler.stepsLeft, 7);
    for (const batch of sampler.batches()) {
      seen.push(...batch.indices);
      sampler.record(batch);
    }
    assert.deepEqual(
      seen.sort((a, b) => a - b),
      Array.from({ length: 30 }, (_, i) => i),
    );
  });

  test('a global batch stays the same when ranks come', () => {
    const ranks = new Ranks({ length: 24, globalBatchSize: 6, shuffle: false }, 2);
    const windows: number[][] = [];
    const step = () => {
      const batches = ranks.samplers.map(
        (sampler) => sampler.batches().next().value as hvd.elastic.ElasticBatch,
      );
      windows.push(batches.flatMap(({ indices }) => [...indices]).sort((a, b) => a - b));
      for (const [rank, batch] of batches.entries()) ranks.samplers[rank]?.record(batch);
    };
    step();
    ranks.resize(3);
    step();
    ranks.resize(1);
    step();
    assert.deepEqual(windows, [
      [0, 1, 2, 3, 4, 5],
      [6, 7, 8, 9, 10, 11],
      [12, 13, 14, 15, 16, 17],
    ]);
    assert.equal(ranks.samplers[0]?.batchSize, 6);
  });

  test('iterators and batches of an earlier membership, epoch or place are stale', () => {
    const ranks = new Ranks({ length: 8, batchSize: 1 }, 2);
    const [sampler] = ranks.samplers as [ElasticSampler];
    const stale = { code: 'ERR_HVD_STALE' };
    let iterator = sampler.batches();
    iterator.next();
    ranks.resize(1);
    assert.throws(() => iterator.next(), stale);
    iterator = sampler.batches();
    const batch = iterator.next().value as hvd.elastic.ElasticBatch;
    sampler.setEpoch(1);
    assert.throws(() => iterator.next(), stale);
    assert.throws(() => sampler.record(batch), stale);
  });

  test('batches are recorded once, in their order; without a batch the next step is recorded', () => {
    const { samplers } = new Ranks({ length: 8, batchSize: 2, shuffle: false }, 1);
    const [sampler] = samplers as [ElasticSampler];
    const [first, second] = [...sampler.batches()] as [hvd.elastic.ElasticBatch, hvd.elastic.ElasticBatch];
    const invalid = { code: 'ERR_HVD_INVALID_ARGUMENT' };
    assert.throws(() => sampler.record(second), invalid);
    sampler.record(first);
    assert.throws(() => sampler.record(first), invalid);
    assert.throws(() => sampler.record({} as never), invalid);
    sampler.record();
    assert.equal(sampler.position, 4);
    assert.equal(sampler.stepsLeft, 2);
  });

  test('another order in each epoch, the same on all ranks', () => {
    const { samplers } = new Ranks({ length: 12, batchSize: 6, seed: 3 }, 2);
    const epochs = [0, 1].map((epoch) =>
      samplers.flatMap((sampler) => {
        sampler.setEpoch(epoch);
        return [...sampler.batches()].flatMap(({ indices }) => [...indices]);
      }),
    );
    assert.notDeepEqual(epochs[0], epochs[1]);
    for (const epoch of epochs) assert.equal(new Set(epoch).size, 12);
  });

  test('take() gathers from lists, typed arrays and objects of them', () => {
    const { samplers } = new Ranks({ length: 3, batchSize: 2, shuffle: false, uneven: 'keep' }, 1);
    const [, last] = [...(samplers[0] as ElasticSampler).batches()] as hvd.elastic.ElasticBatch[];
    const taken = last?.take({ x: Float32Array.of(1, 2, 3), names: ['a', 'b', 'c'] });
    assert.deepEqual(taken, { x: Float32Array.of(3), names: ['c'] });
    assert.throws(() => last?.take(new Map()), { code: 'ERR_HVD_INVALID_ARGUMENT' });
  });

  test('wrong options are rejected', () => {
    const make = (options: object) => () => new ElasticSampler(options as never);
    const invalid = (message: RegExp) => ({ code: 'ERR_HVD_INVALID_ARGUMENT', message });
    assert.throws(make({}), invalid(/length/));
    assert.throws(make({ length: 3, batchSize: 0 }), invalid(/batchSize/));
    assert.throws(make({ length: 3, globalBatchSize: 1.5 }), invalid(/globalBatchSize/));
    assert.throws(make({ length: 3, batchSize: 1, globalBatchSize: 2 }), invalid(/not both/));
    assert.throws(make({ length: 3, uneven: 'wrap' }), invalid(/uneven/));
    assert.throws(make({ length: 3, shuffle: 1 }), invalid(/shuffle/));
    assert.throws(make({ length: 3, seed: 'a' }), invalid(/seed/));
    assert.throws(make({ length: 3, size: 2 }), invalid(/no option size/));
    assert.throws(() => new ElasticSampler({ length: 3 }).setEpoch(-1), invalid(/setEpoch/));
  });
});

describe('a sampler in a state', () => {
  before(() => hvd.init());
  after(() => hvd.shutdown());

  test('is saved as its place, and going back lets it deal the same samples again', async () => {
    const sampler = new hvd.elastic.ElasticSampler({ length: 10, batchSize: 2 });
    const state = new hvd.elastic.ObjectState({ epoch: 0, sampler });
    const first = sampler.batches().next().value as hvd.elastic.ElasticBatch;
    sampler.record(first);
    state.commitSync();
    const [second] = [...sampler.batches()];
    sampler.record(second);
    sampler.setEpoch(3);
    state.restore();
    assert.equal(state.sampler, sampler);
    assert.deepEqual([sampler.epoch, sampler.position], [0, 2]);
    assert.deepEqual([...sampler.batches()][0]?.indices, second?.indices);
    await state.sync();
    assert.equal(sampler.position, 2);
  });
});
