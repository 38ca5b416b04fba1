import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { resumableOf } from '../data/resumable.ts';
import { HorovodError } from '../errors.ts';
import * as hvd from '../index.ts';
import { ElasticFileSampler, type ElasticFileSamplerOptions, type RecordPlace } from './file-sampler.ts';

const files = [
  { path: 'a', records: 5 },
  { path: 'empty', records: 0 },
  { path: 'b', records: 3 },
  { path: 'c', records: 4 },
];
const everything = files.flatMap(({ path, records }) =>
  Array.from({ length: records }, (_, i) => `${path}${i}`),
);
const text = ({ path, record }: RecordPlace) => `${path}${record}`;

/** What each of `size` ranks reads in an epoch, batch after batch. */
function recordsOf(options: Partial<ElasticFileSamplerOptions>, size: number, epoch = 0): string[][] {
  const membership = {};
  return Array.from({ length: size }, (_, rank) => {
    const world = () => ({ rank, size, membership });
    const sampler = new ElasticFileSampler({ files, uneven: 'exact', ...options }, { world });
    sampler.setEpoch(epoch);
    return [...sampler.batches()].flatMap((batch) =>
      batch.weight === 0 ? [] : sampler.locate(batch).map(text),
    );
  });
}

describe('ElasticFileSampler', () => {
  for (const shuffle of ['blocks', 'files', false] as const) {
    test(`shuffle ${shuffle}: every record once, for any number of ranks`, () => {
      for (const size of [1, 2, 3, 5]) {
        for (const blockRecords of [1, 2, 256]) {
          const all = recordsOf({ shuffle, blockRecords, globalBatchSize: 4 }, size).flat();
          assert.deepEqual(all.sort(), [...everything].sort());
        }
      }
    });
  }

  test('without shuffling, records come as they are listed', () => {
    assert.deepEqual(recordsOf({ shuffle: false }, 1), [everything]);
  });

  test("'files': whole files in another order in each epoch, read from front to back", () => {
    const orders = [0, 1, 2, 3, 4].map(
      (epoch) => recordsOf({ shuffle: 'files', seed: 1 }, 1, epoch)[0] ?? [],
    );
    for (const order of orders) {
      for (const [place, record] of order.entries())
        if (!record.endsWith('0')) assert.equal(order[place - 1], `${record[0]}${Number(record[1]) - 1}`);
    }
    assert.ok(new Set(orders.map(String)).size > 1);
  });

  test("'blocks': runs of records stay together", () => {
    const [order = []] = recordsOf({ shuffle: 'blocks', blockRecords: 2, seed: 3 }, 1);
    for (const second of ['a1', 'a3', 'b1', 'c1', 'c3'])
      assert.equal(order[order.indexOf(second) - 1], `${second[0]}${Number(second[1]) - 1}`);
    assert.notDeepEqual(order, everything);
  });

  test('records that are not given are counted once, by the rank whose state counts, and are part of the state', async (t) => {
    await hvd.init();
    t.after(() => hvd.shutdown());
    const counted: string[] = [];
    const make = () =>
      new ElasticFileSampler({
        files: files.map(({ path, records }) => (path === 'b' ? { path, records } : { path })),
        count: async (path) => {
          counted.push(path);
          return files.find((file) => file.path === path)?.records ?? 0;
        },
        shuffle: false,
        batchSize: 5,
      });
    const state = new hvd.elastic.ObjectState({ sampler: make() });
    assert.throws(() => state.sampler.length, /have not been counted yet.*elastic\.run\(\)/);
    assert.throws(() => state.sampler.batches().next(), /have not been counted yet/);
    await hvd.elastic.run(async ({ sampler }) => {
      const [first] = sampler.batches();
      assert.deepEqual(sampler.locate(first ?? assert.fail()).map(text), everything.slice(0, 5));
      sampler.record(first);
      state.commitSync();
      sampler.record();
      state.restore();
      assert.deepEqual([sampler.length, sampler.position], [12, 5]);
    }, state);
    assert.deepEqual(counted, ['a', 'empty', 'c']);
    // As a rank that joins gets it.
    const other = make();
    const { place } = resumableOf(state.sampler) ?? assert.fail();
    resumableOf(other)?.resumeAt(structuredClone(place()));
    const [next] = other.batches();
    assert.deepEqual(other.locate(next ?? assert.fail()).map(text), everything.slice(5, 10));
    assert.equal(counted.length, 3);
  });

  test('a count that is no number of records ends run() with an error that names the file', async (t) => {
    await hvd.init();
    t.after(() => hvd.shutdown());
    const sampler = new ElasticFileSampler({ files: [{ path: 'a' }], count: () => -1 });
    const state = new hvd.elastic.ObjectState({ sampler });
    await assert.rejects(
      hvd.elastic.run(() => undefined, state),
      { code: 'ERR_HVD_INVALID_ARGUMENT', message: /count\(\) has returned -1 for a,/ },
    );
  });

  test('wrong options are rejected with what was given', () => {
    const reject = (options: object, words: RegExp) =>
      assert.throws(
        () => new ElasticFileSampler({ files, ...options } as ElasticFileSamplerOptions),
        (error: unknown) => HorovodError.is(error) && words.test(error.message),
      );
    reject({ files: 'a' }, /files is a list of \{ path, records \}/);
    reject({ files: [{ path: 'a' }] }, /files\[0\]\.records is the number of records in a, not undefined/);
    reject({ files: [{ records: 1 }] }, /files\[0\]\.path/);
    reject({ count: 3 }, /count is a function/);
    reject({ shuffle: true }, /shuffle is 'blocks', 'files' or false, not true/);
    reject({ blockRecords: 0 }, /blockRecords/);
    reject({ globalBatchSize: 0 }, /globalBatchSize/);
    reject({ length: 4 }, /length/);
  });
});
