// Contexts of several ranks in this process on any transport, for tests of how process sets open.

import { createLog } from '../../src/console/log.ts';
import { HorovodContext } from '../../src/context/context.ts';
import type { HorovodError } from '../../src/errors.ts';
import { ProcessSet } from '../../src/operations/process-set.ts';
import { makeExchange } from '../../src/testing/exchange.ts';
import { defaultLimits } from '../../src/testing/run-contexts.ts';
import type { GroupSpec, Transport, TransportGroup } from '../../src/transport/transport.ts';
import type { MakeWorld } from './transport-world.ts';

export interface ContextWorld {
  readonly contexts: readonly HorovodContext[];
  close(): Promise<void>;
}

/** Called instead of the transport's openGroup() for process sets that are added; it may change the spec. */
export type OpenHook = (
  rank: number,
  spec: GroupSpec,
  open: (spec: GroupSpec) => Promise<TransportGroup>,
) => Promise<TransportGroup>;

/** A failure anywhere is one on all ranks, and waits end by themselves only after ten minutes. */
export async function openContexts(
  makeWorld: MakeWorld,
  ranks: number,
  hook: OpenHook,
): Promise<ContextWorld> {
  const world = await makeWorld(ranks);
  const exchangeOf = makeExchange(ranks);
  const contexts: HorovodContext[] = [];
  const failJob = (error: HorovodError) => {
    for (const context of contexts) context.fail(error);
  };
  const opened = world.transports.map((transport, rank) => {
    const host = { localRank: rank, localSize: ranks, crossRank: 0, crossSize: 1, isHomogeneous: true };
    return HorovodContext.create({
      world: { rank, size: ranks, ...host },
      transport: hooked(transport, (spec, open) => (spec.id === 0 ? open(spec) : hook(rank, spec, open))),
      limits: { ...defaultLimits, operationTimeoutMs: 600_000 },
      log: createLog({ logLevel: 'error', logTime: false }, rank, { sink: () => {} }),
      hasDynamicProcessSets: true,
      processSet: new ProcessSet([]),
      members: world.transports.map((_, member) => member),
      exchange: exchangeOf(rank),
      failJob,
      leave: () => world.leave?.(rank),
      close() {},
    });
  });
  contexts.push(...(await Promise.all(opened)));
  return {
    contexts,
    async close() {
      for (const context of contexts) context.close();
      await world.close();
    },
  };
}

/** The same transport with another openGroup(). */
function hooked(
  transport: Transport,
  openGroup: (spec: GroupSpec, open: (spec: GroupSpec) => Promise<TransportGroup>) => Promise<TransportGroup>,
): Transport {
  const open = transport.openGroup.bind(transport);
  return Object.assign(transport, { openGroup: (spec: GroupSpec) => openGroup(spec, open) });
}
