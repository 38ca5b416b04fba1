// barrier and join, the collectives that move no values.

import type { Collective } from '../collective.ts';
import type { CollectiveOptions } from '../options.ts';

export const barrierCollective: Collective<[], CollectiveOptions> = {
  name: 'barrier',
  arity: 0,
  plan: () => ({ kind: 'barrier', operands: [], operations: [{ kind: 'barrier' }], result: () => undefined }),
};

/** Until all ranks have joined, a joined rank takes part in the others' allreduces with zeros. */
export const joinCollective: Collective<[], CollectiveOptions> = {
  name: 'join',
  arity: 0,
  defaultName: 'horovod.join',
  plan: () => ({ kind: 'join', operands: [], operations: [], result: () => -1 }),
};
