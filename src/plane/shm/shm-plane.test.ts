import { loadNative } from '../../native/load.ts';
import { describePlane } from '../../testing/plane-conformance.ts';
import type { PlaneWorld } from '../../testing/plane-world.ts';
import { ControlBlock } from '../control-block.ts';
import { ShmPlane } from './shm-plane.ts';

const native = loadNative();

function makeWorld(cma: boolean): (ranks: number) => Promise<PlaneWorld> {
  return async (ranks) => {
    if (!native.built) throw new Error(native.reason);
    const control = ControlBlock.create(ranks);
    const planes = Array.from({ length: ranks }, (_, rank) => {
      control.attach(rank);
      const limits = { timeoutMs: 20_000, stallAfterMs: 0 };
      return new ShmPlane(native.addon, control, { rank, localSize: ranks, cma, ...limits });
    });
    return { planes, close: () => control.close() };
  };
}

if (native.built) {
  describePlane('shm, copying straight from memory to memory', makeWorld(true));
  describePlane('shm, staging', makeWorld(false));
}
