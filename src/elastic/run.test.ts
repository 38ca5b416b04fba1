// elastic.run() from end to end in one process: what a worker reports, what it does with the answers, and from which state it
// goes on.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CountingState, ElasticWorld, type Train } from '../../test/support/elastic-world.ts';
import { HorovodError } from '../errors.ts';
import { allreduce } from '../operations/collectives.ts';
import { Sum } from '../tensor/reduce-op.ts';
import { run } from './run.ts';

const never = new Promise<never>(() => {});

/** Counts to `end`, by one in each step of the whole job, with a commit after each step; `size` of the last step is the result. */
function counting(
  end: number | (() => number),
  beforeStep: (state: CountingState, call: number) => unknown = () => {},
): Train<number> {
  return async (state, context, call) => {
    while (state.value < (typeof end === 'number' ? end : end())) {
      // A step of a real job takes time, in which others do something.
      await new Promise((later) => setImmediate(later));
      await beforeStep(state, call);
      const ones = await allreduce(context, Float64Array.of(1), { op: Sum });
      state.value += (ones[0] as number) / context.world.size;
      await state.commit();
    }
    return context.world.size;
  };
}

async function finish(world: ElasticWorld, ...workers: number[]): Promise<void> {
  const reports = await world.reports(...workers);
  assert.deepEqual(
    reports.map(({ isDone }) => isDone),
    workers.map(() => true),
  );
  for (const worker of workers) await world.answer(worker, { kind: 'finished' });
}

test('three workers, of which one dies: the others go on without it, from the highest commit', async () => {
  const world = new ElasticWorld();
  // Worker 1 dies after its step from 5 to 6, when worker 0 has committed it and worker 2 has not.
  const dies = (state: CountingState, call: number) => (call === 1 && state.value === 6 ? never : undefined);
  const [a, b, c] = [0, 1, 2].map((worker) =>
    world.start(worker, counting(9, worker === 1 ? dies : undefined), new CountingState(worker * 100)),
  ) as [ReturnType<typeof world.start<number>>, unknown, ReturnType<typeof world.start<number>>];
  assert.ok(b);
  assert.deepEqual(
    (await world.reports(0, 1, 2)).map(({ generation, commit, cause }) => ({ generation, commit, cause })),
    [0, 1, 2].map(() => ({ generation: 0, commit: -1, cause: undefined })),
  );
  await world.seat(1, [0, 1, 2]);
  await world.formed(1, 0, 1, 2);
  // The last commit of worker 2 is undone before it can report it: it dies inside of the step for the others.
  while (a.state.value < 6 || c.state.value < 6) await new Promise((later) => setImmediate(later));
  world.kill(1, 1);
  const reports = await world.reports(0, 2);
  for (const { generation, commit, cause, isDone } of reports) {
    assert.deepEqual(
      [generation, commit, cause?.code, cause?.worker, isDone],
      [1, 6, 'ERR_HVD_PEER_LOST', 1, undefined],
    );
  }
  const lost = [{ rank: 1, host: 'here', how: 'was killed by SIGKILL' }];
  await world.seat(2, [0, 2], { lost, previousSize: 3 });
  await world.formed(2, 0, 2);
  await finish(world, 0, 2);
  assert.deepEqual(await Promise.all([a.result, c.result]), [2, 2]);
  assert.deepEqual([a.state.value, c.state.value, a.state.commits, c.state.commits], [9, 9, 10, 10]);
  assert.deepEqual(a.state.syncs, [
    { root: 0, lacking: [1, 2] },
    { root: 0, lacking: [] },
  ]);
  const { cause, ...reset } = c.state.resets[0] ?? {};
  assert.equal(cause?.code, 'ERR_HVD_PEER_LOST');
  assert.deepEqual(reset, {
    generation: 2,
    rank: 1,
    size: 2,
    previousRank: 2,
    previousSize: 3,
    joined: [],
    lost,
  });
});

test('a survivor that is one commit ahead of the others gives them its state', async () => {
  const world = new ElasticWorld();
  // Worker 1 has made a commit when worker 0 has not.
  const a = world.start(0, async (state) => {
    if (state.value >= 10) return state.value;
    throw new HorovodError('ERR_HVD_PEER_LOST', 'rank 2 was lost.', { rank: 2 });
  });
  const b = world.start(1, async (state) => {
    if (state.value >= 10) return state.value;
    state.value = 10;
    state.save();
    state.value = 11;
    throw new HorovodError('ERR_HVD_TIMEOUT', 'waited too long.');
  });
  await world.reports(0, 1);
  await world.seat(1, [0, 1]);
  assert.deepEqual(
    (await world.reports(0, 1)).map(({ commit, cause }) => [commit, cause?.code]),
    [
      [0, 'ERR_HVD_PEER_LOST'],
      [1, 'ERR_HVD_TIMEOUT'],
    ],
  );
  await world.seat(2, [0, 1], { previousSize: 3 });
  await finish(world, 0, 1);
  // Not 11: that was not committed.
  assert.deepEqual(await Promise.all([a.result, b.result]), [10, 10]);
  assert.deepEqual(a.state.syncs[1], { root: 1, lacking: [0] });
});

test('at a notice all ranks leave at the same commit, and a newcomer gets their state (test_worker_notification_manager)', async () => {
  const world = new ElasticWorld();
  let end = Number.POSITIVE_INFINITY;
  const [a, b] = [
    world.start(
      0,
      counting(() => end),
    ),
    world.start(
      1,
      counting(() => end),
    ),
  ];
  await world.reports(0, 1);
  await world.seat(1, [0, 1]);
  await world.formed(1, 0, 1);
  while (a.state.value < 20) await new Promise((later) => setImmediate(later));
  const newcomer = world.start(
    5,
    counting(() => end),
    new CountingState(-1),
  );
  const [standby] = await world.reports(5);
  assert.deepEqual([standby?.generation, standby?.commit], [0, -1]);
  world.notice(1);
  const reports = await world.reports(0, 1);
  assert.deepEqual(
    reports.map(({ cause }) => cause?.code),
    ['ERR_HVD_HOSTS_UPDATED', 'ERR_HVD_HOSTS_UPDATED'],
  );
  const commit = reports[0]?.commit as number;
  assert.equal(reports[1]?.commit, commit);
  end = commit + 10;
  await world.seat(2, [0, 1, 5], { joined: [5], previousSize: 2 });
  await world.formed(2, 0, 1, 5);
  await finish(world, 0, 1, 5);
  assert.deepEqual(await Promise.all([a.result, b.result, newcomer.result]), [3, 3, 3]);
  assert.deepEqual(newcomer.state.syncs, [{ root: 0, lacking: [2] }]);
  assert.deepEqual(
    [a, newcomer].map(({ state: { resets } }) => [
      resets[0]?.joined,
      resets[0]?.previousRank,
      resets[0]?.cause,
    ]),
    [
      [[2], 0, undefined],
      [[2], undefined, undefined],
    ],
  );
  // Nothing was done twice: one commit for each step, and the last one.
  assert.deepEqual([a.state.commits, newcomer.state.commits], [end + 1, end + 1]);
});

test('a loss while ranks come together, and one while they synchronize, lead to another generation', async () => {
  const world = new ElasticWorld();
  let failSync: (error: HorovodError) => void = () => {};
  const syncFails = new Promise<void>((_, reject) => {
    failSync = reject;
  });
  const [a, b] = [world.start(0, counting(4)), world.start(1, counting(4))];
  await world.reports(0, 1);
  const together = {
    size: 3,
    workers: [0, 1, 2],
    joined: [],
    lost: [],
    previousSize: 0,
    since: [1, 1, 1],
    generation: 1,
  };
  for (const rank of [0, 1]) await world.answer(rank, { kind: 'seat', ...together, rank });
  world.close(1, 2);
  for (const { generation, commit, cause } of await world.reports(0, 1)) {
    assert.deepEqual([generation, commit, cause?.code], [0, -1, 'ERR_HVD_PEER_LOST']);
  }
  // In the next one worker 1 has all of the state when worker 0 fails.
  a.state.beforeSyncEnds = () => syncFails;
  const died = new HorovodError('ERR_HVD_PEER_LOST', 'rank 1 was lost.', { rank: 1 });
  await world.seat(2, [0, 1]);
  await world.formed(2, 1);
  world.kill(2, 1);
  a.state.beforeSyncEnds = async () => {};
  failSync(died);
  assert.deepEqual(
    (await world.reports(0, 1)).map(({ generation, commit }) => [generation, commit]),
    [
      [0, -1],
      [2, 0],
    ],
  );
  await world.seat(3, [0, 1]);
  await finish(world, 0, 1);
  assert.deepEqual(await Promise.all([a.result, b.result]), [2, 2]);
  assert.deepEqual(a.state.syncs.at(-1), { root: 1, lacking: [0] });
  assert.deepEqual([a.state.value, b.state.value], [4, 4]);
});

test('a worker that is done takes part again if another one is lost before it is done', async () => {
  const world = new ElasticWorld();
  const a = world.start(0, async (state, _context, call) => {
    state.value = 7;
    return call;
  });
  const b = world.start(1, async (state, _context, call) => {
    if (call === 1) throw new HorovodError('ERR_HVD_PEER_LOST', 'rank 2 was lost.', { rank: 2 });
    return state.value;
  });
  await world.reports(0, 1);
  await world.seat(1, [0, 1]);
  const reports = await world.reports(0, 1);
  assert.deepEqual(
    reports.map(({ isDone, commit }) => [isDone, commit]),
    [
      [true, 1],
      [undefined, 0],
    ],
  );
  await world.seat(2, [0, 1], { previousSize: 3 });
  await finish(world, 0, 1);
  // The function of the one that was done is called again, and the other gets its last state.
  assert.deepEqual(await Promise.all([a.result, b.result]), [2, 7]);
});

test('the words of the driver, errors of the user and the end of the launcher end run()', async () => {
  const world = new ElasticWorld();
  const starts = [0, 1].map((worker) => world.start(worker, counting(4)));
  await world.reports(0, 1);
  await world.answer(0, { kind: 'removed', why: 'its host was taken away' });
  await world.answer(1, {
    kind: 'failed',
    code: 'ERR_HVD_RESET_LIMIT',
    message: 'the ranks have changed 3 times.',
  });
  await assert.rejects(starts[0]?.result as Promise<number>, { code: 'ERR_HVD_REMOVED' });
  await assert.rejects(starts[1]?.result as Promise<number>, { code: 'ERR_HVD_RESET_LIMIT' });

  const faulty = world.start(2, async () => {
    throw new TypeError('of the user');
  });
  await world.reports(2);
  await world.seat(1, [2]);
  await assert.rejects(faulty.result, TypeError);

  const mismatched = world.start(3, async (_state, context) => {
    await allreduce(context, Float64Array.of(1), { name: '' });
  });
  await world.reports(3);
  await world.seat(2, [3]);
  await assert.rejects(mismatched.result, { code: 'ERR_HVD_INVALID_ARGUMENT' });

  const waiting = world.start(4, counting(4));
  await world.reports(4);
  world.store.fail(new HorovodError('ERR_HVD_RENDEZVOUS', 'the launcher has ended.'));
  await assert.rejects(waiting.result, { code: 'ERR_HVD_RENDEZVOUS' });
});

test('ranks that commit at different points get an error that says where each is', async () => {
  const world = new ElasticWorld();
  const starts = [0, 1].map((worker) =>
    world.start(worker, async (state) => {
      if (worker === 1) state.save();
      await state.commit();
    }),
  );
  await world.reports(0, 1);
  await world.seat(1, [0, 1]);
  for (const { result } of starts)
    await assert.rejects(result, /rank \d is at commit \d, others are between 1 and 2/);
});

test('states that differ after the synchronization are an error that names the rank', async () => {
  const world = new ElasticWorld();
  world.verifies = true;
  const starts = [0, 1, 2].map((worker) => world.start(worker, async () => undefined));
  (starts[2] as (typeof starts)[number]).state.oddity = ', and something that nobody sent';
  await world.reports(0, 1, 2);
  await world.seat(1, [0, 1, 2]);
  for (const { result } of starts) {
    await assert.rejects(result, {
      code: 'ERR_HVD_MISMATCH',
      rank: 2,
      message: /generation 1, the state of rank 2 differs from that of rank 0/,
    });
  }
});

test('run() takes a function and a state', () => {
  assert.throws(() => run(3 as never), { code: 'ERR_HVD_INVALID_ARGUMENT' });
  return assert.rejects(run(() => 1)({} as never), { code: 'ERR_HVD_INVALID_ARGUMENT' });
});
