// Opening a process set when one rank fails or shuts down, at every step and on every transport.

import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { describe, test } from 'node:test';
import { type ContextWorld, type OpenHook, openContexts } from '../../../test/support/context-world.ts';
import { gloo, makeHierarchicalWorld, native } from '../../../test/support/hierarchical-world.ts';
import { makePortableWorld, makeShmWorld } from '../../../test/support/local-worlds.ts';
import { makeClusterWorld } from '../../../test/support/portable-cluster-world.ts';
import { type MakeWorld, turn, until } from '../../../test/support/transport-world.ts';
import { createMemoryFile } from '../../control/memory-file.ts';
import { HorovodError } from '../../errors.ts';
import * as hvd from '../../operations/collectives.ts';
import { ProcessSet } from '../../operations/process-set.ts';
import { Sum } from '../../tensor/reduce-op.ts';
import type { HorovodContext } from '../context.ts';

const hostOf = (rank: number) => (rank < 3 ? 0 : 1);
const skipNative = native.built ? false : native.reason;
const worlds: {
  name: string;
  make: MakeWorld;
  skip: string | false;
}[] = [
  { name: 'shm', make: makeShmWorld(), skip: skipNative },
  { name: 'portable', make: makePortableWorld, skip: false },
  { name: 'tcp', make: makeHierarchicalWorld({ hostOf }), skip: skipNative },
  {
    name: 'gloo',
    make: makeHierarchicalWorld({ hostOf, transport: 'gloo' }),
    skip: gloo.built ? false : gloo.reason,
  },
  {
    name: 'portable on two hosts',
    make: makeClusterWorld({ hostOf }),
    skip: false,
  },
];

const ranks = 4;
/** Rank 2 is outside; rank 3 is on another host, where there are two. */
const members = [0, 1, 3];

function add(context: HorovodContext, signal?: AbortSignal): Promise<ProcessSet> {
  const set = new ProcessSet(members);
  return context.addProcessSet(set, { signal }).then(() => set);
}

async function assertUsable({ contexts }: ContextWorld): Promise<void> {
  const sums = await Promise.all(
    contexts.map(async (context, rank) => {
      const set = await add(context);
      const world = await hvd.allreduce(context, Float32Array.of(1), { op: Sum });
      if (!members.includes(rank)) return [world[0]];
      const own = await hvd.allreduce(context, new Float32Array(70_000).fill(1), {
        op: Sum,
        processSet: set,
      });
      return [world[0], own[69_999]];
    }),
  );
  assert.deepEqual(
    sums,
    contexts.map((_, rank) => (members.includes(rank) ? [ranks, members.length] : [ranks])),
  );
}

/** How one member fails: what its hook does. */
const failures: Record<string, (failing: number) => OpenHook> = {
  'before it has done anything': (failing) => (rank, spec, open) =>
    rank === failing ? Promise.reject(new Error('no more descriptors')) : open(spec),
  'while it connects': (failing) => (rank, spec, open) => {
    if (rank !== failing) return open(spec);
    return open({
      ...spec,
      signal: AbortSignal.abort(new HorovodError('ERR_HVD_NATIVE', 'no more sockets')),
    });
  },
  "when it opens another member's file": (failing) => (rank, spec, open) => {
    const exchange = async (text: string) =>
      (await spec.exchange(text)).map((each) => each.replaceAll(/(\/proc\/\d+\/fd\/)\d+/g, '$1999999'));
    return open(rank === failing ? { ...spec, exchange } : spec);
  },
  // Of the right size it would be a way into the memory of somebody else.
  'when it is told of a file of another process': (failing) => (rank, spec, open) =>
    open(rank === failing ? { ...spec, exchange: naming(spec, `/proc/${process.ppid}/fd/0`) } : spec),
  'when it is told of a file of another size': (failing) => async (rank, spec, open) => {
    if (rank !== failing) return open(spec);
    const file = createMemoryFile(4096, { directory: undefined, label: 'too small' });
    return open({ ...spec, exchange: naming(spec, file.path) }).finally(() => file.close());
  },
  'when all members should meet for the first time': (failing) => (rank, spec, open) => {
    if (rank !== failing) return open(spec);
    const end = new AbortController();
    const exchange = async (text: string) => {
      const texts = await spec.exchange(text);
      setImmediate(() => end.abort(new HorovodError('ERR_HVD_NATIVE', 'no more threads')));
      return texts;
    };
    // Nobody else opens its half before.
    return open({ ...spec, exchange, signal: end.signal }).then((group) => {
      group.close();
      throw new HorovodError('ERR_HVD_NATIVE', 'no more threads');
    });
  },
};

/** What others say of their files is changed to `path`. */
function naming(spec: Parameters<OpenHook>[1], path: string): typeof spec.exchange {
  return async (text) =>
    (await spec.exchange(text)).map((each) => each.replaceAll(/\/proc\/\d+\/fd\/\d+/g, path));
}

const reasons: Readonly<Record<string, RegExp>> = {
  'when it is told of a file of another process': /was not opened: process \d+ is not one of this job/,
  'when it is told of a file of another size': /was not opened: it has 4096 bytes instead of \d+/,
};

/** The failing members: rank 0 creates what rank 1 opens, and rank 3 dials. */
function failingMembers(how: string): readonly number[] {
  if (how.includes('connects')) return [0, 3];
  return [1];
}

for (const { name, make, skip } of worlds) {
  describe(`addProcessSet() on ${name}`, { skip }, () => {
    for (const [how, hookOf] of Object.entries(failures)) {
      test(`a member that fails ${how}: the same error on all ranks, and the next attempt works`, async () => {
        for (const failing of failingMembers(how)) {
          let isHurt = true;
          const hurt = hookOf(failing);
          const world = await openContexts(make, ranks, (rank, spec, open) =>
            isHurt ? hurt(rank, spec, open) : open(spec),
          );
          try {
            const results = await Promise.allSettled(world.contexts.map((context) => add(context)));
            const errors = results.map((result) => (result as PromiseRejectedResult).reason);
            for (const [rank, error] of errors.entries()) {
              const text = String(error?.message);
              assert.match(
                text,
                reasons[how] ?? /no more|cannot open|did not open/,
                `rank ${rank}: ${error?.stack}`,
              );
              if (rank !== failing) assert.equal(error.rank, failing, text);
            }
            isHurt = false;
            await assertUsable(world);
          } finally {
            await world.close();
          }
        }
      });
    }
  });
}

/** What this process holds. Sockets and threads end a little after they were closed. */
function held(): { descriptors: number; threads: number } {
  return {
    descriptors: readdirSync('/proc/self/fd').length,
    threads: readdirSync('/proc/self/task').length,
  };
}

/** Lets the promises of this turn run, `count` steps far. */
async function steps(count: number): Promise<void> {
  for (let i = 0; i < count; i++) await undefined;
}

const endings: Record<string, (context: HorovodContext, abort: AbortController) => void> = {
  'shutdown()': (context) => context.close(),
  'an AbortSignal': (_, abort) => abort.abort(),
};

for (const { name, make, skip } of worlds) {
  describe(`while a process set opens on ${name}`, { skip }, () => {
    for (const [ending, end] of Object.entries(endings)) {
      test(`${ending} ends it at any point, and nothing is left`, async () => {
        const isAbort = ending === 'an AbortSignal';
        await (await openContexts(make, ranks, (_, spec, open) => open(spec))).close();
        await turn();
        const before = held();
        // First after each step of the promises around the exchange, then after so many turns of the event loop.
        const points: { steps: number; turns: number; isAfter: boolean }[] = [
          ...[0, 1, 2, 3, 5, 8].map((count) => ({ steps: count, turns: 0, isAfter: true })),
          { steps: 0, turns: 0, isAfter: false },
          ...[1, 2, 4].map((turns) => ({ steps: 0, turns, isAfter: true })),
        ];
        for (const [number, point] of points.entries()) {
          const ended = [0, 3][number % 2] as number;
          const abort = new AbortController();
          let hasEnded = false;
          const world = await openContexts(make, ranks, (rank, spec, open) => {
            if (rank !== ended) return open(spec);
            const endAt = async () => {
              await steps(point.steps);
              for (let i = 0; i < point.turns; i++) await turn();
              hasEnded = true;
              end(world.contexts[ended] as HorovodContext, abort);
            };
            const exchange = async (text: string) => {
              if (!point.isAfter) await endAt();
              const texts = await spec.exchange(text);
              if (point.isAfter) void endAt();
              return texts;
            };
            return open({ ...spec, exchange });
          });
          const results = await Promise.allSettled(
            world.contexts.map((context, rank) => add(context, rank === ended ? abort.signal : undefined)),
          );
          await until(() => hasEnded, `${ending} at ${JSON.stringify(point)}`);
          for (const result of results) {
            if (result.status === 'fulfilled') continue;
            assert.ok(HorovodError.is(result.reason), result.reason?.stack);
            if (isAbort) assert.equal(result.reason.code, 'ERR_HVD_ABORTED', result.reason.stack);
          }
          // An abort is an error of that call; the job goes on.
          if (isAbort && results.some(({ status }) => status === 'rejected')) await assertUsable(world);
          await world.close();
        }
        await until(
          () => {
            const now = held();
            return now.descriptors <= before.descriptors && now.threads <= before.threads;
          },
          `descriptors and threads are what they were: ${JSON.stringify(before)}, now ${JSON.stringify(held())}`,
        );
      });
    }
  });
}
