import { describePlane } from '../../testing/plane-conformance.ts';
import type { PlaneWorld } from '../../testing/plane-world.ts';
import { ControlBlock } from '../control-block.ts';
import { PortablePlane } from './portable-plane.ts';

async function makeWorld(ranks: number): Promise<PlaneWorld> {
  const control = ControlBlock.create(ranks);
  const planes = Array.from({ length: ranks }, (_, rank) => {
    control.attach(rank);
    return new PortablePlane(control, { rank });
  });
  return { planes, close: () => control.close() };
}

describePlane('portable', makeWorld);
