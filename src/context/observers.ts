// The observers of a context, in the order in which they are called.

import { nowMs } from '../engine/clock.ts';
import type { OperationObserver } from '../engine/observer.ts';
import { FlightDumper } from '../observe/flight-recorder/flight-dumper.ts';
import { FlightRecorder } from '../observe/flight-recorder/flight-recorder.ts';
import { snapshot } from '../observe/flight-recorder/snapshot.ts';
import { channelsOf, type ObservedRank } from '../observe/observed-rank.ts';
import { Peers } from '../observe/stalls/peers.ts';
import { StallWatch } from '../observe/stalls/stall-watch.ts';
import { DataWatch } from '../observe/status/data-watch.ts';
import { ExposedTime } from '../observe/status/exposed-time.ts';
import { pendingList } from '../observe/status/pending-list.ts';
import { StatusWriter } from '../observe/status/status-writer.ts';
import { StragglerWatch } from '../observe/stragglers/straggler-watch.ts';
import { RecordOrders } from '../observe/timeline/record-order.ts';
import { Timeline } from '../observe/timeline/timeline.ts';
import type { ContextParts } from './context-parts.ts';

/** Those that others ask as well, and the list of all. */
export interface ContextObservers {
  readonly recorder: FlightRecorder;
  readonly status: StatusWriter;
  readonly timeline: Timeline;
  readonly data: DataWatch;
  readonly stragglers: StragglerWatch;
  readonly all: readonly OperationObserver[];
}

export function createObservers(watched: ObservedRank, parts: ContextParts): ContextObservers {
  const { rank, size, host, transport, log, steps } = watched;
  const { limits } = parts;
  const recorder = new FlightRecorder(limits.flightRecords);
  const data = new DataWatch((fromMs, toMs) => timeline.dataWait(fromMs, toMs));
  const status = new StatusWriter({
    rank,
    size,
    place: parts.status,
    recorder,
    steps,
    nowMs,
    pending: () => pendingList(channelsOf(watched), nowMs(), rank),
    data: (atMs) => data.look(atMs),
  });
  const stragglers = new StragglerWatch(status, { rank, percent: limits.stragglerPercent ?? 0, log });
  const peers = new Peers(watched, status);
  const source = {
    watched,
    recorder,
    describePeer: (peer: number) => peers.describe(peer),
    describeStragglers: () => stragglers.describe(),
  };
  const dumper = new FlightDumper({
    place: parts.flight,
    log,
    snapshot: (reason, error) => snapshot(source, reason, error),
  });
  const stalls = new StallWatch(watched, { limits, dumper, peers });
  const timeline = new Timeline({
    rank,
    worker: parts.worker?.number,
    history: parts.worker?.timelines,
    size,
    host,
    pid: process.pid,
    transport,
    log,
    maxBytes: (limits.timelineMaxMb ?? 256) * 2 ** 20,
    operationsPerSecond: limits.timelineOperationsPerSecond,
    shmDirectory: limits.shmDirectory,
    block: parts.timelineBlock,
  });
  dumper.listen();
  const exposed = new ExposedTime(status);
  const orders = new RecordOrders({ rank, timeline, log, controlFd: parts.timelineBlock?.fd });
  const all = [recorder, status, dumper, stalls, stragglers, exposed, timeline, orders];
  return { recorder, status, timeline, data, stragglers, all };
}
