// runRanks(): several ranks in one process, each with the functions of `horovod` bound to it. The quickest way to test
// code that uses collectives.

import type { HorovodContext } from '../context/context.ts';
import type * as publicCollectives from '../context/default/default-collectives.ts';
import type * as publicMembership from '../context/default/default-membership.ts';
import { alloc } from '../operations/alloc.ts';
import * as collectives from '../operations/collectives.ts';
import { prepareAllreduce } from '../operations/prepared.ts';
import { ProcessSet } from '../operations/process-set.ts';
import { Compression } from '../tensor/compression/compression.ts';
import { Adasum, Average, Max, Min, Product, type ReduceOp, Sum } from '../tensor/reduce-op.ts';
import { tensor } from '../tensor/tensor.ts';
import { type RankExtras, runContexts } from './run-contexts.ts';

const bound = [
  'allgather',
  'allgatherObject',
  'allreduce',
  'alltoall',
  'barrier',
  'broadcast',
  'broadcastObject',
  'groupedAllgather',
  'groupedAllreduce',
  'groupedReducescatter',
  'join',
  'reducescatter',
] as const;

/** What `import * as hvd from 'horovod'` gives a script, for one rank of runRanks(). Blocking (Sync) forms are missing. */
export interface RankFunctions
  extends Pick<typeof publicCollectives, (typeof bound)[number] | 'prepareAllreduce'>,
    Pick<
      typeof publicMembership,
      | 'addProcessSet'
      | 'alloc'
      | 'crossRank'
      | 'crossSize'
      | 'flightRecord'
      | 'isHomogeneous'
      | 'localRank'
      | 'localSize'
      | 'logMetrics'
      | 'markStep'
      | 'rank'
      | 'removeProcessSet'
      | 'size'
      | 'transportName'
    > {
  readonly globalProcessSet: ProcessSet;
  readonly ProcessSet: typeof ProcessSet;
  readonly tensor: typeof tensor;
  readonly Compression: typeof Compression;
  readonly Average: ReduceOp;
  readonly Sum: ReduceOp;
  readonly Min: ReduceOp;
  readonly Max: ReduceOp;
  readonly Product: ReduceOp;
  readonly Adasum: ReduceOp;
}

export interface RunRanksOptions {
  /** When to give up on ranks that hang. Default: 60 s. */
  readonly timeoutMs?: number;
}

/**
 * Runs `body` once for each of `n` ranks in this process and resolves to what each returned, in rank order. Process sets
 * can be added (`hvd.addProcessSet`). If a rank throws or the ranks hang, it rejects with RanksFailed.
 */
export function runRanks<R>(
  n: number,
  body: (hvd: RankFunctions) => Promise<R> | R,
  options: RunRanksOptions = {},
): Promise<R[]> {
  return runContexts(n, (context, _, extras) => body(functionsOf(context, extras)), {
    ...options,
    processSets: 'dynamic',
  });
}

function functionsOf(context: HorovodContext, { globalSet }: RankExtras): RankFunctions {
  const { world } = context;
  return {
    ...boundCollectives(context),
    prepareAllreduce: (xs, options) => prepareAllreduce(context, xs, options),
    async addProcessSet(set, options) {
      const added = set instanceof ProcessSet ? set : new ProcessSet(set);
      await context.addProcessSet(added, options);
      return added;
    },
    removeProcessSet: (set, options) => context.removeProcessSet(set, options),
    alloc: (lengthOrShape, dtype) => alloc(context, lengthOrShape, dtype),
    flightRecord: () => context.flightRecord(),
    logMetrics: (metrics) => context.status.metrics.log(metrics),
    markStep: ({ samples } = {}) => context.steps.mark(samples),
    rank: () => world.rank,
    size: () => world.size,
    localRank: () => world.localRank,
    localSize: () => world.localSize,
    crossRank: () => world.crossRank,
    crossSize: () => world.crossSize,
    isHomogeneous: () => world.isHomogeneous,
    transportName: () => context.transportName,
    globalProcessSet: globalSet,
    ProcessSet,
    tensor,
    Compression,
    Average,
    Sum,
    Min,
    Max,
    Product,
    Adasum,
  };
}

function boundCollectives(context: HorovodContext): Pick<typeof publicCollectives, (typeof bound)[number]> {
  // Each public function is the one of operations/ without its first parameter, the context.
  const functions = { ...collectives };
  const entries = bound.map((name) => {
    const collective = functions[name] as (context: HorovodContext, ...rest: unknown[]) => unknown;
    return [name, async (...rest: unknown[]) => collective(context, ...rest)];
  });
  return Object.fromEntries(entries) as Pick<typeof publicCollectives, (typeof bound)[number]>;
}
