// Parts of requests that do not need a context: a joined rank's zeros, flight records, the clock.

import { hostname } from 'node:os';
import {
  type Description,
  fingerprintOf,
  isUnnamed,
  nameOf,
  type Request,
  type RequestNews,
} from '../engine/request.ts';
import type { StepClock } from '../engine/step-clock.ts';
import type { CallSites } from '../observe/flight-recorder/call-site.ts';
import type {
  FlightRecorder,
  MutableRecord,
  NameCounter,
} from '../observe/flight-recorder/flight-recorder.ts';
import type { WaitMeter } from '../observe/stragglers/straggler.ts';
import type { TimelinePlace } from '../observe/timeline/timeline.ts';
import { zeroOperations } from '../operations/collectives/allreduce.ts';
import type { Plan } from '../operations/plan.ts';
import { type DType, dtypes } from '../tensor/dtype.ts';
import { Average, Max, Min, Product, type ReduceOp, Sum } from '../tensor/reduce-op.ts';
import type { ContextParts } from './context-parts.ts';

/** Milliseconds of the host's monotonic clock, the same for all its processes. */
export function nowMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}

/** The request of a rank that has joined, for what the others ask: the same with zeros. */
export function zeroRequest(description: Description, size: number, timeoutMs: number): Request {
  const op = [Average, Sum, Min, Max, Product].find(({ name }) => name === description.op) as
    | ReduceOp
    | undefined;
  const codes = description.dtypes.map((dtype) => dtypes[dtype].code);
  const { low, high } = fingerprintOf(description, op?.code ?? -1, codes);
  return {
    description,
    low,
    high,
    operations: zeroOperations(description, size),
    timeoutMs,
    submittedAtMs: nowMs(),
    isSettled: false,
    resolve() {},
    reject() {},
  };
}

/** Everything but how it ends. */
export function fillRecord<R>(
  record: MutableRecord,
  plan: Plan<R>,
  description: Description,
  processSet: number,
): void {
  const [dtype] = description.dtypes as DType[];
  record.kind = plan.kind;
  record.name = nameOf(description);
  record.unnamed = 0;
  record.processSet = processSet;
  record.dtype = dtype;
  record.op = description.op;
  record.root = description.root;
  record.shapes = description.shapes;
  record.bytes = description.shapes.reduce(
    (sum, shape, i) =>
      sum +
      shape.reduce((product, length) => product * length, 1) * dtypes[description.dtypes[i] as DType].bytes,
    0,
  );
  record.submittedAtMs = nowMs();
  record.finishedAtMs = 0;
}

/** Counts a request that has a name. */
export function countName(
  recorder: FlightRecorder,
  processSet: number,
  { key }: Pick<Description, 'key'>,
): NameCounter | undefined {
  const counter = isUnnamed(key) ? undefined : recorder.counterOf(processSet, key);
  if (counter !== undefined) counter.count++;
  return counter;
}

/** The request's part of keeping its flight record: what becomes of it, and who called. */
export function keepRecord(
  record: MutableRecord,
  sites: CallSites,
  meter: WaitMeter,
  { key }: Description,
  counter: NameCounter | undefined,
): {
  finish(state: 'done' | 'failed', error?: string): void;
  note(news: RequestNews): void;
} {
  const { sequence } = record;
  // A quick operation comes here when it has waited for a while, and is looked at in any case.
  record.callSite = sites.of(isUnnamed(key) ? undefined : key, record.submittedAtMs);
  if (counter !== undefined) record.occurrence = counter.count;
  meter.enter(record.submittedAtMs);
  const finish = (state: 'done' | 'failed', error?: string): void => {
    const atMs = nowMs();
    meter.leave(atMs);
    if (record.sequence !== sequence) return; // the ring has gone round
    record.state = state;
    record.finishedAtMs = atMs;
    record.error = error;
  };
  return {
    finish,
    note(news) {
      if (news === 'refused') {
        if (counter !== undefined) counter.count--; // no other rank has counted it
        finish('failed', news);
      } else if (record.sequence !== sequence) return;
      else if (news === 'agreed') record.state = 'running';
      // What was there may be of another call of that name.
      else record.callSite = sites.look() ?? record.callSite;
    },
  };
}

/** What the timeline of a context knows of its rank. */
export function timelinePlace(parts: ContextParts, steps: StepClock): TimelinePlace {
  const { world, transport, limits, log, status, timelineBlock } = parts;
  return {
    rank: world.rank,
    size: world.size,
    host: status?.host ?? hostname(),
    pid: process.pid,
    transport: transport.name,
    log,
    steps,
    mostBytes: (limits.timelineMaxMb ?? 256) * 2 ** 20,
    operationsPerSecond: limits.timelineOperationsPerSecond,
    shmDirectory: limits.shmDirectory,
    block: timelineBlock,
  };
}
