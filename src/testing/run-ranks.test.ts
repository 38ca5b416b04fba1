import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RanksFailed } from './run-contexts.ts';
import { type RankFunctions, runRanks } from './run-ranks.ts';

test('runRanks() gives each rank the functions of horovod and returns what each rank returned', async () => {
  const results = await runRanks(3, async (hvd) => {
    const sum = await hvd.allreduce(Float32Array.of(hvd.rank()), { op: hvd.Sum });
    return `${hvd.rank()} of ${hvd.size()}: ${sum[0]}`;
  });
  assert.deepEqual(results, ['0 of 3: 3', '1 of 3: 3', '2 of 3: 3']);
});

test('every collective is bound to its rank', async () => {
  await runRanks(2, async (hvd) => {
    const rank = hvd.rank();
    const x = Float32Array.of(rank, 2);
    assert.deepEqual(await hvd.groupedAllreduce([x]), [Float32Array.of(0.5, 2)]);
    assert.deepEqual(await hvd.allgather(x), Float32Array.of(0, 2, 1, 2));
    assert.deepEqual(await hvd.groupedAllgather([x]), [Float32Array.of(0, 2, 1, 2)]);
    assert.deepEqual(await hvd.broadcast(x, 1), Float32Array.of(1, 2));
    assert.deepEqual(
      (await hvd.alltoall(x)).output,
      rank === 0 ? Float32Array.of(0, 1) : Float32Array.of(2, 2),
    );
    assert.deepEqual(await hvd.reducescatter(x), Float32Array.of(rank === 0 ? 0.5 : 2));
    assert.deepEqual(await hvd.groupedReducescatter([x]), [Float32Array.of(rank === 0 ? 0.5 : 2)]);
    assert.deepEqual(await hvd.allgatherObject({ rank }), [{ rank: 0 }, { rank: 1 }]);
    assert.equal(await hvd.broadcastObject(rank, 1), 1);
    await hvd.barrier({ name: 'here' });
    assert.ok([0, 1].includes(await hvd.join()));
    const data = hvd.alloc(2).data as Float32Array;
    const prepared = await hvd.prepareAllreduce(data, { op: hvd.Sum });
    data.fill(1);
    assert.deepEqual(await prepared.run(), Float32Array.of(2, 2));
  });
});

test('process sets, membership and steps are those of the rank', async () => {
  const functions: RankFunctions[] = await runRanks(3, async (hvd) => {
    const set = await hvd.addProcessSet([0, 2]);
    if (set.included()) {
      const sum = await hvd.allreduce(Int32Array.of(1), { op: hvd.Sum, processSet: set });
      assert.deepEqual([...sum], [2]);
    }
    assert.equal(await hvd.removeProcessSet(set), true);
    assert.deepEqual([...hvd.globalProcessSet.ranks], [0, 1, 2]);
    hvd.markStep({ samples: 8 });
    assert.ok(hvd.flightRecord().length > 0);
    return hvd;
  });
  assert.deepEqual(
    functions.map((hvd) => [
      hvd.rank(),
      hvd.localRank(),
      hvd.localSize(),
      hvd.crossRank(),
      hvd.crossSize(),
      hvd.isHomogeneous(),
      hvd.transportName(),
    ]),
    [0, 1, 2].map((rank) => [rank, rank, 3, 0, 1, true, 'memory']),
  );
});

test('a rank that throws ends the run with its error', async () => {
  const run = runRanks(2, async (hvd) => {
    if (hvd.rank() === 1) throw new Error('no data');
    await hvd.barrier();
  });
  await assert.rejects(
    run,
    (error) => error instanceof RanksFailed && error.rank === 1 && /no data/.test(`${error.cause}`),
  );
});
