// Failures of elastic jobs that users of Horovod have reported, by number. Those about samples and epochs (#3143, #2844) are in
// test/multiprocess/elastic-fault-points.test.ts and src/adapters/keras/elastic/elastic.test.ts.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DriverWorld } from '../../../test/support/driver-world.ts';
import { CountingState, ElasticWorld } from '../../../test/support/elastic-world.ts';

test('#3494, #2285: fewer than --min-np are left, then a newcomer comes: survivors and newcomer synchronize, all of them', async () => {
  const world = new ElasticWorld();
  let isEnough = false;
  const train = async (state: CountingState) => {
    while (!isEnough) {
      await new Promise((later) => setImmediate(later));
      await state.commit();
    }
    return state.value;
  };
  const [a, b] = [0, 1].map((worker) => world.start(worker, train, new CountingState(10 + worker))) as [
    ReturnType<typeof world.start<number>>,
    ReturnType<typeof world.start<number>>,
  ];
  await world.reports(0, 1);
  await world.seat(1, [0, 1]);
  await world.formed(1, 0, 1);
  // Worker 1 leaves at a commit, in good order; worker 0 has to wait for another one.
  world.notice(1);
  await world.reports(0, 1);
  await world.answer(1, { kind: 'removed', why: 'its host was taken away' });
  await assert.rejects(b.result, { code: 'ERR_HVD_REMOVED' });
  const newcomer = world.start(2, train, new CountingState(-1));
  await world.reports(2);
  await world.seat(2, [0, 2], { joined: [2], previousSize: 2 });
  await world.formed(2, 0, 2);
  isEnough = true;
  await world.reports(0, 2);
  for (const worker of [0, 2]) await world.answer(worker, { kind: 'finished' });
  assert.deepEqual(await Promise.all([a.result, newcomer.result]), [10, 10]);
  assert.deepEqual([a.state.syncs.length, newcomer.state.syncs.length], [2, 1]);
});

test('#3014: a worker that has reported dies while others have not: nobody waits for it', () => {
  const world = new DriverWorld({ np: 3, min: 1, max: 3 });
  world.run('a:3');
  world.ended(2);
  world.ready(0);
  world.ended(0);
  assert.deepEqual(world.took('answer'), []);
  world.ready(1);
  const [answer] = world.took('answer');
  assert.equal(answer?.worker, 1);
  assert.equal(answer?.assignment.kind, 'seat');
  world.formed(1);
  assert.equal(world.state.phase, 'running');
});

test('#2652: a new worker that hangs while it starts keeps nobody from training, and is killed', () => {
  const world = new DriverWorld({ np: 1, min: 1, max: 2, readyTimeoutMs: 60_000 });
  world.run('a:1');
  world.hosts('a:1,b:1');
  assert.equal(world.took('start').length, 1);
  world.pass(59_000);
  assert.deepEqual(world.orders, []);
  assert.equal(world.state.phase, 'running');
  world.pass(2000);
  assert.deepEqual(
    world.took('signal').map(({ worker, signal }) => [worker, signal]),
    [[1, 'SIGKILL']],
  );
  assert.deepEqual([world.state.phase, world.ranks], ['running', [0]]);
});

test('#3852: ranks that exit with code 0 before they are done are lost, and the job is not finished', () => {
  const world = new DriverWorld({ np: 3, min: 1, max: 3 });
  world.run('a:3');
  world.ended(1, 'exited with code 0', 0);
  world.ended(2, 'exited with code 0', 0);
  assert.deepEqual(world.took('finish'), []);
  world.ready(0);
  const [answer] = world.took('answer');
  assert.equal(answer?.assignment.kind, 'seat');
  assert.deepEqual(world.ranks, [0]);
});
