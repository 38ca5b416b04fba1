// Workers of an elastic job that form one generation after another, several in this process.

import assert from 'node:assert/strict';
import { readdirSync, readlinkSync } from 'node:fs';
import { describe, test } from 'node:test';
import { ControlBlock } from '../control/control-block.ts';
import { HorovodError } from '../errors.ts';
import { allreduce } from '../operations/collectives.ts';
import { prepareAllreduce } from '../operations/prepared.ts';
import { notRegistered, ProcessSet } from '../operations/process-set.ts';
import { generationPrefix, type Seat } from '../rendezvous/elastic-messages.ts';
import { controlBlockKey } from '../rendezvous/store/keys.ts';
import { TcpStoreServer } from '../rendezvous/store/tcp-store-server.ts';
import { JobSecret } from '../settings/job-secret.ts';
import { readSettings } from '../settings/read-settings.ts';
import { Sum } from '../tensor/reduce-op.ts';
import { loadNative } from '../transport/native/load.ts';
import type { HorovodContext } from './context.ts';
import { ElasticWorker } from './elastic-worker.ts';

interface Scope {
  after(fn: () => unknown): void;
}

async function startJob(t: Scope, transport: string) {
  const identity = { secret: JobSecret.generate(), jobId: 'elastic-job' };
  const server = await TcpStoreServer.start({ ...identity, ranks: 1000 });
  t.after(() => server.close());
  const join = async (worker: number, processSets?: readonly ProcessSet[]) => {
    const settings = readSettings({
      HOROVOD_RANK: '0',
      HOROVOD_SIZE: '2',
      HOROVOD_ELASTIC_WORKER: String(worker),
      HOROVOD_RENDEZVOUS_ADDR: server.address,
      HOROVOD_JOB_ID: identity.jobId,
      _HOROVOD_SECRET_KEY: identity.secret.revealForEnvironment(),
      HOROVOD_TRANSPORT: transport,
    });
    const set = new ProcessSet([]);
    const joined = await ElasticWorker.join(settings, worker, { processSets }, set);
    t.after(() => joined.close());
    return { worker: joined, set };
  };
  return { server, join };
}

function seatOf(
  generation: number,
  workers: readonly number[],
  worker: number,
  since: readonly number[] = workers.map(() => 1),
): Seat {
  const rank = workers.indexOf(worker);
  return {
    generation,
    rank,
    size: workers.length,
    workers,
    joined: [],
    lost: [],
    previousSize: generation - 1,
    since,
  };
}

async function sum(context: HorovodContext, value: number): Promise<number | undefined> {
  return (await allreduce(context, Float64Array.of(value), { op: Sum }))[0];
}

/** Open files, threads and listeners of this process. */
function held(): Record<string, number> {
  const files = readdirSync('/proc/self/fd').map((fd) => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`);
    } catch {
      return 'the list itself';
    }
  });
  const listeners = process.eventNames().map((name) => process.listenerCount(name));
  return {
    files: files.length,
    threads: readdirSync('/proc/self/task').length,
    listeners: listeners.reduce((total, count) => total + count, 0),
    resources: process.getActiveResourcesInfo().filter((name) => name !== 'Immediate').length,
  };
}

/** TypeScript declares it in its DOM library, which is not loaded. */
const { Memory } = (globalThis as unknown as { WebAssembly: { Memory: HeapClass } }).WebAssembly;
type HeapClass = new (size: {
  initial: number;
}) => { readonly buffer: ArrayBuffer; grow(pages: number): void };

const hasAddon = loadNative(readSettings({})).built;

for (const transport of ['shm', 'portable']) {
  describe(`workers over ${transport}`, { skip: transport === 'shm' && !hasAddon }, () => {
    test('form generation after generation, with other numbers, and alone', async (t) => {
      const { join } = await startJob(t, transport);
      const [{ worker: a, set }, { worker: b }] = [await join(0), await join(7)];
      const inFirst = await Promise.all([a.form(seatOf(1, [0, 7], 0)), b.form(seatOf(1, [0, 7], 7))]);
      assert.deepEqual(await Promise.all(inFirst.map((each, i) => sum(each, i + 1))), [3, 3]);
      assert.deepEqual(set.ranks, [0, 1]);
      assert.equal(inFirst[1].world.rank, 1);
      for (const each of inFirst) each.retire(1);
      const inSecond = await Promise.all([a.form(seatOf(2, [7, 0], 0)), b.form(seatOf(2, [7, 0], 7))]);
      assert.deepEqual([inSecond[0].world.rank, inSecond[1].world.rank, set.rank()], [1, 0, 1]);
      assert.deepEqual(await Promise.all(inSecond.map((each) => sum(each, 1))), [2, 2]);
      for (const each of inSecond) each.retire(2);
      const alone = await b.form(seatOf(3, [7], 7));
      assert.equal(await sum(alone, 5), 5);
      assert.deepEqual([alone.world.rank, alone.world.size, alone.transportName], [0, 1, transport]);
      alone.retire(3);
    });

    test('what belongs to a generation that is over is stale', async (t) => {
      const { join } = await startJob(t, transport);
      const single = new ProcessSet([0]);
      const { worker } = await join(2, [single]);
      const first = await worker.form(seatOf(1, [2], 2));
      assert.equal((await allreduce(first, Float64Array.of(4), { processSet: single }))[0], 4);
      const buffer = Float32Array.of(1, 2);
      const prepared = await prepareAllreduce(first, buffer, { op: Sum });
      await prepared.run();
      first.retire(1);
      const isStale = (error: HorovodError) =>
        error.code === 'ERR_HVD_STALE' && /generation 1 of the job, which is over/.test(error.message);
      await assert.rejects(prepared.run(), isStale);
      assert.throws(() => prepared.runSync(), isStale);
      await assert.rejects(sum(first, 1), isStale);
      assert.equal(single.id, null);
      const second = await worker.form(seatOf(2, [2], 2));
      assert.equal(single.id, 1);
      assert.equal(second.steps, first.steps);
      second.retire(2);
    });

    test('process sets of the same processes with the same numbers come back; others say why not', async (t) => {
      const { join } = await startJob(t, transport);
      const setsOf = () => ({
        first: new ProcessSet([0]),
        pair: new ProcessSet([0, 1]),
        last: new ProcessSet(({ size }) => [size - 1]),
        halves: new ProcessSet(({ size, hostOf }) => {
          assert.deepEqual(hostOf, Array(size).fill(0));
          return Array.from({ length: size >> 1 }, (_, rank) => rank);
        }),
      });
      const start = async (number: number) => {
        const sets = setsOf();
        return { ...(await join(number, Object.values(sets))), number, sets };
      };
      const [a, b, c] = [await start(0), await start(1), await start(2)];
      const form = (generation: number, members: readonly (typeof a)[], since: readonly number[]) => {
        const numbers = members.map(({ number }) => number);
        return Promise.all(
          members.map(({ worker, number }) => worker.form(seatOf(generation, numbers, number, since))),
        );
      };
      const ids = ({ sets }: typeof a) => Object.values(sets).map(({ id }) => id);
      const inFirst = await form(1, [a, b], [1, 1]);
      // The half of two ranks has the same ranks as the first set.
      assert.deepEqual([ids(a), ids(b)], [Array.of(1, 2, 3, 4), Array.of(1, 2, 3, 4)]);
      assert.deepEqual([a.sets.last.ranks, a.sets.halves.ranks], [[1], [0]]);
      for (const each of inFirst) each.retire(1);
      const why = { code: 'ERR_HVD_PROCESS_SET', message: /belonged to an earlier membership/ };
      assert.throws(() => {
        throw notRegistered(a.sets.pair, 'allreduce');
      }, why);

      // Rank 1 has become another process; one that has just joined comes to the same answer.
      const inSecond = await form(2, [a, c], [1, 2]);
      assert.deepEqual([ids(a), ids(c)], [Array.of(1, null, 2, 3), Array.of(1, null, 2, 3)]);
      const last = c.sets.last;
      assert.equal(
        (await allreduce(inSecond[1] as HorovodContext, Float64Array.of(3), { processSet: last }))[0],
        3,
      );
      await assert.rejects(
        allreduce(inSecond[0] as HorovodContext, Float64Array.of(4), { processSet: a.sets.pair }),
        {
          code: 'ERR_HVD_PROCESS_SET',
          message:
            /allreduce: .*ranks=\[0, 1\]\) has no id in generation 2 of the job: rank 1 of it is not the process/,
        },
      );
      for (const each of inSecond) each.retire(2);

      const inThird = await form(3, [c, b], [3, 3]);
      assert.deepEqual([ids(c), ids(b)], [Array.of(null, null, 1, 2), Array.of(null, null, 1, 2)]);
      for (const each of inThird) each.retire(3);
      const [alone] = await form(4, [c], [3]);
      assert.deepEqual(ids(c), [null, null, 1, null]);
      await assert.rejects(
        allreduce(alone as HorovodContext, Float64Array.of(4), { processSet: c.sets.halves }),
        {
          code: 'ERR_HVD_PROCESS_SET',
          message: /ranks=\[\]\) has no ranks in this membership/,
        },
      );
      alone?.retire(4);
    });

    test('the notice of a launcher is seen; who goes on after a failure has left, and is not taken for dead', async (t) => {
      const { join, server } = await startJob(t, transport);
      const { worker } = await join(4);
      const context = await worker.form(seatOf(6, [4], 4));
      assert.equal(context.hasNotice, false);
      const path = await server.store.get(generationPrefix(6) + controlBlockKey(1, 0));
      const block = ControlBlock.open(path);
      t.after(() => block.close());
      block.setNotice();
      assert.equal(context.hasNotice, true);
      context.fail(new HorovodError('ERR_HVD_PEER_LOST', 'somebody is gone.', { rank: 1 }));
      context.retire(6);
      assert.deepEqual([block.state(0), block.lossOf(0)?.code], ['left', 'ERR_HVD_SHUT_DOWN']);
    });

    test('memory that a generation has adopted is used by the next one', async (t) => {
      const { join } = await startJob(t, transport);
      const [{ worker: a }, { worker: b }] = [await join(0), await join(1)];
      const heap = new Memory({ initial: 4 });
      for (const generation of [1, 2, 3]) {
        const contexts = await Promise.all([
          a.form(seatOf(generation, [0, 1], 0)),
          b.form(seatOf(generation, [0, 1], 1)),
        ]);
        contexts[0].adoptMemory(heap);
        const x = new Float32Array(heap.buffer).fill(generation);
        const y = new Float32Array(x.length).fill(10);
        await Promise.all(
          contexts.map((each, i) => allreduce(each, i === 0 ? x : y, { op: Sum, inPlace: true })),
        );
        assert.ok(x.every((value) => value === generation + 10));
        assert.ok(y.every((value) => value === generation + 10));
        for (const each of contexts) each.retire(generation);
        if (generation === 2) heap.grow(4);
      }
    });

    test('many generations in one process, good ones and failed ones, leave nothing behind', async (t) => {
      const { join, server } = await startJob(t, transport);
      const [{ worker: a }, { worker: b }] = [await join(0), await join(1)];
      const early = a.alloc(64 * 1024);
      let before: Record<string, number> | undefined;
      const rounds = 24;
      for (let generation = 1; generation <= rounds; generation++) {
        const contexts = await Promise.all([
          a.form(seatOf(generation, [0, 1], 0)),
          b.form(seatOf(generation, [0, 1], 1)),
        ]);
        const x = new Float64Array(early);
        x.fill(1);
        const other = new Float64Array(x.length).fill(2);
        await Promise.all(
          contexts.map((each, i) => allreduce(each, i === 0 ? x : other, { op: Sum, inPlace: true })),
        );
        assert.ok(x.every((value) => value === 3));
        if (generation % 2 === 0) {
          contexts[0].fail(new HorovodError('ERR_HVD_PEER_LOST', 'somebody is gone.', { rank: 1 }));
          await assert.rejects(sum(contexts[1], 1), { code: 'ERR_HVD_PEER_LOST' });
        }
        for (const each of contexts) each.retire(generation);
        server.store.closePrefix(
          generationPrefix(generation),
          new HorovodError('ERR_HVD_STALE', 'it is over.'),
        );
        await new Promise((later) => setImmediate(later));
        if (generation === 4) before = held();
      }
      // Less is fine: what Node itself had open at the first look may be closed since.
      const after = held();
      for (const [what, count] of Object.entries(before ?? assert.fail('no first look')))
        assert.ok((after[what] ?? 0) <= count, `${what}: ${count}, later ${after[what]}`);
    });
  });
}
