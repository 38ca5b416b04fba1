import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { gatherSamples } from './rounds.mjs';
import { buildRuntimeTables, cost, judgeRuntime } from './runtime-results.mjs';
import { renderTable } from './tables.mjs';

const sample = (topic, series, key, value) => ({ topic, series, key, value });
const samples = [
  ...[100, 104, 96].map((value) => sample('timeline', 'off', 'images per second', value)),
  ...[98, 97, 102].map((value) => sample('timeline', 'on', 'images per second', value)),
  sample('recorder', 'off', 'horovod 4', 2),
  sample('recorder', 'on', 'horovod 4', 2.01),
  sample('accuracy', 'none', 'accuracy', 99),
  sample('accuracy', 'int8', 'accuracy', 98.8),
  sample('accuracy', 'topk', 'accuracy', 98.6),
  ...['none', 'int8', 'topk'].flatMap((name) => [
    sample('accuracy', name, 'bytes', 2048),
    sample('accuracy', name, 'seconds', 7),
  ]),
];

describe('the figures of bench:runtime', () => {
  const series = gatherSamples(samples);

  test('are medians over the rounds, with the extremes', () => {
    assert.deepEqual(series.timeline.off['images per second'], {
      median: 100,
      low: 96,
      high: 104,
      runs: [100, 104, 96],
    });
  });

  test('cost is time: rates turn round', () => {
    assert.ok(Math.abs(cost(series, 'timeline', 'images per second') - (100 / 98 - 1)) < 1e-12);
    assert.ok(Math.abs(cost(series, 'recorder', 'horovod 4') - 0.005) < 1e-12);
    assert.equal(cost(series, 'recorder', 'nothing'), undefined);
  });

  test('are judged: the timeline costs too much here, and top-k too many points', () => {
    const judged = Object.fromEntries(judgeRuntime(series).map(({ target, met }) => [target, met]));
    assert.deepEqual(judged, {
      'timeline: training at most 1 % slower': false,
      'int8: accuracy on MNIST within 0.3 points': true,
      'topk: accuracy on MNIST within 0.3 points': false,
    });
  });

  test('become tables, without those that have no figures', () => {
    const result = { series, targets: judgeRuntime(series) };
    const titles = buildRuntimeTables(result).map(({ title }) => title);
    assert.deepEqual(titles, [
      'The flight recorder: µs of an operation, 2 ranks',
      'The timeline: training and a loop of collectives, 2 ranks',
      'Accuracy on MNIST, 2 ranks',
      'Targets',
    ]);
    assert.match(renderTable(buildRuntimeTables(result)[2]), /\| topk .*98\.60 % .*-0\.40/);
  });
});
