// A thread whose ranks open a process set, and which stops at a given point of it for ever. `workerData`: the world, and
// the steps of promises after the exchange of rank 0; it says 'here' when it is there. terminated.test.ts ends it.

import { parentPort, workerData } from 'node:worker_threads';
import { ProcessSet } from '../../src/operations/process-set.ts';
import { openContexts } from './context-world.ts';
import { makeHierarchicalWorld } from './hierarchical-world.ts';
import { makePortableWorld, makeShmWorld } from './local-worlds.ts';
import type { MakeWorld } from './transport-world.ts';

const worlds: Record<string, MakeWorld> = {
  shm: makeShmWorld(),
  portable: makePortableWorld,
  tcp: makeHierarchicalWorld({ hostOf: (rank) => (rank < 2 ? 0 : 1) }),
};

const { world, steps, isAfter } = workerData as { world: string; steps: number; isAfter: boolean };

async function stayHere(): Promise<void> {
  for (let i = 0; i < steps; i++) await undefined;
  parentPort?.postMessage('here');
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
}

const { contexts } = await openContexts(worlds[world] as MakeWorld, 3, (rank, spec, open) => {
  if (rank !== 0) return open(spec);
  const exchange = async (text: string) => {
    if (!isAfter) await stayHere();
    const texts = await spec.exchange(text);
    void stayHere();
    return texts;
  };
  return open({ ...spec, exchange });
});
await Promise.allSettled(contexts.map((context) => context.addProcessSet(new ProcessSet([0, 2]))));
