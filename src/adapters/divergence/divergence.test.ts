// What the ranks conclude from each other's reports, without ranks. On ranks: test/multiprocess/divergence.test.ts.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { DataNotes, digestOfList } from './data-notes.ts';
import { digestOf } from './digest.ts';
import { firstDifference, type Report, summarize } from './report.ts';
import { describeSplit, splitBy } from './split.ts';

describe('digests', () => {
  test('one bit anywhere changes the digest of all values', () => {
    for (const length of [1, 2, 3, 4, 5, 1023, 4096]) {
      const values = Float32Array.from({ length }, (_, i) => Math.sin(i));
      const digest = digestOf(values);
      assert.equal(digestOf(values.slice()), digest);
      for (const place of [0, length >> 1, length - 1]) {
        const other = values.slice();
        const bits = new Uint32Array(other.buffer);
        bits[place] = (bits[place] as number) ^ 1;
        assert.notEqual(digestOf(other), digest, `${length} values, place ${place}`);
      }
    }
  });

  test('places matter, and so do bytes that are no whole words', () => {
    assert.notEqual(digestOf(Float32Array.of(1, 2)), digestOf(Float32Array.of(2, 1)));
    assert.notEqual(digestOf(Uint8Array.of(1, 2, 3)), digestOf(Uint8Array.of(1, 3, 2)));
    const bytes = Uint8Array.of(0, 1, 2, 3, 4);
    assert.equal(digestOf(bytes.subarray(1)), digestOf(bytes.slice(1)));
  });

  test('a sample of the values tells different initial weights', () => {
    const random = (seed: number) => Float32Array.from({ length: 1e6 }, (_, i) => Math.sin(i * seed));
    assert.equal(digestOf(random(1.1), 1024), digestOf(random(1.1), 1024));
    assert.notEqual(digestOf(random(1.1), 1024), digestOf(random(1.2), 1024));
  });

  test('lists of numbers, texts, records and typed arrays tell their order', () => {
    const lists: readonly (readonly unknown[])[] = [
      [1, 2, 3],
      ['a', 'b', 'c'],
      [
        { text: 'a', label: 0 },
        { text: 'b', label: 0 },
      ],
      [Float32Array.of(1), Float32Array.of(2)],
      [
        [[1], 2],
        [[3], 2],
      ],
    ];
    for (const list of lists) {
      assert.equal(digestOfList(list), digestOfList([...list]));
      assert.notEqual(digestOfList(list), digestOfList([...list].reverse()), JSON.stringify(list));
    }
    assert.notEqual(digestOfList(Int32Array.of(1, 2)), digestOfList(Int32Array.of(2, 1)));
  });
});

describe('reports', () => {
  const report = (weights: readonly (readonly number[])[], others: Partial<Report> = {}): Report => ({
    weights: weights.map((values) => summarize(Float32Array.from(values), 1024)),
    machine: 'the same',
    wereBroadcast: undefined,
    seesEpochs: false,
    data: {},
    ...others,
  });

  test('the first weight that differs is found, and the ranks that differ from most', () => {
    const reports = [1, 2, 1, 2, 1].map((value) => report([[7, 7], [value], [value]]));
    assert.deepEqual(firstDifference(reports), { place: 1, alike: [0, 2, 4], others: [1, 3] });
    assert.equal(firstDifference([report([[1]]), report([[1]])]), undefined);
    assert.equal(firstDifference([report([[1]]), report([[1], [2]])]), undefined);
  });

  test('the last bit counts on machines of one kind, and not on different ones', () => {
    const [one, next] = [0.1, 0.1000000164];
    const on = (...machines: readonly string[]) =>
      firstDifference([
        report([[one, 1]], { machine: machines[0] as string }),
        report([[next, 1]], { machine: machines[1] as string }),
      ]);
    assert.notEqual(on('x64', 'x64'), undefined);
    assert.equal(on('x64', 'arm64'), undefined);
    const apart = [report([[0.1]], { machine: 'x64' }), report([[0.2]], { machine: 'arm64' })];
    assert.notEqual(firstDifference(apart), undefined);
  });

  test('ranks are named, few or many', () => {
    const named = (values: readonly number[]) =>
      describeSplit(
        splitBy(values) as NonNullable<ReturnType<typeof splitBy>>,
        values.map((_, i) => i + 10),
      );
    assert.equal(named([1, 2]), 'rank 11 has other values than rank 10');
    assert.equal(named([1, 2, 1, 3]), 'ranks 11 and 13 have other values than ranks 10 and 12');
    assert.match(named([0, ...new Array<number>(12).fill(1)]), /ranks 11, .* 18 and 4 more$/);
  });
});

describe('notes on data', () => {
  test('are compared as soon as all ranks have made as many calls, and each label is reported once', () => {
    const notes = new DataNotes();
    notes.add('a', 1);
    notes.add('b', 5);
    // Another rank has not called b yet.
    assert.deepEqual(notes.compare([notes.report(), { a: [1] }]), []);
    assert.deepEqual(notes.report(), { b: [5] });
    const found = notes.compare([notes.report(), { b: [6] }]);
    assert.deepEqual(found, [{ label: 'b', alike: [0], others: [1] }]);
    notes.add('b', 7);
    assert.deepEqual(notes.compare([notes.report(), { b: [8] }]), []);
    assert.deepEqual(notes.report(), {});
  });

  test('do not grow without end', () => {
    const notes = new DataNotes();
    for (let i = 0; i < 1000; i++) notes.add('one', i);
    for (let i = 0; i < 1000; i++) notes.add(`label ${i}`, i);
    assert.equal(notes.report()['one']?.length, 64);
    assert.equal(Object.keys(notes.report()).length, 64);
  });
});
