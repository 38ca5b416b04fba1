// What a rank writes into its flight dump.

import { nowMs } from '../../engine/clock.ts';
import { labelOf, nameOf } from '../../engine/description.ts';
import { packageVersion } from '../../settings/package.ts';
import type { ObservedRank } from '../observed-rank.ts';
import { dumpedError } from './dumped-error.ts';
import { dumpFormat, type FlightDump } from './flight-dump.ts';
import type { DumpReason } from './flight-dumper.ts';
import type { FlightRecorder } from './flight-recorder.ts';

/** A dump says what so many other ranks do, at most. */
const maxOthers = 32;

export interface SnapshotSource {
  readonly watched: ObservedRank;
  readonly recorder: FlightRecorder;
  /** What another rank is doing. */
  describePeer(rank: number): string;
  describeStragglers(): string | undefined;
}

export function snapshot(source: SnapshotSource, reason: DumpReason, error: unknown): FlightDump {
  const { watched, recorder } = source;
  const { rank, size, host, job, transport } = watched;
  const clockMs = nowMs();
  const sets = watched.processSets();
  return {
    format: dumpFormat,
    job,
    rank,
    size,
    host,
    pid: process.pid,
    atMs: Date.now(),
    clockMs,
    reason,
    error: dumpedError(error),
    step: watched.steps.step,
    transport,
    versions: {
      horovod: packageVersion(),
      node: process.version,
      platform: `${process.platform} ${process.arch}`,
    },
    processSets: sets.map(({ id, ranks }) => ({ id, ranks })),
    pending: sets.flatMap(({ id, channel }) =>
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
      .slice(0, maxOthers)
      .map((other) => source.describePeer(other)),
    stragglers: source.describeStragglers(),
    collectives: recorder.count,
    records: recorder.read(),
  };
}
