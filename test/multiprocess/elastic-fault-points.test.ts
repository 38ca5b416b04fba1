// Faults at every point of an elastic job × every kind of rank × every transport: a rank dies, throws or is stopped; the survivors continue, all weights are the same,
// every sample has been used once, and nothing is left. The table runs in one process (test/support/fault-table.ts); real processes die in
// elastic-training.test.ts. A part of the table is left out to save time: HVD_FAULT_TABLE=all runs all of it.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { readSettings } from '../../src/settings/read-settings.ts';
import { loadNative } from '../../src/transport/native/load.ts';
import { FaultTable, type Point } from '../support/fault-table.ts';
import { held } from '../support/held.ts';
import { assertSamplesOnce } from '../support/sampled-training.ts';

const hasAddon = loadNative(readSettings({})).built;
const transports = [
  { transport: 'shm', hosts: 'a:4' },
  { transport: 'portable', hosts: 'a:4' },
  { transport: 'tcp', hosts: 'a:2,b:2' },
] as const;

/** While ranks train. A newcomer dies there in the first generation it is in. */
const steps: readonly Point[] = [
  'post:before',
  'post:inside',
  'reduce:after',
  'apply:inside',
  'commit:before',
  'commit:inside',
  'check:before',
  'check:inside',
  'check:after',
];
/** While ranks come together, because another one has died before or because a newcomer is there. */
const resets: readonly Point[] = [
  'report:before',
  'report:after',
  'assign:after',
  'gather:before',
  'gather:after',
  'open:before',
  'open:after',
  'barrier:before',
  'barrier:after',
  'reset:inside',
  'elect:inside',
  'elect:after',
  'sync:inside',
  'sync:after',
  'formed:before',
  'formed:after',
];
const betweenHosts: readonly Point[] = ['connect:before', 'connect:after'];
/** When training is over. */
const ends: readonly Point[] = ['done:before', 'report:before', 'report:after'];

/** Ranks of a job of 4, on two hosts if there are several: rank 2 is then the first of its host. */
const roles = { 'rank 0': 0, 'leader of a host': 2, 'last rank': 3 } as const;
type Role = keyof typeof roles | 'newcomer' | 'two at once';
const everyRole: readonly Role[] = ['rank 0', 'leader of a host', 'last rank', 'newcomer', 'two at once'];

/** At this point, which is the `place`th of its list. */
function rolesAt(transport: string, place: number): readonly Role[] {
  if (process.env['HVD_FAULT_TABLE'] === 'all') return everyRole;
  if (transport === 'tcp') return ['rank 0', 'leader of a host', place % 2 === 0 ? 'last rank' : 'newcomer'];
  // Where there is one host, rank 0 is its leader.
  const one: readonly Role[] = ['rank 0', 'last rank', 'newcomer'];
  return transport === 'shm' ? [...one, 'two at once'] : one;
}

/** Dies first where a reset is needed to reach a point. */
const other = 1;

async function withTable(
  { transport, hosts }: (typeof transports)[number],
  use: (table: FaultTable) => Promise<void>,
): Promise<void> {
  const table = new FaultTable({ transport, hosts, np: 4 });
  try {
    await table.start();
    await use(table);
    await table.finish();
  } finally {
    await table.close();
  }
  const [first, ...others] = table.results;
  if (first === undefined) assert.fail(`nobody has finished:\n${table.story.join('\n')}`);
  assertSamplesOnce(first);
  for (const { weights, position, epochs, steps: done } of others)
    assert.deepEqual(
      [weights, position, epochs, done],
      [first.weights, first.position, first.epochs, first.steps],
    );
}

const rankOf = (table: FaultTable, rank: number) => table.ranks[rank] as number;

for (const kind of transports) {
  const { transport } = kind;
  const skip = transport !== 'portable' && !hasAddon ? 'the native addon is not built' : false;
  describe(`faults of an elastic job over ${transport}`, { skip }, () => {
    let before: ReturnType<typeof held> | undefined;

    test('a job without faults', async () => {
      await withTable(kind, async () => {});
      // What the first job has loaded stays.
      before = held();
    });

    for (const [place, point] of steps.entries()) {
      const dying = rolesAt(transport, place).filter((role) => role !== 'two at once');
      test(`a rank dies at ${point}: ${dying.join(', ')}`, async () => {
        await withTable(kind, async (table) => {
          for (const role of dying) {
            if (role === 'newcomer') {
              // The one that takes the place of the first to die.
              table.arm(point, table.nextWorker);
              table.arm('post:before', rankOf(table, other));
            } else table.arm(point, rankOf(table, roles[role]));
            await table.isWhole();
          }
        });
      });
    }

    for (const [place, point] of [...resets, ...(transport === 'tcp' ? betweenHosts : [])].entries()) {
      const dying = rolesAt(transport, place);
      test(`a rank dies at ${point} of a reset: ${dying.join(', ')}`, async () => {
        await withTable(kind, async (table) => {
          for (const role of dying) {
            if (role === 'newcomer') table.arm(point, table.nextWorker);
            else {
              const ranks = role === 'two at once' ? [roles['rank 0'], roles['last rank']] : [roles[role]];
              for (const rank of ranks) table.arm(point, rankOf(table, rank));
            }
            table.arm('post:inside', rankOf(table, other));
            await table.isWhole();
          }
        });
      });
    }

    for (const [place, point] of steps.entries()) {
      const rank = place % 2 === 0 ? roles['rank 0'] : roles['last rank'];
      test(`at ${point}, rank ${rank} throws, and then one is stopped there`, async () => {
        await withTable(kind, async (table) => {
          for (const fault of ['throws', 'stops'] as const) {
            table.arm(point, rankOf(table, rank), fault);
            await table.isWhole();
          }
        });
      });
    }

    for (const [place, point] of [...resets, ...(transport === 'tcp' ? betweenHosts : [])].entries()) {
      const rank = place % 2 === 0 ? roles['last rank'] : roles['rank 0'];
      test(`at ${point} of a reset, rank ${rank} is stopped`, async () => {
        await withTable(kind, async (table) => {
          table.arm(point, rankOf(table, rank), 'stops');
          table.arm('post:inside', rankOf(table, other));
          await table.isWhole();
        });
      });
    }

    test('a reset callback throws', async () => {
      await withTable(kind, async (table) => {
        table.arm('reset:inside', rankOf(table, roles['last rank']), 'throws');
        table.arm('post:inside', rankOf(table, other));
        await table.isWhole();
      });
    });

    for (const point of ends) {
      for (const [role, rank] of Object.entries(roles)) {
        test(`${role} dies at ${point} when training is over`, async () => {
          await withTable(kind, async (table) => table.arm(point, rankOf(table, rank)));
        });
      }
    }

    test('nothing is left in this process', async () => {
      const first = before ?? assert.fail('no first look');
      const deadline = performance.now() + 60_000;
      for (;;) {
        const now = held();
        // Less is fine: what Node itself had open at the first look may be closed since.
        if (now.files <= first.files && now.threads <= first.threads && now.listeners <= first.listeners)
          return;
        assert.ok(performance.now() < deadline, `first ${JSON.stringify(first)}, now ${JSON.stringify(now)}`);
        await sleep(20);
      }
    });
  });
}
