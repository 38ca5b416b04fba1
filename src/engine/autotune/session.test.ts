import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { mulberry32, normal } from './random.ts';
import { type Phase, Session } from './session.ts';
import { compare, median, spread, trimmedMean } from './statistics.ts';
import type { Tunable, TunableValues } from './tunables.ts';

const bucket: Tunable = {
  kind: 'size',
  name: 'bucketBytes',
  min: 65_536,
  max: 64 * 2 ** 20,
  unit: 'bytes',
  defaultValue: 2 * 2 ** 20,
};
const overlap: Tunable = {
  kind: 'choice',
  name: 'overlap',
  choices: ['never', 'always'],
  defaultValue: 'never',
};

function play(tunables: readonly Tunable[], time: (values: TunableValues) => number, maxSamples = 15) {
  const session = new Session(() => tunables, { warmupSamples: 3, maxSamples, noise: undefined });
  const phases: Phase[] = [];
  const tried: TunableValues[] = [];
  while (session.phase !== 'over') {
    phases.push(session.phase);
    tried.push(session.values);
    session.tell(time(session.values));
    assert.ok(phases.length < 100, 'it does not end');
  }
  return { session, phases, tried, outcome: session.outcome };
}

describe('a tuning session', () => {
  const isOn = (values: TunableValues) => values['overlap'] === 'always';

  test('picks the better setting, and says by how much', () => {
    const random = mulberry32(2);
    const { outcome, phases } = play([overlap], (values) => (isOn(values) ? 8 : 10) + 0.05 * normal(random));
    assert.deepEqual(outcome?.chosen, { overlap: 'always' });
    assert.deepEqual(outcome?.defaults, { overlap: 'never' });
    const { gain, noise, isBetter } = outcome?.comparison ?? { gain: 0, noise: 0, isBetter: false };
    assert.ok(isBetter && Math.abs(gain - 0.2) < 0.02 && noise < 0.05, `${gain} ± ${noise}`);
    assert.deepEqual(phases.slice(0, 3), ['warming', 'warming', 'warming']);
  });

  test('compares in turns: the default setting, the best one, the default one …', () => {
    const { phases, tried } = play([overlap], (values) => (isOn(values) ? 8 : 10));
    const turns = tried.filter((_, i) => phases[i] === 'comparing').map(({ overlap: value }) => value);
    assert.deepEqual(
      turns,
      Array.from({ length: 8 }, (_, i) => (i % 2 === 0 ? 'never' : 'always')),
    );
  });

  test('compares for longer where a gain may drown in noise, and then takes it', () => {
    const random = mulberry32(21);
    const time = (values: TunableValues) => (isOn(values) ? 9 : 10) * (1 + 0.06 * normal(random));
    const lengths = Array.from({ length: 20 }, () => {
      const { phases, outcome } = play([overlap], time);
      return { turns: phases.filter((phase) => phase === 'comparing').length, outcome };
    });
    const counts = new Set(lengths.map(({ turns }) => turns));
    assert.ok(counts.has(8) && counts.has(24), String([...counts]));
    const taken = lengths.filter(({ outcome }) => outcome?.comparison?.isBetter === true).length;
    assert.ok(taken >= 15, `${taken} of 20`);
  });

  test('keeps the default setting where the gain drowns in noise', () => {
    const random = mulberry32(4);
    for (let round = 0; round < 10; round++) {
      const { outcome } = play([bucket, overlap], () => 10 * (1 + 0.1 * normal(random)));
      if (outcome?.comparison?.isBetter === true)
        assert.ok(outcome.comparison.gain > outcome.comparison.noise);
      else assert.deepEqual(outcome?.chosen, { bucketBytes: 2 * 2 ** 20, overlap: 'never' });
    }
  });

  test('seldom falls for noise', () => {
    const random = mulberry32(8);
    let fooled = 0;
    for (let round = 0; round < 60; round++) {
      const { outcome } = play([overlap], () => 10 * (1 + 0.05 * normal(random)));
      if (outcome?.comparison?.isBetter === true) fooled++;
    }
    assert.ok(fooled <= 9, `${fooled} of 60`);
  });

  test('keeps the default setting where nothing is better', () => {
    const { outcome } = play([overlap], (values) => (isOn(values) ? 12 : 10));
    assert.deepEqual(outcome?.chosen, { overlap: 'never' });
    assert.equal(outcome?.comparison, undefined);
  });

  test('changes nothing while warming, and nothing at all without tunables', () => {
    const { phases, tried, outcome } = play([], () => 10);
    assert.deepEqual(phases, ['warming', 'warming', 'warming']);
    assert.deepEqual(tried, [{}, {}, {}]);
    assert.deepEqual(outcome?.chosen, {});
  });

  test('takes at most as many samples as it may', () => {
    const { phases } = play([bucket], (values) => (values['bucketBytes'] as number) / 1e6 + 1, 7);
    assert.equal(phases.filter((phase) => phase === 'searching').length, 7);
  });

  test('an abandoned one goes back to the default setting', () => {
    const session = new Session(() => [overlap], { warmupSamples: 1, maxSamples: 9, noise: undefined });
    for (let i = 0; i < 2; i++) session.tell(1);
    assert.deepEqual(session.values, { overlap: 'always' });
    session.abandon();
    assert.deepEqual(session.outcome?.chosen, { overlap: 'never' });
  });
});

describe('figures', () => {
  test('a step that waited for something else does not count', () => {
    assert.equal(trimmedMean([10, 10, 10, 10, 10, 10, 10, 10, 10, 5000]), 10);
    assert.equal(median([1, 2, 3, 1000]), 2.5);
    assert.ok(spread([9, 10, 11, 10, 400]) < 3);
  });

  test('steps of two optimizers in turn count both', () => {
    assert.equal(trimmedMean([2, 8, 2, 8, 2, 8, 2, 8, 2, 8]), 5);
  });

  test('a machine that is slow for a while slows both sides of a pair', () => {
    const { gain, isBetter } = compare([10, 30, 10, 10], [8, 24, 8, 8]);
    assert.ok(Math.abs(gain - 0.2) < 1e-9 && isBetter);
  });

  test('a gain of less than 1 % is no gain', () => {
    assert.equal(compare([100, 100, 100, 100], [99.5, 99.5, 99.5, 99.5]).isBetter, false);
  });
});
