// The driver of an elastic job: how a job starts, and what happens when workers die. Each test is a case of a job; no process is started.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { DriverWorld } from '../../../test/support/driver-world.ts';
import { drive } from './driver.ts';
import { type DriverEvent, initialState, type Order } from './driver-state.ts';

const lostBy = (world: DriverWorld, ...gone: number[]) => {
  for (const worker of gone) world.ended(worker);
  for (const worker of world.ranks) {
    if (!gone.includes(worker) && world.state.workers.has(worker))
      world.ready(worker, { cause: { code: 'ERR_HVD_PEER_LOST', message: 'lost', worker: gone[0] } });
  }
};

describe('start', () => {
  test('hosts are opened, workers started, and the first generation is formed (test_rank_and_size)', () => {
    const world = new DriverWorld();
    world.tell({ kind: 'hosts', hosts: [{ name: 'a', slots: 2 }] });
    assert.deepEqual(world.took('open-host'), [{ kind: 'open-host', host: 'a' }]);
    world.openHosts();
    const starts = world
      .took('start')
      .map(({ worker, host, slot, rank, size }) => [worker, host, slot, rank, size]);
    assert.deepEqual(starts, [
      [0, 'a', 0, 0, 2],
      [1, 'a', 1, 1, 2],
    ]);
    world.ready(1);
    assert.equal(world.state.phase, 'waiting');
    world.ready(0);
    const answers = world.took('answer').map(({ worker, count, assignment }) => [worker, count, assignment]);
    const seat = {
      kind: 'seat',
      generation: 1,
      size: 2,
      workers: [0, 1],
      joined: [0, 1],
      lost: [],
      previousSize: 0,
      since: [1, 1],
    };
    assert.deepEqual(answers, [
      [0, 1, { ...seat, rank: 0 }],
      [1, 1, { ...seat, rank: 1 }],
    ]);
    world.form();
    assert.equal(world.state.phase, 'running');
    assert.deepEqual(world.took('reset'), []);
  });

  test('-np workers are waited for, and more of them for a second (test_wait_for_available_slots)', () => {
    const world = new DriverWorld({ np: 2, max: 3 });
    world.hosts('a:4');
    assert.equal(world.took('start').length, 3);
    world.ready(0);
    world.ready(1);
    assert.equal(world.state.phase, 'waiting');
    world.pass(1000);
    assert.equal(world.state.phase, 'forming');
    assert.deepEqual(world.ranks, [0, 1]);
    world.form();
    world.ready(2);
    assert.equal(world.took('notice').length, 1);
  });

  test('hosts that come later are waited for (test_wait_for_min_hosts)', () => {
    const world = new DriverWorld({ np: 4 });
    world.hosts('a:2');
    world.ready(0);
    world.ready(1);
    world.pass(5000);
    assert.equal(world.state.phase, 'waiting');
    world.hosts('a:2,b:2');
    world.ready(2);
    world.ready(3);
    assert.deepEqual([world.state.phase, world.ranks], ['forming', [0, 1, 2, 3]]);
  });

  test('if no worker comes up at all, the job fails at once with the first failure', () => {
    const world = new DriverWorld();
    world.hosts('a:2');
    world.orders = [];
    world.ended(1, 'exited with code 1', 1);
    assert.deepEqual(world.took('start'), []);
    world.ended(0, 'exited with code 1', 1);
    assert.match(
      world.took('fail')[0]?.message ?? '',
      /no worker has come up: worker 1 on a exited with code 1/,
    );
    assert.equal(world.state.phase, 'over');
  });

  test('if all ranks of the first generation end before it is formed, the job fails, and others are not tried', () => {
    const world = new DriverWorld();
    world.hosts('a:2');
    world.ready(0);
    world.ready(1);
    assert.equal(world.state.phase, 'forming');
    world.ended(0);
    assert.notEqual(world.state.phase, 'failing');
    world.ended(1);
    assert.equal(world.state.phase, 'failing');
    assert.match(world.took('fail')[0]?.message ?? '', /all ranks have ended before the first step/);
  });

  test('a command that is no training script may just end', () => {
    const world = new DriverWorld();
    world.hosts('a:2');
    world.ended(0, 'exited with code 0', 0);
    world.ended(1, 'exited with code 0', 0);
    assert.deepEqual([world.state.phase, world.took('fail')], ['over', []]);
  });

  test('a host that cannot be opened costs nothing if the others are enough', () => {
    const world = new DriverWorld({ np: 2 });
    world.tell({
      kind: 'hosts',
      hosts: [
        { name: 'a', slots: 2 },
        { name: 'b', slots: 2 },
      ],
    });
    world.tell({ kind: 'host-failed', host: 'b' });
    world.tell({ kind: 'host-open', host: 'a' });
    world.ready(0);
    world.ready(1);
    world.form();
    assert.equal(world.state.phase, 'running');
    world.orders = [];
    world.pass(3100);
    assert.deepEqual(
      world.took('open-host').map(({ host }) => host),
      ['b'],
    );
  });

  test('if no host can be used, the job fails (test_shutdown_on_initial_discovery_failure, test_all_hosts_blacklisted)', () => {
    const world = new DriverWorld();
    world.tell({ kind: 'hosts', hosts: [{ name: 'a', slots: 2 }] });
    world.tell({ kind: 'host-failed', host: 'a' });
    assert.equal(world.took('fail')[0]?.code, 'ERR_HVD_HOST');
  });
});

describe('losses', () => {
  test('a rank dies: the others continue without it, its slot gets a new worker at once (test_single_rank_failure)', () => {
    const world = new DriverWorld({ np: 3 });
    world.run('a:3');
    world.ended(1);
    assert.deepEqual(
      world.orders.map(({ kind }) => kind),
      ['close-generation', 'start'],
    );
    world.orders = [];
    // Only those with the highest commit go back to it.
    world.ready(0, { commit: 7, stepsSince: 9 });
    assert.equal(world.state.phase, 'collecting');
    world.ready(2, { commit: 8, stepsSince: 3 });
    const [first] = world.took('answer');
    assert.deepEqual(first?.assignment, {
      kind: 'seat',
      generation: 2,
      rank: 0,
      size: 2,
      workers: [0, 2],
      joined: [],
      lost: [{ rank: 1, host: 'a', how: 'was killed by SIGKILL' }],
      previousSize: 3,
      since: [1, 2],
    });
    world.pass(200);
    world.form();
    const [reset] = world.took('reset');
    assert.deepEqual(
      [reset?.size, reset?.previousSize, reset?.lost.map(({ rank }) => rank), reset?.joined, reset?.tookMs],
      [2, 3, [1], [], 200],
    );
    assert.equal(reset?.repeatedSteps, 3);
    world.ready(3);
    assert.equal(world.took('notice').length, 1);
    for (const worker of [0, 2])
      world.ready(worker, { cause: { code: 'ERR_HVD_HOSTS_UPDATED', message: '' } });
    assert.deepEqual(world.ranks, [0, 2, 3]);
    world.form();
    assert.deepEqual(world.took('reset')[0]?.joined, [{ rank: 2, host: 'a' }]);
  });

  test('workers that come by themselves are seated and taken in, and none is started', () => {
    const limits = { ...new DriverWorld({ np: 2 }).state.limits, min: 1, isSelfStaffed: true };
    let state = initialState(limits);
    const told: Order[] = [];
    const tell = (event: DriverEvent) => {
      const next = drive(state, event);
      state = next.state;
      told.push(...next.orders);
    };
    const ready = (worker: number, count: number, generation: number) =>
      tell({ kind: 'ready', worker, count, ready: { generation, commit: 0, host: 'a', pid: 1 } });
    for (const host of ['a', 'b']) tell({ kind: 'arrived', host });
    for (const worker of [0, 1]) ready(worker, 1, 0);
    for (const worker of [0, 1]) tell({ kind: 'formed', generation: 1, worker });
    assert.deepEqual(state.lastFormed?.workers, [0, 1]);
    tell({ kind: 'ended', worker: 1, how: 'has ended', exitCode: 1, isLost: true });
    ready(0, 2, 1);
    tell({ kind: 'formed', generation: 2, worker: 0 });
    tell({ kind: 'arrived', host: 'b' });
    ready(2, 1, 0);
    assert.equal(told.at(-1)?.kind, 'notice');
    ready(0, 3, 2);
    assert.deepEqual(state.generation?.workers, [0, 2]);
    assert.equal(
      told.some(({ kind }) => kind === 'start'),
      false,
    );
  });

  test('steps since the last commit and those since a commit of which all shards are left are repeated', () => {
    const world = new DriverWorld({ np: 2, min: 1, max: 2 });
    world.run('a:2');
    world.ended(1);
    world.ready(0, { stepsSince: 1 });
    const generation = world.state.generation?.number as number;
    world.tell({ kind: 'formed', generation, worker: 0, wentBack: 4 });
    assert.equal(world.took('reset').at(-1)?.repeatedSteps, 5);
  });

  test('two ranks that die together are one reset', () => {
    const world = new DriverWorld({ np: 4 });
    world.run('a:4');
    world.ended(3);
    world.ready(0);
    world.ended(1);
    world.ready(2);
    assert.deepEqual([world.ranks, world.state.resets], [[0, 2], 1]);
  });

  test('a spare takes the place in the same reset', () => {
    const world = new DriverWorld({ np: 2, max: 2, spares: 1 });
    world.run('a:3');
    assert.deepEqual(world.ranks, [0, 1]);
    lostBy(world, 1);
    assert.deepEqual(world.ranks, [0, 2]);
  });

  test('rank 0 dies like any other', () => {
    const world = new DriverWorld({ np: 3 });
    world.run('a:3');
    lostBy(world, 0);
    assert.deepEqual(world.ranks, [1, 2]);
  });

  test('all ranks die: the state is lost, and the job ends (test_all_workers_fail, test_all_ranks_failure)', () => {
    const world = new DriverWorld();
    world.run('a:2');
    world.ended(0, 'exited with code 1', 1);
    world.ended(1, 'exited with code 1', 1);
    const [failure] = world.took('fail');
    assert.equal(failure?.code, 'ERR_HVD_PEER_LOST');
    assert.match(failure?.message ?? '', /no rank of generation 1 is left/);
  });

  test('a loss while the next generation is formed closes it, and its number is used up', () => {
    const world = new DriverWorld({ np: 3 });
    world.run('a:3');
    lostBy(world, 2);
    assert.equal(world.state.generation?.number, 2);
    world.formed(0);
    world.orders = [];
    world.ended(1);
    assert.deepEqual(
      world.took('close-generation').map(({ generation }) => generation),
      [2],
    );
    world.ready(0, { generation: 2 });
    assert.deepEqual([world.state.generation?.number, world.ranks], [3, [0]]);
    world.form();
    assert.deepEqual(
      world.took('reset')[0]?.lost.map(({ rank }) => rank),
      [2, 1],
    );
  });

  test('a worker that was not in the last formed generation is no survivor', () => {
    const world = new DriverWorld({ np: 3 });
    world.run('a:2,b:1');
    world.tell({ kind: 'host-failed', host: 'b' });
    lostBy(world, 2);
    world.form();
    // Nobody has told the driver that worker 1 is out of reach; it comes back with an old generation.
    world.orders = [];
    world.ready(1, { generation: 1 });
    assert.deepEqual(
      world.took('answer').map(({ assignment }) => assignment.kind),
      ['removed'],
    );
  });

  test('crashes in a row cost the slot 1, 2, 4 … s (test_host_shutdown_on_worker_failure; here a slot and not its host)', () => {
    const world = new DriverWorld({ np: 1, max: 2 });
    world.run('a:2');
    const delays = Array.from({ length: 4 }, () => {
      const worker = Math.max(...world.workers.keys());
      world.orders = [];
      world.ready(worker);
      world.ended(worker, 'exited with code 3', 3);
      const before = world.now;
      while (!world.orders.some(({ kind }) => kind === 'start')) world.pass(100);
      return world.now - before;
    });
    assert.equal(delays[0], 0);
    for (const [index, seconds] of [1, 2, 4].entries()) {
      const delay = delays[index + 1] as number;
      assert.ok(delay >= seconds * 1000 && delay <= seconds * 1000 + 1100, `${delays}`);
    }
  });

  test('a host whose workers never come up is left alone for a while (test_blacklist_host)', () => {
    const world = new DriverWorld({ np: 1 });
    world.run('a:1,b:1');
    assert.deepEqual(world.ranks, [0, 1]);
    lostBy(world, 1);
    world.form();
    for (let crash = 0; crash < 3; crash++) {
      while (world.state.workers.size < 2) world.pass(100);
      world.orders = [];
      world.ended(Math.max(...world.workers.keys()), 'exited with code 1', 1);
    }
    assert.deepEqual(
      world.took('close-host').map(({ host }) => host),
      ['b'],
    );
    assert.equal(world.state.phase, 'running');
  });

  test('below --min-np the survivors wait, and continue when there are enough again (test_min_num_proc)', () => {
    const world = new DriverWorld({ np: 2, min: 2 });
    world.run('a:2');
    lostBy(world, 1);
    assert.equal(world.state.phase, 'waiting');
    assert.deepEqual(world.took('too-few'), [{ kind: 'too-few', available: 1, min: 2 }]);
    world.ready(2);
    assert.deepEqual([world.state.phase, world.ranks], ['forming', [0, 2]]);
  });

  test('below --min-np for --elastic-timeout: ERR_HVD_TOO_FEW_RANKS for all (test_min_hosts_timeout)', () => {
    const world = new DriverWorld({
      np: 2,
      min: 2,
      elasticTimeoutMs: 3000,
      cooldown: { minMs: 0, maxMs: 0 },
    });
    world.run('a:2');
    lostBy(world, 1);
    world.pass(2900);
    assert.equal(world.state.phase, 'waiting');
    world.pass(200);
    const [answer] = world.took('answer');
    assert.ok(answer?.assignment.kind === 'failed');
    assert.equal(answer.assignment.code, 'ERR_HVD_TOO_FEW_RANKS');
    world.ended(0, 'exited with code 1', 1);
    assert.equal(world.state.phase, 'over');
  });

  test('more resets than --reset-limit end the job; growing stops before that (test_reset_limit)', () => {
    const world = new DriverWorld({ np: 3, resetLimit: 1 });
    world.run('a:3');
    lostBy(world, 2);
    world.form();
    world.ready(3);
    world.pass(2000);
    assert.deepEqual(world.took('notice'), []);
    lostBy(world, 1);
    assert.equal(world.took('fail')[0]?.code, 'ERR_HVD_RESET_LIMIT');
  });

  test('a worker that is not ready within --elastic-timeout is killed', () => {
    const world = new DriverWorld({ np: 1, readyTimeoutMs: 5000 });
    world.hosts('a:2');
    world.ready(0);
    world.pass(1000);
    world.form();
    world.orders = [];
    world.pass(4100);
    assert.deepEqual(
      world.took('signal').map(({ worker, signal }) => [worker, signal]),
      [[1, 'SIGKILL']],
    );
  });
});
