import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { dashboardStart, logLines, sampleAt } from '../../../../test/support/dashboard-states.ts';
import { History, thinned } from './history.ts';

const shape = { ranks: 2, samples: 3 };

describe('what the page knows', () => {
  test('a beginning replaces everything', () => {
    const history = new History();
    history.apply('start', dashboardStart(shape, { logs: logLines(shape, 5), hasControl: true }));
    history.apply('end', { at: 1, isSuccess: true, text: 'done' });
    history.apply('start', dashboardStart({ ...shape, samples: 1 }));
    assert.equal(history.samples.length, 1);
    assert.equal(history.logs.length, 0);
    assert.equal(history.end, undefined);
    assert.equal(history.hasControl, false);
    assert.equal(history.beginnings, 2);
  });

  test('samples and lines that it has already are not added again', () => {
    const history = new History();
    history.apply('start', dashboardStart(shape, { logs: logLines(shape, 5) }));
    history.apply('sample', sampleAt(shape, 2));
    history.apply('sample', sampleAt(shape, 3));
    history.apply('logs', logLines(shape, 7));
    assert.equal(history.samples.length, 4);
    assert.deepEqual(
      history.logs.map(({ id }) => id),
      [1, 2, 3, 4, 5, 6, 7],
    );
  });

  test('an event that comes again with a report takes the place of the first', () => {
    const history = new History();
    const event = { id: 1, at: 5, kind: 'stall', tone: 'slow', text: 'rank 1 is missing' } as const;
    history.apply('news', [event, { ...event, id: 2 }]);
    history.apply('news', [{ ...event, report: 'all' }]);
    assert.deepEqual(
      history.news.map(({ id, report }) => [id, report]),
      [
        [1, 'all'],
        [2, undefined],
      ],
    );
  });

  test('a page that is open for days stays small, and keeps its first and its latest samples', () => {
    const history = new History({ rankSamples: 0 });
    for (let at = 0; at < 5000; at++) history.apply('sample', sampleAt(shape, at));
    assert.ok(history.samples.length <= 240);
    assert.equal(history.samples[0]?.headline.step, sampleAt(shape, 0).headline.step);
    const latest = history.samples.slice(-50).map(({ at }) => at);
    assert.deepEqual(
      latest,
      Array.from({ length: 50 }, (_, i) => sampleAt(shape, 4950 + i).at),
    );
  });

  test('the oldest lines are dropped, by their number and by their length', () => {
    const few = new History({ lines: 10 });
    few.apply('logs', logLines(shape, 25));
    assert.deepEqual([few.logs.length, few.logs[0]?.id], [10, 16]);

    const long = new History({ characters: 2500 });
    const line = { at: 1, rank: 0, stream: 'stdout' as const, text: 'x'.repeat(1000) };
    for (let id = 1; id <= 5; id++) long.apply('logs', [{ ...line, id }]);
    assert.deepEqual(
      long.logs.map(({ id }) => id),
      [4, 5],
    );
    long.apply('logs', [{ ...line, id: 6, text: 'y'.repeat(9000) }]);
    assert.deepEqual(
      long.logs.map(({ id }) => id),
      [6],
    );
  });

  test('thinning leaves the newer half alone', () => {
    assert.deepEqual(thinned([1, 2, 3, 4, 5, 6, 7, 8]), [1, 3, 5, 6, 7, 8]);
  });
});
