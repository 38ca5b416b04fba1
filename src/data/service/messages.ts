// What the parts of the data service tell each other. A message comes from a process that knows the key, and still it is checked: a
// process of another version, or one with a bug, ends its own connection and nothing else. Events and messages of the ledger travel
// as they are, with the number of the job; whoever receives an event puts in whose it is.

import { ProtocolError } from '../../net/frames.ts';
import type { PlainError } from '../execute/thread-messages.ts';
import type { Json } from '../plan/function-reference.ts';
import type { ArenaPieces, ArenaPlace } from './batch-arena.ts';
import type { ValueLayout } from './batch-bytes.ts';
import type { JobPlan } from './job-plan.ts';
import type { Layout } from './layout.ts';
import type { BatchId, Cut, LedgerEvent, LedgerMessage } from './ledger-state.ts';
import { areRanges, type Ranges } from './ranges.ts';
import type { Uneven } from './rounds.ts';

/** A job as a consumer asks for it. Consumers of one job ask for the same. */
export interface JobRequest {
  /** Jobs of other names, or of other training runs, are other jobs. */
  readonly name: string;
  readonly run: string;
  readonly plan: JobPlan;
  readonly consumers: number;
  readonly uneven: Uneven;
  readonly isRoundRobin: boolean;
  /** parallel_epochs: each worker goes through the whole data. */
  readonly isParallel: boolean;
  /** Batches that a consumer holds and has not taken. */
  readonly depth: number;
  /** Of the state from which it goes on; null: to be chosen. */
  readonly layout: Layout | null;
}

/** A consumer's answer to a new connection: what of this job it has. Ids as ranges of ordinals by group. */
export interface WireReport {
  readonly era: number;
  readonly cut: Cut;
  readonly attempt: number;
  readonly epoch: number;
  readonly granted: readonly Ranges[];
  readonly taken: readonly Ranges[];
}

/** Where a worker is. */
export interface WorkerPlace {
  /** Counted by the dispatcher. */
  readonly worker: number;
  /** In the registry. */
  readonly number: number;
  readonly addresses: readonly string[];
  readonly token: string;
  readonly host: string;
  readonly pid: number;
}

type ToWorker = Extract<LedgerMessage, { worker: number }>;
/** What the ledger tells consumers. */
export type ToConsumer = Exclude<LedgerMessage, ToWorker>;

export type Message =
  | { readonly kind: 'beat' }
  // Worker and dispatcher
  | ({ readonly kind: 'worker-hello' } & Omit<WorkerPlace, 'worker'>)
  | { readonly kind: 'worker-welcome'; readonly worker: number; readonly incarnation: number }
  /** `workers`: how many there are to be; they decide how the data is divided, where `layout` is null. */
  | {
      readonly kind: 'prepare';
      readonly job: string;
      readonly plan: JobPlan;
      readonly layout: Layout | null;
      readonly isParallel: boolean;
      readonly workers: number;
    }
  | {
      readonly kind: 'prepared';
      readonly job: string;
      readonly layout: Layout;
      readonly lengths: readonly (number | null)[];
      /** Digests of the files. */
      readonly index: readonly string[];
    }
  | { readonly kind: 'order'; readonly job: string; readonly message: ToWorker }
  | { readonly kind: 'event'; readonly job: string; readonly event: LedgerEvent }
  | { readonly kind: 'forget'; readonly job: string }
  /** To the dispatcher, and from it to consumers. */
  | { readonly kind: 'failed'; readonly job: string; readonly error: PlainError }
  // Consumer and dispatcher
  | {
      readonly kind: 'open';
      readonly request: JobRequest;
      readonly consumer: number;
      readonly report: WireReport | null;
    }
  | {
      readonly kind: 'opened';
      readonly job: string;
      readonly incarnation: number;
      readonly layout: Layout;
      readonly lengths: readonly (number | null)[];
      readonly index: readonly string[];
      readonly era: number;
      readonly cut: Cut;
    }
  /** `lastLoss`: what was heard of the worker that was lost last. */
  | { readonly kind: 'workers'; readonly workers: readonly WorkerPlace[]; readonly lastLoss: string }
  | { readonly kind: 'answer'; readonly message: ToConsumer }
  | { readonly kind: 'leave' }
  /** How much of its time the loop waits, from 0 to 1; null: it does not run. */
  | { readonly kind: 'starved'; readonly share: number | null }
  // Consumer and worker
  /** `shares`: it would copy batches from the worker's memory. */
  | { readonly kind: 'receive'; readonly job: string; readonly consumer: number; readonly shares: boolean }
  | { readonly kind: 'arena'; readonly place: ArenaPlace }
  | { readonly kind: 'arena-opened'; readonly id: number; readonly isOpen: boolean }
  /** A batch that was shared may be written over. */
  | { readonly kind: 'copied'; readonly number: number }
  | {
      readonly kind: 'batch';
      readonly id: BatchId;
      readonly era: number;
      readonly round: number | null;
      /** Undefined: nothing is left of the batch, its records are damaged. */
      readonly value?: ValueLayout;
      /** Where its payload lies in the worker's arena; else it follows this message, if there is any. */
      readonly shared?: { readonly number: number; readonly pieces: ArenaPieces };
    };

type Kind = Message['kind'];
type Check = (value: unknown) => boolean;

const isText: Check = (value) => typeof value === 'string';
const isWhole: Check = (value) => Number.isSafeInteger(value) && (value as number) >= 0;
const isShare: Check = (value) => typeof value === 'number' && value >= 0 && value <= 1;
const isBoolean: Check = (value) => typeof value === 'boolean';
const isObject: Check = (value) => typeof value === 'object' && value !== null;
const orNull =
  (check: Check): Check =>
  (value) =>
    value === null || check(value);
const optional =
  (check: Check): Check =>
  (value) =>
    value === undefined || check(value);
const listOf =
  (check: Check): Check =>
  (value) =>
    Array.isArray(value) && value.every(check);
const shaped =
  (fields: Readonly<Record<string, Check>>): Check =>
  (value) =>
    isObject(value) &&
    Object.entries(fields).every(([name, check]) => check((value as Record<string, unknown>)[name]));

const isId = shaped({ epoch: isWhole, group: isWhole, ordinal: isWhole });
const isCut = shaped({ epoch: isWhole, done: listOf(areRanges) });
const isLayout = shaped({ lanes: isWhole, groups: isWhole, isByLane: isBoolean, copies: isWhole });
const isPiece: Check = (value) => Array.isArray(value) && value.length === 2 && value.every(isWhole);
const isError = shaped({ text: isText });
const place = { number: isWhole, addresses: listOf(isText), token: isText, host: isText, pid: isWhole };
const isPlan = shaped({ nodes: listOf(isObject), modules: isObject, project: isText, seed: isWhole });
const isRequest = shaped({
  name: isText,
  run: isText,
  plan: isPlan,
  consumers: (value) => isWhole(value) && value !== 0,
  uneven: (value) => ['pad', 'drop', 'keep', 'exact'].includes(value as string),
  isRoundRobin: isBoolean,
  isParallel: isBoolean,
  depth: (value) => isWhole(value) && value !== 0,
  layout: orNull(isLayout),
});
const isReport = shaped({
  era: isWhole,
  cut: isCut,
  attempt: isWhole,
  epoch: isWhole,
  granted: listOf(areRanges),
  taken: listOf(areRanges),
});

const events: Readonly<Record<string, Check>> = {
  room: shaped({ room: isWhole }),
  made: shaped({ lease: isWhole, id: isId }),
  'group-ended': shaped({ lease: isWhole, length: isWhole }),
  undelivered: shaped({ id: isId }),
  claim: shaped({ era: isWhole, id: isId }),
  taken: shaped({ era: isWhole, ids: listOf(isId) }),
  mark: shaped({ era: isWhole, number: isWhole }),
  restore: shaped({ attempt: isWhole, consumers: isWhole, cut: isCut }),
};

const isEvent: Check = (value) =>
  isObject(value) && events[(value as { kind: string }).kind]?.(value) === true;

const messages: Readonly<Record<Kind, Check>> = {
  beat: () => true,
  'worker-hello': shaped(place),
  'worker-welcome': shaped({ worker: isWhole, incarnation: isWhole }),
  prepare: shaped({
    job: isText,
    plan: isPlan,
    layout: orNull(isLayout),
    isParallel: isBoolean,
    workers: isWhole,
  }),
  prepared: shaped({
    job: isText,
    layout: isLayout,
    lengths: listOf(orNull(isWhole)),
    index: listOf(isText),
  }),
  order: shaped({ job: isText, message: isObject }),
  event: shaped({ job: isText, event: isEvent }),
  forget: shaped({ job: isText }),
  failed: shaped({ job: isText, error: isError }),
  open: shaped({ request: isRequest, consumer: isWhole, report: orNull(isReport) }),
  opened: shaped({
    job: isText,
    incarnation: isWhole,
    layout: isLayout,
    lengths: listOf(orNull(isWhole)),
    index: listOf(isText),
    era: isWhole,
    cut: isCut,
  }),
  workers: shaped({ workers: listOf(shaped({ worker: isWhole, ...place })), lastLoss: isText }),
  answer: shaped({ message: isObject }),
  leave: () => true,
  starved: shaped({ share: orNull(isShare) }),
  receive: shaped({ job: isText, consumer: isWhole, shares: isBoolean }),
  arena: shaped({
    place: shaped({ pid: isWhole, descriptor: isWhole, id: isWhole, proofAt: isWhole, proof: isText }),
  }),
  'arena-opened': shaped({ id: isWhole, isOpen: isBoolean }),
  copied: shaped({ number: isWhole }),
  batch: shaped({
    id: isId,
    era: isWhole,
    round: orNull(isWhole),
    value: optional(isObject),
    shared: optional(shaped({ number: isWhole, pieces: listOf(isPiece) })),
  }),
};

/** Throws a ProtocolError for anything else. */
export function messageFrom(content: Uint8Array): { bytes: number; message: Message } {
  let frame: Json;
  try {
    frame = JSON.parse(Buffer.from(content.buffer, content.byteOffset, content.byteLength).toString());
  } catch {
    throw new ProtocolError('a frame that is no JSON');
  }
  const [bytes, message] = Array.isArray(frame) ? (frame as unknown[]) : [];
  const kind = (Object(message) as { kind?: Kind }).kind;
  if (!isWhole(bytes) || kind === undefined || messages[kind]?.(message) !== true)
    throw new ProtocolError(`a message (${String(kind).slice(0, 40)}) that is not one of this version`);
  return { bytes: bytes as number, message: message as Message };
}

/** Ids of one epoch, from ranges by group. */
export function idsOf(epoch: number, groups: readonly Ranges[]): BatchId[] {
  return groups.flatMap((ranges, group) =>
    ranges.flatMap(([from, to]) =>
      Array.from({ length: to - from }, (_, at) => ({ epoch, group, ordinal: from + at })),
    ),
  );
}
