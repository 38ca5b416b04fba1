import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { describe, type TestContext, test } from 'node:test';
import { statusOf } from '../../../test/support/status-examples.ts';
import { ControlBlock, controlLayout } from '../../control/control-block.ts';
import { encodeJobNews } from '../../rendezvous/driver/job-news.ts';
import type { FoundBlock } from './find-jobs.ts';
import { readBlock, readJobs } from './job-view.ts';
import { encodeRankStatus, type RankStatus } from './rank-status.ts';

function blockOf(t: TestContext, ranks: number): { block: ControlBlock; found: FoundBlock } {
  const block = ControlBlock.create(ranks);
  t.after(() => block.close());
  return { block, found: { path: block.path, mark: '0123456789abcdef', isForeign: false } };
}

function write(block: ControlBlock, status: RankStatus): void {
  block.writeStatus(status.rank, 1, encodeRankStatus(status, controlLayout.statusBytes));
}

/** The pid of a process that is over. */
function endedPid(): number {
  return spawnSync(process.execPath, ['-e', '']).pid;
}

describe('a job seen in its control block', () => {
  test('has ranks that are here, have left, have died, and have not come', (t) => {
    const { block, found } = blockOf(t, 5);
    block.attach(0);
    write(block, statusOf({ rank: 0, pid: process.pid }));
    block.attach(1);
    block.leave(1);
    block.attach(2, endedPid());
    block.recordExit(2, { signal: 'SIGKILL' });
    write(block, statusOf({ rank: 3, host: 'elsewhere' }));
    const { id, ranks, command } = readBlock(found) as NonNullable<ReturnType<typeof readBlock>>;
    assert.equal(id, '1a2b3c4d');
    assert.match(command, /node/);
    assert.deepEqual(
      ranks.map(({ presence, isLocal, end }) => [presence, isLocal, end]),
      [
        ['here', true, undefined],
        ['left', true, undefined],
        ['lost', true, 'was killed by SIGKILL'],
        ['here', false, undefined],
        ['starting', false, undefined],
      ],
    );
    assert.deepEqual(ranks[3]?.status?.host, 'elsewhere');
  });

  test('shows a rank of another host that has left as such, with its last page', (t) => {
    const { block, found } = blockOf(t, 2);
    block.attach(0);
    write(block, statusOf({ rank: 1, host: 'elsewhere' }));
    block.mirror(1, { host: 'elsewhere', pid: 5, hasLeft: true });
    const rank = readBlock(found)?.ranks[1];
    assert.deepEqual([rank?.presence, rank?.status?.host], ['left', 'elsewhere']);
  });

  test('has the failure in it', (t) => {
    const { block, found } = blockOf(t, 1);
    block.attach(0);
    block.fail({ code: 'ERR_HVD_TIMEOUT', message: 'too late', rank: 0 });
    assert.equal(readBlock(found)?.failure, 'too late');
  });

  test('whose page is garbage has ranks without a status', (t) => {
    const { block, found } = blockOf(t, 1);
    block.attach(0);
    block.writeStatus(0, 1, Buffer.from('garbage'));
    assert.deepEqual(readBlock(found)?.ranks[0]?.status, undefined);
    assert.deepEqual(readBlock(found)?.id, '01234567', 'named after its block');
  });

  test('is no job any more when nobody is left', (t) => {
    const { block, found } = blockOf(t, 2);
    for (const rank of [0, 1]) block.attach(rank);
    assert.equal(readJobs([found]).length, 1);
    for (const rank of [0, 1]) block.leave(rank);
    assert.equal(readJobs([found]).length, 0);
  });

  test('of two hosts on one machine is one job, and each row comes from its own host', (t) => {
    const one = blockOf(t, 2);
    const other = blockOf(t, 2);
    one.block.attach(0);
    other.block.attach(1);
    for (const { block } of [one, other]) {
      const isOne = block === one.block;
      write(block, statusOf({ rank: 0, host: 'a', step: isOne ? 10 : 8 }));
      write(block, statusOf({ rank: 1, host: 'b', step: isOne ? 7 : 9 }));
    }
    const [job, ...more] = readJobs([other.found, one.found]);
    assert.deepEqual(more, []);
    assert.deepEqual(
      job?.ranks.map(({ rank, status, isLocal }) => [rank, status?.step, isLocal]),
      [
        [0, 10, true],
        [1, 9, true],
      ],
    );
  });

  test('of a container goes by what the block says, since process numbers are others there', (t) => {
    const { block, found } = blockOf(t, 3);
    for (const rank of [0, 1, 2]) block.attach(rank, endedPid());
    block.leave(1);
    block.recordExit(2, { code: 3 });
    assert.deepEqual(
      readBlock({ ...found, isForeign: true })?.ranks.map(({ presence, end }) => [presence, end]),
      [
        ['here', undefined],
        ['left', undefined],
        ['lost', 'exited with code 3'],
      ],
    );
  });

  test('of an elastic job is that of its last generation, and is there while its ranks form the next', (t) => {
    const [old, next] = [1, 2].map((generation) => {
      const block = ControlBlock.create(1, { generation });
      t.after(() => block.close());
      return block;
    }) as [ControlBlock, ControlBlock];
    const lastResets = Array.from({ length: 9 }, (_, at) => {
      return { generation: at + 2, at, what: 'x'.repeat(2000), size: 2, tookMs: 3, repeatedSteps: 1 };
    });
    const news = { generation: 1, resets: 9, standbys: 1, pause: 'in a reset', lastResets, pid: process.pid };
    const text = encodeJobNews(news, controlLayout.statusBytes);
    assert.ok(text.length <= controlLayout.statusBytes);
    old.writeNews(1, text);
    write(old, statusOf({ rank: 0, pid: process.pid }));
    old.attach(0);
    old.leave(0);
    const found = [old, next].map(({ path }, at) => ({ path, mark: `${at}`.repeat(16), isForeign: false }));
    const [waiting] = readJobs(found.slice(0, 1));
    assert.deepEqual(
      [waiting?.ranks[0]?.presence, waiting?.news?.pause, waiting?.news?.lastResets.map(({ at }) => at)],
      ['left', 'in a reset', [4, 5, 6, 7, 8]],
    );
    next.attach(0);
    write(next, statusOf({ rank: 0, pid: process.pid }));
    const [job, ...more] = readJobs(found);
    assert.deepEqual(more, []);
    assert.deepEqual([job?.generation, job?.ranks[0]?.presence, job?.news?.resets], [2, 'here', 9]);
    old.writeNews(2, Buffer.from('{"generation":-1}'));
    assert.deepEqual(readJobs(found.slice(0, 1)), []);
  });

  test('that is gone, or is no control block, is left out', (t) => {
    const { block, found } = blockOf(t, 1);
    block.close();
    assert.deepEqual(readJobs([found, { ...found, path: '/dev/null' }, { ...found, path: '/nowhere' }]), []);
  });
});
