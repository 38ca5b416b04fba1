import assert from 'node:assert/strict';
import { test } from 'node:test';
import { costsOf, MIX, planFaults } from './chaos-faults.mjs';
import { computedSamples, judgeChaos } from './chaos-results.mjs';

const at = (ms, step) => ({ ms, step });

test('a fault costs the time until all ranks train again, less that of the steps done meanwhile', () => {
  // 10 ms a step before and after; 3 s with 100 steps.
  const calms = [
    { from: at(0, 0), to: at(2000, 200) },
    { from: at(5000, 300), to: at(9000, 700) },
  ];
  assert.deepEqual(costsOf(calms), [2]);
  // The speed without a fault is that of before and after.
  const slower = [calms[0], { from: at(5000, 300), to: at(9000, 500) }];
  assert.deepEqual(costsOf(slower), [1.5]);
});

test('without calm around a fault, its cost is not known', () => {
  const calms = [
    { from: at(0, 0), to: at(400, 40) },
    { from: at(900, 50), to: at(1300, 90) },
    { from: at(2000, 100), to: at(4000, 300) },
  ];
  assert.deepEqual(costsOf(calms), [undefined, 0.6]);
});

test('from the mean cost of each kind follows what a full run would have', () => {
  const injected = Object.keys(MIX).flatMap((kind) => [
    { kind, seconds: 1 },
    { kind, seconds: 2 },
    { kind, seconds: undefined },
  ]);
  assert.equal(computedSamples(injected), 1 - (30 * 1.5) / 1800);
  assert.equal(computedSamples(injected.slice(3)), undefined, 'nothing is known about one kind');
});

test('a short run is judged by what a full one would have, and a full run by what it had', () => {
  const result = {
    samples: 0.9,
    computed: 0.98,
    losses: { difference: 0 },
    stepsWithOtherSamples: [],
    differentLosses: 1,
    undisturbed: { numTensors: 9, descriptors: 40 },
    disturbed: { numTensors: 9, descriptors: 40 },
  };
  const first = (options, more) => judgeChaos({ ...result, ...more, options })[0];
  assert.equal(first({ seconds: 600, faults: 10 }).met, true);
  assert.equal(first({ seconds: 1800, faults: 30 }).met, false);
  assert.match(first({ seconds: 600, faults: 10 }, { computed: undefined }).target, /final loss/);
});

test('every kind of fault is in a run of 8', () => {
  assert.deepEqual(new Set(planFaults(8, 3)), new Set(Object.keys(MIX)));
});
