// What the registry of a data service and its clients say to each other: JSON texts in calls of the store. The *registry* knows
// who takes part: dispatchers and workers, where they listen, and how they are doing. A message with an unknown or missing field
// is no message. Lists come in pages, because a frame of the store is limited.

import { HorovodError } from '../../errors.ts';
import { parseAddress } from '../../net/addresses.ts';
import { type Fields, hasFields, isCount, isText, ProtocolError, parseObject } from '../../net/frames.ts';

export type DispatcherSide = 'compute' | 'training';

/** What a client needs to know of a service; its config has it. */
export interface ServicePlace {
  /** host:port candidates of the registry. */
  readonly addresses: readonly string[];
  /** 32 bytes in hex. */
  readonly key: string;
  /** Registries of one service are numbered from 1: a new one takes over when the old one is lost. */
  readonly incarnation: number;
  readonly dispatchers: number;
  readonly workersPerDispatcher: number;
  readonly dispatcherSide: DispatcherSide;
  /** For registrations and connections, in seconds. */
  readonly timeout: number;
}

export interface DispatcherEntry {
  readonly index: number;
  /** Dispatchers of one index are numbered from 1; the newest one counts. */
  readonly incarnation: number;
  /** host:port candidates. */
  readonly addresses: readonly string[];
  readonly side: DispatcherSide;
}

export interface WorkerEntry {
  /** Never used again. */
  readonly number: number;
  readonly dispatcher: number;
  /** host:port candidates. */
  readonly addresses: readonly string[];
  readonly host: string;
  readonly pid: number;
}

/** What a worker says of itself every second, for `horovod status`. */
export interface WorkerReport {
  readonly batchesPerSecond: number;
  readonly bytesPerSecond: number;
  readonly leases: number;
  /** How full its arena is, from 0 to 1. */
  readonly arena: number;
  /** 'map augment', and how much of the time it was busy, from 0 to 1. */
  readonly busiestStage?: { readonly name: string; readonly share: number } | undefined;
}

/** What a dispatcher says of its jobs every second. */
export interface DispatcherReport {
  readonly jobs: readonly JobReport[];
}

export interface JobReport {
  readonly name: string;
  readonly epoch: number;
  /** How much of the epoch was taken, from 0 to 1; undefined where its length is unknown. */
  readonly done?: number | undefined;
  /** Of each trainer: how much of its time it waits for data, from 0 to 1; null: unknown. */
  readonly starved: readonly (number | null)[];
}

export interface WorkerStatus extends WorkerEntry {
  /** Undefined: it has not said anything yet. */
  readonly report?: WorkerReport | undefined;
}

export interface DispatcherStatus extends DispatcherEntry {
  readonly host: string;
  readonly pid: number;
  /** Its process is connected to the registry. */
  readonly isAlive: boolean;
  readonly report?: DispatcherReport | undefined;
}

/** What `horovod status` shows of a data service. */
export interface ServiceStatus {
  /** Where the registry is. */
  readonly host: string;
  readonly pid: number;
  readonly startedAt: number;
  readonly expected: { readonly dispatchers: number; readonly workersPerDispatcher: number };
  readonly dispatcherSide: DispatcherSide;
  readonly isShutDown: boolean;
  readonly dispatchers: readonly DispatcherStatus[];
  readonly workers: readonly WorkerStatus[];
}

interface Origin {
  readonly host: string;
  readonly pid: number;
}

export type Call =
  /** `incarnation`: it had this one at the registry before. */
  | ({
      readonly call: 'register dispatcher';
      readonly index: number;
      readonly addresses: readonly string[];
      readonly incarnation?: number | undefined;
    } & Origin)
  /** `number`: it had this one at the registry before. */
  | ({
      readonly call: 'register worker';
      readonly dispatcher: number;
      readonly addresses: readonly string[];
      readonly number?: number | undefined;
    } & Origin)
  /** Waits for one that is newer than `after`. */
  | { readonly call: 'dispatcher'; readonly index: number; readonly after: number }
  /** Waits until all workers of a dispatcher have registered. */
  | { readonly call: 'all workers'; readonly dispatcher: number }
  | { readonly call: 'workers'; readonly dispatcher: number; readonly after: number }
  | { readonly call: 'remove worker'; readonly number: number }
  | {
      readonly call: 'report';
      readonly workers: readonly (readonly [number: number, report: WorkerReport])[];
      readonly dispatchers: readonly (readonly [index: number, report: DispatcherReport])[];
    }
  | { readonly call: 'shut down' }
  | { readonly call: 'wait for the end' }
  | { readonly call: 'status' }
  | { readonly call: 'status of dispatchers'; readonly after: number }
  | { readonly call: 'status of workers'; readonly after: number };

/** Part of a list; `next` is the `after` of the next part. */
export interface Page<T> {
  readonly entries: readonly T[];
  readonly next?: number | undefined;
}

/** All that the number of a list is greater than. */
export const beforeAll = -1;

const maxAddresses = 64;
const maxTextLength = 256;
/** Of the JSON of one report. */
export const maxReportLength = 8192;

const origin: Fields = { host: isShort, pid: isCount };
const optional = (value: unknown): boolean => value === undefined || isCount(value);
const isAfter = (value: unknown): boolean => value === beforeAll || isCount(value);

const calls: Readonly<Record<Call['call'], Fields>> = {
  // An index may be wrong; the registry says so.
  'register dispatcher': {
    ...origin,
    index: Number.isSafeInteger,
    addresses: areAddresses,
    incarnation: optional,
  },
  'register worker': {
    ...origin,
    dispatcher: Number.isSafeInteger,
    addresses: areAddresses,
    number: optional,
  },
  dispatcher: { index: Number.isSafeInteger, after: isCount },
  'all workers': { dispatcher: Number.isSafeInteger },
  workers: { dispatcher: Number.isSafeInteger, after: isAfter },
  'remove worker': { number: isCount },
  report: { workers: (value) => areReports(value), dispatchers: (value) => areReports(value) },
  'shut down': {},
  'wait for the end': {},
  status: {},
  'status of dispatchers': { after: isAfter },
  'status of workers': { after: isAfter },
};

/** Throws a ProtocolError for anything else. */
export function parseCall(body: string): Call {
  const message = parseObject(Buffer.from(body));
  const name = String(message['call']);
  const fields = Object.hasOwn(calls, name) ? calls[name as Call['call']] : undefined;
  if (fields === undefined || !hasFields(message, fields, ['call']))
    throw new ProtocolError('a call with unknown or missing fields');
  return message as unknown as Call;
}

/** Texts of Python Horovod. */
export function idOutOfRange(index: number, dispatchers: number): HorovodError {
  return new HorovodError(
    'ERR_HVD_INVALID_ARGUMENT',
    `Dispatcher id must be within [0..${dispatchers - 1}]: ${index}`,
  );
}

function areAddresses(value: unknown): boolean {
  return (
    Array.isArray(value) &&
    value.length > 0 &&
    value.length <= maxAddresses &&
    value.every((each) => isShort(each) && parseAddress(each as string) !== undefined)
  );
}

function isShort(value: unknown): boolean {
  return isText(value) && value.length <= maxTextLength;
}

/** Reports are shown and nothing else; what they say is checked where it is shown. */
function areReports(value: unknown): boolean {
  return (
    Array.isArray(value) &&
    value.every(
      (each) =>
        Array.isArray(each) &&
        each.length === 2 &&
        isCount(each[0]) &&
        typeof each[1] === 'object' &&
        each[1] !== null &&
        JSON.stringify(each[1]).length <= maxReportLength,
    )
  );
}
