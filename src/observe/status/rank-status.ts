// The content of a status page, as JSON: where a rank runs, its progress, and what it waits for. Readers (other ranks,
// `horovod status`) check each field, because a page may come from another version or be damaged.

import type { CollectiveState } from '../flight-recorder/flight-recorder.ts';
import { maxMetrics } from './logged-metrics.ts';

export interface RankStatus {
  readonly rank: number;
  readonly host: string;
  readonly pid: number;
  /** Identifies the job. The same on all its hosts. */
  readonly job: string;
  /** Date.now() of its host. */
  readonly updatedAt: number;
  /** Training steps so far, and samples of the steps that reported a number. */
  readonly step: number;
  readonly samples: number;
  /** Collectives so far, and their bytes. */
  readonly collectives: number;
  readonly bytes: number;
  /** Over the last seconds before `updatedAt`. */
  readonly rates: StatusRates;
  readonly last?: LastCollective | undefined;
  /** The oldest, at most `pendingLimit`. */
  readonly pending: readonly PendingCollective[];
  readonly rssBytes: number;
  /** Processor time of all its threads so far. */
  readonly cpuMs?: number | undefined;
  /** Processors that it uses: 1.5 are one and a half. Over the last seconds before `updatedAt`. */
  readonly busyCores?: number | undefined;
  /** Date.now() of its host since when it uses no processor and is in no collective: it waits for a timer, input or a lock. */
  readonly idleSince?: number | undefined;
  /** Time waited for other ranks, of each of the last steps. */
  readonly waitMsPerStep?: number | undefined;
  /** Time of each of the last steps in which it did nothing but communicate. */
  readonly exposedMsPerStep?: number | undefined;
  /** What `step` will be when training has ended, where somebody knows. */
  readonly stepOf?: number | undefined;
  /** Of fit(): which epoch it is in, from 1, and how many there will be. */
  readonly epoch?: number | undefined;
  readonly epochs?: number | undefined;
  /** The last that it has written. */
  readonly checkpoint?: CheckpointNote | undefined;
  /** How long its training waits for data; undefined where no pipeline of horovod/data runs. */
  readonly data?: DataStatus | undefined;
  /** What it has given to logMetrics(): names and newest values. */
  readonly metrics?: readonly (readonly [name: string, value: number])[] | undefined;
  /** Whether it has shut down, so that this is its last page. */
  readonly hasLeft?: true | undefined;
}

export interface CheckpointNote {
  readonly path: string;
  /** Date.now() of its host when it was complete. */
  readonly at: number;
}

export interface StatusRates {
  readonly stepsPerSecond: number;
  readonly samplesPerSecond: number;
  readonly bytesPerSecond: number;
}

export interface DataStatus {
  /** Of the last seconds: time waited for data, of all time. From 0 to 1. */
  readonly share: number;
  /** For how long the share has been too large. */
  readonly starvedMs?: number | undefined;
  /** Which stage is to blame, and what to raise. */
  readonly advice?: string | undefined;
}

export interface LastCollective {
  readonly sequence: number;
  readonly kind: string;
  readonly name: string;
  readonly state: CollectiveState;
  readonly bytes: number;
  /** Date.now() of its host when it ended, or when it began if it is pending. 0 if unknown. */
  readonly atMs: number;
}

export interface PendingCollective {
  /** 'allreduce "dense_2/kernel"' */
  readonly label: string;
  readonly waitedMs: number;
  /** Ranks that have not called it. */
  readonly missing: readonly number[];
}

export const pendingLimit = 4;
const missingLimit = 32;
const textLimit = 120;
const adviceLimit = 400;

/** Uses at most `limitBytes`: long texts are shortened, then left out. */
export function encodeRankStatus(status: RankStatus, limitBytes: number): Buffer {
  const { last, data, checkpoint } = status;
  const compact = {
    ...status,
    metrics: status.metrics?.map(([name, value]) => [name, toJson(value)]),
    last: last === undefined ? undefined : { ...last, name: shorten(last.name) },
    data: data?.advice === undefined ? data : { ...data, advice: shorten(data.advice, adviceLimit) },
    checkpoint: checkpoint && { ...checkpoint, path: shorten(checkpoint.path) },
    pending: status.pending.slice(0, pendingLimit).map(({ label, waitedMs, missing }) => ({
      label: shorten(label),
      waitedMs: Math.round(waitedMs),
      missing: missing.slice(0, missingLimit),
    })),
  };
  const text = Buffer.from(JSON.stringify(compact));
  if (text.length <= limitBytes) return text;
  return Buffer.from(
    JSON.stringify({
      ...compact,
      host: shorten(compact.host),
      pending: [],
      last: undefined,
      data: undefined,
    }),
  );
}

/** Undefined if the text is not a status. */
export function decodeRankStatus(text: string): RankStatus | undefined {
  const value = parseObject(text);
  if (value === undefined) return undefined;
  const { rank, host, pid, job, updatedAt, step, samples, collectives, bytes, rssBytes } = value;
  const isWhole =
    isCount(rank) && isText(host) && isCount(pid) && isText(job) && isNumber(updatedAt) && isCount(step);
  if (!isWhole || !isNumber(samples) || !isCount(collectives) || !isNumber(bytes) || !isNumber(rssBytes)) {
    return undefined;
  }
  const { waitMsPerStep, exposedMsPerStep, cpuMs, busyCores, idleSince, stepOf, epoch, epochs } = value;
  const checkpoint = toCheckpoint(value['checkpoint']);
  const last = toLast(value['last']);
  const metrics = toMetrics(value['metrics']);
  const data = toData(value['data']);
  return {
    rank,
    host,
    pid,
    job,
    updatedAt,
    step,
    samples,
    collectives,
    bytes,
    rssBytes,
    rates: toRates(value['rates']),
    pending: toPending(value['pending']),
    ...(last === undefined ? {} : { last }),
    ...(isNumber(cpuMs) ? { cpuMs } : {}),
    ...(isNumber(busyCores) ? { busyCores } : {}),
    ...(isNumber(idleSince) ? { idleSince } : {}),
    ...(isNumber(waitMsPerStep) ? { waitMsPerStep } : {}),
    ...(isNumber(exposedMsPerStep) ? { exposedMsPerStep } : {}),
    ...(isCount(stepOf) ? { stepOf } : {}),
    ...(isCount(epoch) ? { epoch } : {}),
    ...(isCount(epochs) ? { epochs } : {}),
    ...(checkpoint === undefined ? {} : { checkpoint }),
    ...(data === undefined ? {} : { data }),
    ...(metrics.length > 0 ? { metrics } : {}),
    ...(value['hasLeft'] === true ? { hasLeft: true } : {}),
  };
}

/** JSON has no NaN. */
function toJson(value: number): number | string {
  return Number.isFinite(value) ? Number(value.toPrecision(7)) : String(value);
}

function toMetrics(value: unknown): (readonly [string, number])[] {
  if (!Array.isArray(value)) return [];
  return value.slice(0, maxMetrics).flatMap((entry: unknown) => {
    const [name, given] = Array.isArray(entry) ? (entry as unknown[]) : [];
    if (!isText(name)) return [];
    if (typeof given === 'number') return [[name, given]] as const;
    return given === 'NaN' || given === 'Infinity' || given === '-Infinity'
      ? ([[name, Number(given)]] as const)
      : [];
  });
}

function toRates(value: unknown): StatusRates {
  const { stepsPerSecond, samplesPerSecond, bytesPerSecond } = isObject(value) ? value : {};
  return {
    stepsPerSecond: isNumber(stepsPerSecond) ? stepsPerSecond : 0,
    samplesPerSecond: isNumber(samplesPerSecond) ? samplesPerSecond : 0,
    bytesPerSecond: isNumber(bytesPerSecond) ? bytesPerSecond : 0,
  };
}

function toLast(value: unknown): LastCollective | undefined {
  if (!isObject(value)) return undefined;
  const { sequence, kind, name, state, bytes, atMs } = value;
  if (!isCount(sequence) || !isText(kind) || !isText(name) || !isNumber(bytes) || !isNumber(atMs)) {
    return undefined;
  }
  if (state !== 'pending' && state !== 'running' && state !== 'done' && state !== 'failed') return undefined;
  return { sequence, kind, name, state, bytes, atMs };
}

function toCheckpoint(value: unknown): CheckpointNote | undefined {
  if (!isObject(value)) return undefined;
  const { path, at } = value;
  return isText(path) && isNumber(at) ? { path, at } : undefined;
}

function toData(value: unknown): DataStatus | undefined {
  if (!isObject(value)) return undefined;
  const { share, starvedMs, advice } = value;
  if (!isNumber(share) || share > 1) return undefined;
  return {
    share,
    ...(isNumber(starvedMs) ? { starvedMs } : {}),
    ...(isText(advice) ? { advice } : {}),
  };
}

function toPending(value: unknown): PendingCollective[] {
  if (!Array.isArray(value)) return [];
  return value.slice(0, pendingLimit).flatMap((entry: unknown) => {
    if (!isObject(entry)) return [];
    const { label, waitedMs, missing } = entry;
    if (!isText(label) || !isNumber(waitedMs) || !Array.isArray(missing)) return [];
    return [{ label, waitedMs, missing: missing.filter(isCount).slice(0, missingLimit) }];
  });
}

function shorten(text: string, limit = textLimit): string {
  return text.length <= limit ? text : `${text.slice(0, limit - 1)}…`;
}

function isText(value: unknown): value is string {
  return typeof value === 'string' && value.length <= 4096;
}

function isNumber(value: unknown): value is number {
  return typeof value === 'number' && Number.isFinite(value) && value >= 0;
}

function isCount(value: unknown): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function parseObject(text: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}
