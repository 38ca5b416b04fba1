// What a context writes into its flight dump.

import { hostname } from 'node:os';
import type { HorovodContext } from '../../context/context.ts';
import type { ContextParts } from '../../context/context-parts.ts';
import type { ProcessSetTable } from '../../context/process-set-table.ts';
import { nowMs } from '../../context/request-parts.ts';
import { labelOf, nameOf } from '../../engine/request.ts';
import { packageVersion } from '../../settings/package.ts';
import { dumpedError } from './dumped-error.ts';
import { dumpFormat } from './flight-dump.ts';
import { FlightDumper } from './flight-dumper.ts';

/** Ranks whose doings each rank writes down. */
const othersLimit = 32;

/** `describePeer` says what another rank does. */
export function createDumper(
  context: HorovodContext,
  parts: ContextParts,
  sets: ProcessSetTable,
  describePeer: (rank: number) => string,
): FlightDumper {
  const { rank, size } = parts.world;
  const dumper = new FlightDumper({
    place: parts.flight,
    log: parts.log,
    snapshot: (reason, error) => {
      const clockMs = nowMs();
      const registered = sets.all();
      return {
        format: dumpFormat,
        job: parts.status?.job ?? 'alone',
        ...{ rank, size, host: parts.status?.host ?? hostname(), pid: process.pid },
        ...{ atMs: Date.now(), clockMs, reason, error: dumpedError(error), step: context.steps.step },
        transport: parts.transport.name,
        versions: {
          horovod: packageVersion(),
          node: process.version,
          platform: `${process.platform} ${process.arch}`,
        },
        processSets: registered.map(({ id, members }) => ({ id, ranks: members.ranks })),
        pending: registered.flatMap(({ id, channel }) =>
          [...(channel?.pending ?? [])].map((request) => ({
            label: labelOf(request.description),
            kind: request.description.kind,
            name: nameOf(request.description),
            processSet: id,
            waitedMs: Math.round(clockMs - request.submittedAtMs),
            missing: channel?.missingFor(request).filter((member) => member !== rank) ?? [],
          })),
        ),
        others: Array.from({ length: size }, (_, other) => other)
          .filter((other) => other !== rank)
          .slice(0, othersLimit)
          .map(describePeer),
        stragglers: context.stragglers.describe(),
        collectives: context.recorder.count,
        records: context.recorder.read(),
      };
    },
  });
  dumper.listen();
  return dumper;
}
