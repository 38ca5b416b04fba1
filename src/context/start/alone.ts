// How a process without others becomes a rank: in memory.

import type { Log } from '../../console/log.ts';
import type { Settings } from '../../settings/table.ts';
import { MemoryHub } from '../../transport/memory/memory-transport.ts';
import type { ContextParts } from '../context-parts.ts';
import { openAloneStatus } from './alone-status.ts';
import { type CommonParts, flightPlace } from './common-parts.ts';
import { HostMap } from './hosts.ts';

export function aloneParts(common: CommonParts, log: Log, settings: Settings): ContextParts {
  const hub = new MemoryHub(1);
  const own = openAloneStatus(settings);
  return {
    ...common,
    log,
    world: new HostMap([{ hostname: 'localhost', machine: '' }]).worldOf(0),
    transport: hub.transport(0),
    members: [0],
    exchange: async (text) => [text],
    failJob: (error) => hub.fail(error),
    // There is nobody to compare with: only for those who ask for it.
    flight:
      settings.flightDirectory === undefined ? undefined : flightPlace(settings, `alone-${process.pid}`),
    ...own,
  };
}
