import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LogRing, launcherRank } from './log-ring.ts';

const texts = (lines: readonly { text: string }[]) => lines.map(({ text }) => text);

test('lines of all ranks come in the order of arrival, in pages from the newest', async () => {
  const ring = new LogRing({ ranks: 2 });
  for (let step = 0; step < 6; step++) ring.add(step % 2, 'stdout', `line ${step}`);
  ring.add(launcherRank, 'stderr', 'the launcher');
  const newest = await ring.find({ limit: 3 });
  assert.deepEqual(texts(newest), ['line 4', 'line 5', 'the launcher']);
  const before = await ring.find({ limit: 3, before: newest[0]?.id });
  assert.deepEqual(texts(before), ['line 1', 'line 2', 'line 3']);
  assert.deepEqual(texts(await ring.find({ limit: 9, rank: 1 })), ['line 1', 'line 3', 'line 5']);
  assert.deepEqual(texts(await ring.find({ limit: 9, rank: launcherRank })), ['the launcher']);
  assert.deepEqual(await ring.find({ limit: 9, rank: 7 }), []);
  assert.deepEqual(texts(ring.newest(2)), ['line 5', 'the launcher']);
});

test('a search finds words in any case, of one stream if asked', async () => {
  const ring = new LogRing({ ranks: 1 });
  ring.add(0, 'stdout', 'Loss 0.5');
  ring.add(0, 'stderr', 'LOSS is NaN');
  ring.add(0, 'stdout', 'done');
  assert.deepEqual(texts(await ring.find({ limit: 9, search: 'loss' })), ['Loss 0.5', 'LOSS is NaN']);
  assert.deepEqual(texts(await ring.find({ limit: 9, search: 'loss', stream: 'stderr' })), ['LOSS is NaN']);
  assert.deepEqual(await ring.find({ limit: 9, search: '.*' }), []);
});

test('a search through many lines lets others work in between', async () => {
  const ring = new LogRing({ ranks: 1, rankBytes: 2 ** 26, totalBytes: 2 ** 28 });
  for (let line = 0; line < 100_000; line++) ring.add(0, 'stdout', `line ${line}`);
  let turns = 0;
  const turn = () => {
    turns++;
    if (turns < 1000) setImmediate(turn);
  };
  setImmediate(turn);
  assert.deepEqual(await ring.find({ limit: 9, search: 'nothing like this' }), []);
  assert.ok(turns > 0);
  turns = 1000;
});

test('a rank that prints megabytes pushes out its own lines only', async () => {
  const ring = new LogRing({ ranks: 2, rankBytes: 100_000 });
  ring.add(1, 'stdout', 'kept');
  for (let line = 0; line < 10_000; line++) ring.add(0, 'stdout', `${line} ${'x'.repeat(100)}`);
  const kept = ring.linesOf(0);
  const bytes = kept.reduce((sum, { text }) => sum + 2 * text.length, 0);
  assert.ok(bytes <= 100_000 && bytes > 50_000, `${bytes} bytes`);
  assert.match(kept.at(-1)?.text ?? '', /^9999 /);
  assert.deepEqual(texts(ring.linesOf(1)), ['kept']);
});

test('many ranks share what there is for all', () => {
  const ring = new LogRing({ ranks: 63, totalBytes: 64 * 10_000 });
  for (let rank = 0; rank < 63; rank++) {
    for (let line = 0; line < 200; line++) ring.add(rank, 'stdout', 'x'.repeat(100));
  }
  let bytes = 0;
  for (let rank = 0; rank < 63; rank++) bytes += 2 * 100 * ring.linesOf(rank).length;
  assert.ok(bytes < 64 * 10_000, `${bytes} bytes`);
  assert.ok(ring.linesOf(62).length > 10);
});

test('of a line of megabytes the beginning is kept', () => {
  const ring = new LogRing({ ranks: 1 });
  ring.add(0, 'stdout', 'y'.repeat(5_000_000));
  const [line] = ring.linesOf(0);
  assert.ok((line?.text.length ?? 0) < 10_000);
  assert.match(line?.text ?? '', /^y+…$/);
});
