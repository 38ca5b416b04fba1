// Who this rank is at the moment, as samplers see it. In an elastic job that changes; whatever was made for an earlier membership is
// *stale*.

import { defaultContext } from '../context/default/default-context.ts';

export interface World {
  readonly rank: number;
  readonly size: number;
  /** Another object for another membership. */
  readonly membership: object;
}

export function currentWorld(): World {
  const context = defaultContext();
  return { rank: context.world.rank, size: context.world.size, membership: context };
}
