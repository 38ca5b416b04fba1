import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Batch, GroupSpec, QuickPath, Round, TransportGroup } from '../transport.ts';
import { SwitchingGroup, waysThroughHosts } from './switching-group.ts';

/** A group that only notes who was asked. */
function fakeGroup(name: string, notes: string[], hasQuick = true): TransportGroup {
  const note = (what: string) => void notes.push(`${name} ${what}`);
  const quick = {
    isTraced: false,
    lastMarks: new Float64Array(0),
    prepareRun: () => {
      note('prepares');
      return () => {
        note('runs');
        return 0;
      };
    },
    runNow: () => {
      note('quick');
      return 0;
    },
  };
  return {
    index: 1,
    size: 3,
    ...(hasQuick ? { quick: quick as unknown as QuickPath } : {}),
    submit: () => undefined,
    runSync: () => {
      note('runSync');
      return 'done';
    },
    waitSync: () => 'done',
    takeBack: () => [],
    missing: () => [],
    setSwitchBytes: (bytes) => note(`switches at ${bytes}`),
    close: () => note('closes'),
  };
}

const spec: GroupSpec = {
  id: 0,
  members: [0, 1, 2],
  index: 1,
  timeoutMs: 1,
  exchange: async (text) => [text],
};
const batch: Batch = { rounds: [], passive: false, timeoutMs: 1, stallAfterMs: 0, label: 'x' };
const byHost = { allreduce: true, allgather: true };
const flat = { allreduce: false, allgather: false };

async function open(notes: string[], hasQuick = true) {
  const ids: number[] = [];
  const group = await SwitchingGroup.open(
    async ({ id, hierarchy }) => {
      ids.push(id);
      return fakeGroup(hierarchy?.allreduce ? 'by host' : 'flat', notes, hasQuick);
    },
    spec,
    [byHost, flat],
  );
  assert.equal(new Set(ids).size, 2);
  assert.equal(ids[0], 0);
  return group;
}

describe('a group that can go several ways', () => {
  test('uses the first, then the one it is switched to, and closes all', async () => {
    const notes: string[] = [];
    const group = await open(notes);
    group.runSync(batch);
    group.use(flat);
    assert.deepEqual(group.hierarchy, flat);
    group.runSync(batch);
    group.use({ allreduce: true, allgather: false });
    group.runSync(batch);
    group.setSwitchBytes(7);
    group.close();
    assert.deepEqual(notes, [
      'by host runSync',
      'flat runSync',
      'flat runSync',
      'by host switches at 7',
      'flat switches at 7',
      'by host closes',
      'flat closes',
    ]);
  });

  test('what was prepared runs on the group in use, and is prepared there once', async () => {
    const notes: string[] = [];
    const group = await open(notes);
    const run = (group.quick as QuickPath).prepareRun({} as Round, batch);
    run();
    run();
    group.use(flat);
    run();
    group.use(byHost);
    run();
    assert.deepEqual(notes, [
      'by host prepares',
      'by host runs',
      'by host runs',
      'flat prepares',
      'flat runs',
      'by host runs',
    ]);
  });

  test('has a quick way only where all of them have', async () => {
    assert.equal((await open([], false)).quick, undefined);
  });

  test('closes what it has opened when one cannot be opened', async () => {
    const notes: string[] = [];
    const opening = SwitchingGroup.open(
      async ({ id }) => {
        if (id !== 0) throw new Error('no');
        return fakeGroup('first', notes);
      },
      spec,
      [byHost, flat],
    );
    await assert.rejects(opening, /no/);
    assert.deepEqual(notes, ['first closes']);
  });
});

describe('ways through hosts', () => {
  const free = { allreduce: false, allgather: false };

  test('there is one on one host, and with one rank a host', () => {
    assert.deepEqual(waysThroughHosts([0, 0, 0], byHost, free, false), [byHost]);
    assert.deepEqual(waysThroughHosts([0, 1, 2], byHost, free, false), [byHost]);
  });

  test('there are four otherwise, the default first; fewer where something is fixed or goes together', () => {
    const hosts = [0, 0, 1];
    const all = waysThroughHosts(hosts, byHost, free, false);
    assert.equal(all.length, 4);
    assert.deepEqual(all[0], byHost);
    assert.deepEqual(waysThroughHosts(hosts, byHost, { ...free, allreduce: true }, false), [
      byHost,
      { allreduce: true, allgather: false },
    ]);
    assert.deepEqual(waysThroughHosts(hosts, flat, free, true), [flat, byHost]);
  });
});
