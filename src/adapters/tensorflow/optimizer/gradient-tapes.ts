// The tapes as `horovod/tensorflow` exports them: each can be made with `new` or, as in Python, without.

import { type CallableClass, callable } from '../callable-class.ts';
import {
  DistributedGradientTape as DistributedGradientTapeClass,
  PartialDistributedGradientTape as PartialDistributedGradientTapeClass,
} from './distributed-gradient-tape.ts';

export const DistributedGradientTape: CallableClass<typeof DistributedGradientTapeClass> = callable(
  DistributedGradientTapeClass,
);
export type DistributedGradientTape = DistributedGradientTapeClass;

export const PartialDistributedGradientTape: CallableClass<typeof PartialDistributedGradientTapeClass> =
  callable(PartialDistributedGradientTapeClass);
export type PartialDistributedGradientTape = PartialDistributedGradientTapeClass;
