import { describeTransport } from '../../../test/support/transport-conformance.ts';
import type { TransportWorld } from '../../../test/support/transport-world.ts';
import { ControlBlock } from '../../control/control-block.ts';
import { PortableTransport } from './portable-transport.ts';

async function makeWorld(ranks: number): Promise<TransportWorld> {
  const control = ControlBlock.create(ranks);
  const transports = Array.from({ length: ranks }, (_, rank) => {
    control.attach(rank);
    return new PortableTransport(control, { rank });
  });
  return { transports, close: () => control.close() };
}

describeTransport('portable', makeWorld);
