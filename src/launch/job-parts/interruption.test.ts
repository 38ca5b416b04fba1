import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Interruption } from './interruption.ts';
import type { RankRecord } from './rank-record.ts';

function fakeRanks(count: number): { ranks: RankRecord[]; sent: string[] } {
  const sent: string[] = [];
  const ranks = Array.from({ length: count }, (_, rank) => ({
    started: { pid: 100 + rank, signal: (signal: string) => sent.push(`${rank}:${signal}`) },
  }));
  return { ranks: ranks as unknown as RankRecord[], sent };
}

test('the first signal ends all ranks, the second kills those that have not ended', () => {
  const { ranks, sent } = fakeRanks(3);
  const said: string[] = [];
  const ended: string[] = [];
  const interruption = new Interruption(
    (text) => said.push(text),
    (signal) => ended.push(signal),
  );
  assert.equal(interruption.hasCome, false);
  assert.equal(interruption.exitCode, undefined);
  interruption.receive('SIGINT', ranks);
  assert.deepEqual(said, ['received SIGINT; stopping 3 ranks.']);
  assert.deepEqual([ended, sent], [['SIGINT'], []]);
  (ranks[1] as RankRecord).ending = { end: { code: 0 } };
  interruption.receive('SIGTERM', ranks);
  assert.deepEqual([ended, sent], [['SIGINT'], ['0:SIGKILL', '2:SIGKILL']]);
  assert.equal(interruption.hasCome, true);
  assert.equal(interruption.exitCode, 130);
  assert.equal(said.length, 1);
});

test('ranks get SIGTERM for SIGPIPE', () => {
  const ended: string[] = [];
  const interruption = new Interruption(
    () => undefined,
    (signal) => ended.push(signal),
  );
  interruption.receive('SIGPIPE', fakeRanks(1).ranks);
  assert.deepEqual(ended, ['SIGTERM']);
  assert.equal(interruption.exitCode, 141);
});
