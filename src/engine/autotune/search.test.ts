import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { mulberry32, normal } from './random.ts';
import { Search } from './search.ts';
import { decode, defaultValues, encode, showValues, type Tunable, type TunableValues } from './tunables.ts';

const bucket: Extract<Tunable, { kind: 'size' }> = {
  kind: 'size',
  name: 'bucketBytes',
  min: 65_536,
  max: 64 * 2 ** 20,
  unit: 'bytes',
  defaultValue: 2 * 2 ** 20,
};
const window: Tunable = {
  kind: 'size',
  name: 'cycleTimeMs',
  min: 0.25,
  max: 16,
  hasZero: true,
  unit: 'ms',
  defaultValue: 0,
};
const overlap: Tunable = {
  kind: 'choice',
  name: 'overlap',
  choices: ['never', 'always'],
  defaultValue: 'never',
};
const wire: Tunable = {
  kind: 'choice',
  name: 'compression',
  choices: ['none', 'fp16', 'bf16'],
  defaultValue: 'none',
};
const tunables = [bucket, window, overlap, wire];

describe('settings in the unit cube', () => {
  test('come back as they went, rounded to what can be set', () => {
    for (const values of [
      defaultValues(tunables),
      { bucketBytes: 65_536, cycleTimeMs: 0.25, overlap: 'always', compression: 'bf16' },
      { bucketBytes: 64 * 2 ** 20, cycleTimeMs: 16, overlap: 'never', compression: 'fp16' },
    ]) {
      const point = encode(tunables, values);
      assert.equal(point.length, 6);
      assert.ok(
        point.every((x) => x >= 0 && x <= 1),
        String(point),
      );
      assert.deepEqual(decode(tunables, point), values);
    }
  });

  test('every point is a setting within the limits', () => {
    const random = mulberry32(1);
    for (let i = 0; i < 200; i++) {
      const values = decode(
        tunables,
        Array.from({ length: 6 }, () => random()),
      );
      const bytes = values['bucketBytes'] as number;
      assert.ok(bytes >= 65_536 && bytes <= 64 * 2 ** 20 && bytes % 64 === 0, String(bytes));
      const ms = values['cycleTimeMs'] as number;
      assert.ok(ms === 0 || (ms >= 0.25 && ms <= 16), String(ms));
    }
  });

  test('a tunable that means nothing in a setting keeps its default there', () => {
    const needy: Tunable = { ...bucket, needs: { name: 'overlap', values: ['always'] } };
    const at = (x: number) => decode([overlap, needy], [x, 0.1]);
    assert.deepEqual(at(0), { overlap: 'never', bucketBytes: 2 * 2 ** 20 });
    assert.equal((at(1)['bucketBytes'] as number) < 2 ** 20, true);
    const search = new Search([overlap, needy]);
    for (let i = 0; i < 15; i++) {
      const values = search.next();
      search.tell(values, values['overlap'] === 'never' ? 1 : 2);
    }
    assert.equal(search.trials.filter(({ values }) => values['overlap'] === 'never').length, 1);
  });

  test('are shown in words', () => {
    assert.equal(
      showValues(tunables, {
        bucketBytes: 1_572_864,
        cycleTimeMs: 0.5,
        overlap: 'always',
        compression: 'none',
      }),
      'bucketBytes 1.5 MiB, cycleTimeMs 0.5 ms, overlap always, compression none',
    );
    assert.equal(
      showValues([{ kind: 'choice', name: 'hierarchical', choices: [true, false], defaultValue: true }], {
        hierarchical: false,
      }),
      'hierarchical off',
    );
  });
});

describe('the search', () => {
  const run = (search: Search, samples: number, time: (values: TunableValues) => number) => {
    for (let i = 0; i < samples; i++) {
      const values = search.next();
      search.tell(values, time(values));
    }
  };

  test('begins with the default setting and tries none twice', () => {
    const search = new Search(tunables);
    assert.deepEqual(search.next(), defaultValues(tunables));
    run(search, 25, (values) => (values['bucketBytes'] as number) % 97);
    const seen = new Set(search.trials.map(({ values }) => JSON.stringify(values)));
    assert.equal(seen.size, 25);
  });

  test('finds the bottom of a valley in the logarithm of a size, through noise', () => {
    const random = mulberry32(11);
    const truth = (values: TunableValues) =>
      10 + 1.5 * (Math.log2(values['bucketBytes'] as number) - 23) ** 2 * 0.2;
    const search = new Search([bucket]);
    run(search, 20, (values) => truth(values) * (1 + 0.02 * normal(random)));
    const found = Math.log2(search.best().values['bucketBytes'] as number);
    assert.ok(Math.abs(found - 23) <= 1.5, `2^${found}`);
  });

  test('finds the best of sizes and choices together, which depend on each other', () => {
    const random = mulberry32(7);
    const truth = (values: TunableValues) => {
      const far = Math.log2(values['bucketBytes'] as number) - 20;
      const isOn = values['overlap'] === 'always';
      // Only with overlap does the size of the buckets matter; with bad buckets overlap is worse than none.
      return 20 + (isOn ? 0.5 * far ** 2 - 6 : 0) + (values['cycleTimeMs'] as number);
    };
    const search = new Search([bucket, window, overlap]);
    run(search, 30, (values) => truth(values) * (1 + 0.02 * normal(random)));
    const { values } = search.best();
    assert.equal(values['overlap'], 'always');
    assert.ok(truth(values) < 16.5, `${truth(values)} for ${JSON.stringify(values)}`);
  });

  test('is over when there are only choices and each has been tried twice', () => {
    const search = new Search([overlap, wire]);
    run(search, 11, () => 1);
    assert.equal(search.isExhausted, false);
    run(search, 1, () => 1);
    assert.equal(search.isExhausted, true);
  });

  test('is the same in every run', () => {
    const again = () => {
      const search = new Search(tunables);
      run(search, 15, (values) => 1 + JSON.stringify(values).length);
      return search.trials;
    };
    assert.deepEqual(again(), again());
  });
});
