import assert from 'node:assert/strict';
import { test } from 'node:test';
import { History } from './history.ts';

const look = (at: number) => JSON.stringify({ at, text: 'x'.repeat(80) });
const ats = (history: History) => (JSON.parse(history.json()) as { at: number }[]).map(({ at }) => at);

test('everything is kept while there is room', () => {
  const history = new History();
  for (let at = 0; at < 100; at++) history.add(look(at));
  assert.deepEqual(
    ats(history),
    Array.from({ length: 100 }, (_, at) => at),
  );
});

test('hours fit: the oldest look stays, the newest are whole, and what lies between is thinned out', () => {
  const history = new History(50_000);
  const looks = 6 * 3600;
  for (let at = 0; at < looks; at++) {
    history.add(look(at));
    assert.ok(history.bytes <= 50_000);
  }
  const kept = ats(history);
  assert.equal(kept[0], 0);
  assert.deepEqual(
    kept.slice(-100),
    Array.from({ length: 100 }, (_, index) => looks - 100 + index),
  );
  assert.deepEqual(
    kept,
    [...kept].sort((a, b) => a - b),
  );
  const middle = kept.filter((at) => at > looks / 4 && at < looks / 2);
  assert.ok(middle.length > 0, 'the first hours are still to be seen');
});

test('one look that is larger than all the room is kept alone', () => {
  const history = new History(100);
  for (let at = 0; at < 9; at++) history.add(look(at));
  assert.equal(ats(history).at(-1), 8);
  assert.ok(history.length <= 2);
});
