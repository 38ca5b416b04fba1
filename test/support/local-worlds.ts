// Worlds of transports for ranks of one host, all in this process.

import { ControlBlock } from '../../src/control/control-block.ts';
import { loadNative } from '../../src/transport/native/load.ts';
import { PortableTransport } from '../../src/transport/portable/portable-transport.ts';
import { ShmTransport } from '../../src/transport/shm/shm-transport.ts';
import type { Transport } from '../../src/transport/transport.ts';
import type { MakeWorld } from './transport-world.ts';

function makeLocalWorld(
  create: (control: ControlBlock, rank: number, ranks: number) => Transport,
): MakeWorld {
  return async (ranks) => {
    const control = ControlBlock.create(ranks);
    const transports = Array.from({ length: ranks }, (_, rank) => {
      control.attach(rank);
      return create(control, rank, ranks);
    });
    return { transports, leave: (rank) => control.leave(rank), close: () => control.close() };
  };
}

export function makeShmWorld(cma = true): MakeWorld {
  return makeLocalWorld((control, rank, ranks) => {
    const native = loadNative();
    if (!native.built) throw new Error(native.reason);
    const limits = { timeoutMs: 20_000, stallAfterMs: 0 };
    return new ShmTransport(native.addon, control, { rank, localSize: ranks, cma, ...limits });
  });
}

export const makePortableWorld: MakeWorld = makeLocalWorld(
  (control, rank) => new PortableTransport(control, { rank }),
);
