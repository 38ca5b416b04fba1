// The driver of an elastic job: faults without a death, hosts that come and go, and the end of a job.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { DriverWorld } from '../../../test/support/driver-world.ts';
import { describeReset } from './describe-reset.ts';

describe('faults without a death', () => {
  test('a stopped rank is killed after --stopped-timeout, while others wait for it', () => {
    const world = new DriverWorld();
    world.run('a:2');
    world.tell({ kind: 'stopped', worker: 1, isStopped: true });
    world.pass(500);
    world.tell({ kind: 'stopped', worker: 1, isStopped: false });
    world.tell({ kind: 'stopped', worker: 1, isStopped: true });
    world.pass(900);
    assert.deepEqual(world.took('signal'), []);
    world.pass(200);
    assert.deepEqual(
      world.took('signal').map(({ worker, signal }) => [worker, signal]),
      [[1, 'SIGKILL']],
    );
  });

  test('a rank that nobody waits for may be stopped: alone, or with a timeout of 0', () => {
    const alone = new DriverWorld({ np: 1 });
    alone.run('a:1');
    alone.tell({ kind: 'stopped', worker: 0, isStopped: true });
    const never = new DriverWorld({ stoppedTimeoutMs: 0 });
    never.run('a:2');
    never.tell({ kind: 'stopped', worker: 0, isStopped: true });
    for (const world of [alone, never]) {
      world.pass(5000);
      assert.deepEqual(world.took('signal'), []);
    }
  });

  test('time in which the launcher itself did not run counts for no timeout', () => {
    const world = new DriverWorld();
    world.run('a:2');
    world.tell({ kind: 'stopped', worker: 1, isStopped: true });
    world.now += 60_000;
    world.pass(800);
    assert.deepEqual(world.took('signal'), []);
    world.pass(400);
    assert.equal(world.took('signal').length, 1);
  });

  test('a rank that hangs is killed', () => {
    const world = new DriverWorld();
    world.run('a:2');
    world.tell({ kind: 'hanging', worker: 0 });
    assert.equal(world.took('signal')[0]?.signal, 'SIGKILL');
  });

  test('a deadline has passed: whom most reports blame is killed; of several, the highest rank', () => {
    for (const [blames, killed] of [
      [[3, 3, undefined], 3],
      [[2, 2, 3], 2],
      [[2, 3, undefined], 3],
    ] as const) {
      const world = new DriverWorld({ np: 5 });
      world.run('a:5');
      for (const [worker, blamed] of [
        [0, blames[0]],
        [1, blames[1]],
        [4, blames[2]],
      ] as const)
        world.ready(worker, { cause: { code: 'ERR_HVD_TIMEOUT', message: 'late', worker: blamed } });
      world.orders = [];
      world.pass(4900);
      assert.deepEqual(world.took('signal'), []);
      world.pass(200);
      assert.equal(world.took('signal')[0]?.worker, killed);
    }
  });

  test('if all report and nobody is at fault, the reset says what the first has reported', () => {
    const world = new DriverWorld({ np: 2 });
    world.run('a:2');
    world.ready(1, { cause: { code: 'ERR_HVD_TIMEOUT', message: 'the allreduce took too long.\nOften …' } });
    world.ready(0, { cause: { code: 'ERR_HVD_PEER_LOST', message: 'rank 1 has left.' } });
    world.form();
    const [reset] = world.took('reset');
    assert.match(
      describeReset(reset ?? assert.fail()),
      /^nobody was lost, but rank 1 on a reported: the allreduce took too long; 2 ranks continue after \d+ ms/,
    );
    world.hosts('a:3');
    for (const worker of [2, 0, 1])
      world.ready(worker, { cause: { code: 'ERR_HVD_HOSTS_UPDATED', message: 'ranks are to join' } });
    world.form();
    assert.match(describeReset(world.took('reset')[0] ?? assert.fail()), /^rank 2 on a has joined; 3 ranks/);
  });

  test('a member that never reports ends at last', () => {
    const world = new DriverWorld({ np: 3, collectTimeoutMs: 10_000 });
    world.run('a:3');
    world.ended(0);
    world.ready(1);
    world.pass(10_100);
    assert.deepEqual(
      world.took('signal').map(({ worker }) => worker),
      [2],
    );
  });

  test('hosts that do not hear each other: the one with more accusers goes; of two, the one seen last', () => {
    for (const [list, expected] of [
      ['a:2,b:1', 'b'],
      ['a:1,b:2', 'a'],
      ['a:1,b:1', 'b'],
    ] as const) {
      const world = new DriverWorld({ np: 2 });
      world.run(list);
      const { ranks } = world;
      const hostOf = (worker: number) => world.workers.get(worker)?.host;
      for (const worker of ranks) {
        const blamed = ranks.find((other) => hostOf(other) !== hostOf(worker));
        world.ready(worker, { cause: { code: 'ERR_HVD_PEER_LOST', message: 'silent', worker: blamed } });
      }
      assert.deepEqual(
        world.orders.filter(({ kind }) => kind === 'close-host'),
        [{ kind: 'close-host', host: expected }],
      );
      assert.ok(world.ranks.every((worker) => hostOf(worker) !== expected));
    }
  });

  test('generations that cannot be formed, although nobody dies, end the job', () => {
    const world = new DriverWorld();
    world.run('a:2');
    world.ready(0, { cause: { code: 'ERR_HVD_PEER_LOST', message: 'x' } });
    world.ready(1, { cause: { code: 'ERR_HVD_PEER_LOST', message: 'x' } });
    for (let attempt = 0; attempt < 4; attempt++) {
      assert.equal(world.state.phase, 'forming');
      world.ready(0, { cause: { code: 'ERR_HVD_SHARED_MEMORY', message: 'disk full.' } });
      world.ready(1, { cause: { code: 'ERR_HVD_PEER_LOST', message: 'x' } });
    }
    assert.match(world.took('fail')[0]?.message ?? '', /4 times in a row\. The last error: disk full\./);
  });
});

describe('hosts', () => {
  test('a host that is added is taken in when its workers stand by (test_rank_and_size_with_host_added)', () => {
    const world = new DriverWorld({ np: 2 });
    world.run('a:2');
    world.hosts('a:2,b:2');
    world.ready(2);
    assert.deepEqual(world.took('notice'), []);
    world.ready(3);
    assert.equal(world.took('notice').length, 1);
    for (const worker of [0, 1]) world.ready(worker);
    assert.deepEqual(world.ranks, [0, 1, 2, 3]);
  });

  test('one of several newcomers that takes long is not waited for longer than a second', () => {
    const world = new DriverWorld({ np: 2 });
    world.run('a:2');
    world.hosts('a:2,b:2');
    world.ready(2);
    world.pass(900);
    assert.deepEqual(world.took('notice'), []);
    world.pass(200);
    assert.equal(world.took('notice').length, 1);
  });

  test('no notice comes before a generation, and one at most for each (test_send_notifications_without_assignments)', () => {
    const world = new DriverWorld({ np: 3 });
    world.hosts('a:1');
    world.hosts('a:1,b:1');
    assert.deepEqual(world.took('notice'), []);
    world.run('a:1,b:2');
    world.hosts('a:1,b:2,c:2');
    world.ready(3);
    world.ready(4);
    world.pass(5000);
    assert.equal(world.took('notice').length, 1);
  });

  test('a host that is lost takes its ranks with it, and comes back after its cooldown (test_rank_and_size_with_host_failure, test_fault_tolerance_hosts_remove_and_add_cooldown)', () => {
    const world = new DriverWorld({ np: 4 });
    world.run('a:2,b:2');
    world.tell({ kind: 'host-failed', host: 'b' });
    world.ended(2, 'was lost with b', 1, true);
    world.ended(3, 'was lost with b', 1, true);
    world.ready(0);
    world.ready(1);
    assert.deepEqual(world.ranks, [0, 1]);
    world.form();
    world.orders = [];
    world.pass(1900);
    assert.deepEqual(world.took('open-host'), []);
    world.pass(1200);
    assert.equal(world.took('open-host').length, 1);
    world.openHosts();
    assert.equal(world.took('start').length, 2);
  });

  test('a host that is removed leaves at the next commit, and is closed when its workers have ended', () => {
    const world = new DriverWorld({ np: 4 });
    world.run('a:2,b:2');
    world.hosts('a:2');
    assert.equal(world.took('notice').length, 1);
    for (const worker of [0, 1, 2, 3]) world.ready(worker);
    assert.deepEqual(world.ranks, [0, 1]);
    const removed = world.took('answer').filter(({ assignment }) => assignment.kind === 'removed');
    assert.deepEqual(
      removed.map(({ worker }) => worker),
      [2, 3],
    );
    world.form();
    world.ended(2, 'exited with code 0', 0);
    world.pass(5100);
    assert.deepEqual(
      world.took('signal').map(({ worker, signal }) => [worker, signal]),
      [[3, 'SIGTERM']],
    );
    world.ended(3, 'was killed by SIGTERM', 143);
    assert.deepEqual(world.took('close-host'), [{ kind: 'close-host', host: 'b' }]);
    assert.equal(world.state.phase, 'running');
  });

  test('hosts come and go (test_hosts_added_and_removed)', () => {
    const world = new DriverWorld({ np: 2 });
    world.run('a:2');
    world.hosts('a:2,b:2');
    for (const worker of [2, 3, 0, 1]) world.ready(worker);
    world.form();
    world.hosts('b:2');
    for (const worker of world.ranks) world.ready(worker);
    world.form();
    assert.deepEqual(world.ranks, [2, 3]);
    assert.equal(world.state.phase, 'running');
  });

  test('more slots are used, fewer are given up by the newest', () => {
    const world = new DriverWorld({ np: 1 });
    world.run('a:1');
    world.hosts('a:3');
    for (const worker of [1, 2, 0]) world.ready(worker);
    world.form();
    assert.deepEqual(world.ranks, [0, 1, 2]);
    world.hosts('a:2');
    for (const worker of [0, 1, 2]) world.ready(worker);
    assert.deepEqual(world.ranks, [0, 1]);
  });

  test('a host that is removed before its workers were ready loses them quietly', () => {
    const world = new DriverWorld({ np: 1 });
    world.run('a:1');
    world.hosts('a:1,b:1');
    world.orders = [];
    world.hosts('a:1');
    assert.deepEqual(
      world.took('signal').map(({ worker, signal }) => [worker, signal]),
      [[1, 'SIGTERM']],
    );
    assert.equal(world.state.phase, 'running');
  });

  test('if too few would be left, hosts that are not listed any more are used until they are gone', () => {
    const world = new DriverWorld({ np: 2, min: 2 });
    world.run('a:1,b:1');
    world.hosts('a:1');
    world.pass(3000);
    assert.deepEqual(world.took('notice'), []);
    assert.equal(world.state.phase, 'running');
  });

  test('--max-np limits the ranks, whatever the hosts have (test_max_num_proc)', () => {
    const world = new DriverWorld({ np: 2, max: 3 });
    world.run('a:2,b:2');
    assert.deepEqual([world.ranks, world.state.workers.size], [[0, 1, 2], 3]);
  });
});

describe('the end', () => {
  test('the job is finished when every member is done; others are stopped (test_shutdown_on_success)', () => {
    const world = new DriverWorld({ np: 2, max: 2, spares: 1 });
    world.run('a:3');
    world.ready(0, { isDone: true });
    assert.equal(world.state.phase, 'running');
    world.orders = [];
    world.ready(1, { isDone: true });
    assert.deepEqual(
      world.orders.map((order) => [order.kind, 'worker' in order ? order.worker : undefined]),
      [
        ['answer', 0],
        ['answer', 1],
        ['signal', 2],
        ['finish', undefined],
      ],
    );
    for (const worker of [0, 1, 2]) world.ended(worker, 'exited with code 0', 0);
    assert.equal(world.took('over').length, 1);
  });

  test('a rank that dies after it was done has lost nothing', () => {
    const world = new DriverWorld();
    world.run('a:2');
    world.ready(0, { isDone: true });
    world.ended(0);
    assert.equal(world.state.phase, 'running');
    world.ready(1, { isDone: true });
    assert.equal(world.state.phase, 'finishing');
  });

  test('a rank that dies before it was done: the others form again, however few they are', () => {
    const world = new DriverWorld({ np: 2, min: 2 });
    world.run('a:2');
    world.ready(0, { isDone: true, commit: 8 });
    world.ended(1);
    assert.deepEqual([world.state.phase, world.ranks], ['forming', [0]]);
    world.form();
    world.ready(0, { isDone: true, commit: 8 });
    assert.equal(world.state.phase, 'finishing');
  });

  test('a rank that is done while others still form its generation does not close it', () => {
    const world = new DriverWorld();
    world.hosts('a:2');
    world.ready(0);
    world.ready(1);
    world.formed(0);
    world.ready(0, { isDone: true });
    assert.equal(world.state.phase, 'forming');
    world.formed(1);
    world.ready(1, { isDone: true });
    assert.equal(world.state.phase, 'finishing');
  });
});
