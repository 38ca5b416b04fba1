// Contexts of several ranks in one process and on one event loop, over the in-memory transport. runRanks() wraps them in
// the public functions; our unit tests use them directly. Only promise forms can wait here: a blocking call would stop
// the event loop that the other ranks need.

import { createLog } from '../console/log.ts';
import { type ContextLimits, HorovodContext } from '../context/context.ts';
import { HorovodError } from '../errors.ts';
import { MemoryBoard } from '../observe/status/status-board.ts';
import { ProcessSet } from '../operations/process-set.ts';
import { MemoryHub } from '../transport/memory/memory-transport.ts';
import { makeExchange } from './exchange.ts';

export interface RunContextsOptions {
  /** Limits that differ from the default: deadlines, stall warnings, the fusion threshold … */
  readonly limits?: Partial<ContextLimits>;
  /** Sets known from the start, or 'dynamic'. */
  readonly processSets?: readonly (readonly number[])[] | 'dynamic';
  /** When to give up on a run that hangs. Default: 60 s. */
  readonly timeoutMs?: number;
}

/** What a rank has besides its context. */
export interface RankExtras {
  /** The sets of `processSets`, in that order; every rank gets its own objects. */
  readonly sets: readonly ProcessSet[];
  /** The set of all ranks. */
  readonly globalSet: ProcessSet;
  /** Lines this rank has logged so far. */
  readonly log: readonly string[];
}

export type ContextBody<R> = (context: HorovodContext, rank: number, extras: RankExtras) => Promise<R> | R;

/** A rank failed. `cause` is the first error; the message also shows what every rank was doing. */
export class RanksFailed extends Error {
  override readonly name = 'RanksFailed';
  readonly rank: number;

  constructor(rank: number, cause: unknown, transcript: string) {
    super(`rank ${rank} failed: ${describeError(cause)}\n${transcript}`, { cause });
    this.rank = rank;
  }
}

/** Runs `body` once per rank and resolves to what each returned, in rank order. Rejects with RanksFailed. */
export async function runContexts<R>(
  n: number,
  body: ContextBody<R>,
  options: RunContextsOptions = {},
): Promise<R[]> {
  const { timeoutMs = 60_000 } = options;
  const members = makeMembers(n, options);
  let fail: (failure: RanksFailed) => void = () => {};
  const failed = new Promise<never>((_, reject) => {
    fail = reject;
  });
  const runs = members.map(async (member, rank) => {
    try {
      const context = await member.open();
      member.state = 'running';
      const result = await body(context, rank, member.extras);
      member.state = 'returned';
      return result;
    } catch (error) {
      member.state = `failed: ${describeError(error)}`;
      fail(new RanksFailed(rank, error, transcriptOf(members)));
      throw error;
    }
  });
  const timer = setTimeout(() => {
    const rank = members.findIndex(({ state }) => state === 'starting' || state === 'running');
    fail(new RanksFailed(rank, new Error(`did not end within ${timeoutMs / 1000} s`), transcriptOf(members)));
  }, timeoutMs);
  try {
    return await Promise.race([Promise.all(runs), failed]);
  } catch (error) {
    // Several ranks may fail in one tick: `failed` has the first.
    throw error instanceof RanksFailed ? error : await failed;
  } finally {
    clearTimeout(timer);
    for (const { context } of members) context?.close();
    // Closing rejected whatever was still waiting; those rejections must not count as unhandled.
    void Promise.allSettled(runs);
  }
}

interface Member {
  readonly extras: RankExtras;
  state: string;
  context: HorovodContext | undefined;
  open(): Promise<HorovodContext>;
}

export const defaultLimits: ContextLimits = {
  operationTimeoutMs: 30_000,
  startTimeoutMs: 30_000,
  fusionThresholdBytes: 128 * 1024 * 1024,
  cycleTimeMs: 0,
  flightRecords: 64,
  overlap: 'auto',
  bucketBytes: 2 * 2 ** 20,
  stallCheck: false,
  stallWarningMs: 60_000,
  stallShutdownMs: 0,
};

function makeMembers(n: number, { limits = {}, processSets = [] }: RunContextsOptions): Member[] {
  const hub = new MemoryHub(n);
  const exchangeOf = makeExchange(n);
  const board = new MemoryBoard();
  const isDynamic = processSets === 'dynamic';
  return Array.from({ length: n }, (_, rank): Member => {
    const lines: string[] = [];
    const globalSet = new ProcessSet([]);
    const sets = isDynamic ? [] : processSets.map((ranks) => new ProcessSet(ranks));
    const host = { localRank: rank, localSize: n, crossRank: 0, crossSize: 1, isHomogeneous: true };
    const parts = {
      world: { rank, size: n, ...host },
      transport: hub.transport(rank),
      limits: { ...defaultLimits, ...limits },
      log: createLog({ logLevel: 'info', logTime: false }, rank, { sink: (line) => lines.push(line) }),
      hasDynamicProcessSets: isDynamic,
      processSet: globalSet,
      members: Array.from({ length: n }, (_, i) => i),
      exchange: exchangeOf(rank),
      status: { board, host: 'localhost', job: 'test' },
      failJob: (error: HorovodError) => hub.fail(error),
      leave() {},
      close() {},
    };
    const member: Member = {
      extras: { sets, globalSet, log: lines },
      state: 'starting',
      context: undefined,
      async open() {
        member.context = await HorovodContext.create(parts, { processSets: sets });
        return member.context;
      },
    };
    return member;
  });
}

function transcriptOf(members: readonly Member[]): string {
  return members
    .map(({ state, context, extras }, rank) => {
      const records = (context?.flightRecord() ?? []).slice(-8).map((record) => {
        const end = record.error === undefined ? record.state : `${record.state}, ${record.error}`;
        return `    ${record.kind} "${record.name}" of set ${record.processSet}: ${end}`;
      });
      return [`  rank ${rank}: ${state}`, ...records, ...extras.log.map((line) => `    ${line}`)].join('\n');
    })
    .join('\n');
}

function describeError(error: unknown): string {
  return HorovodError.is(error) || !(error instanceof Error) ? String(error) : (error.stack ?? String(error));
}
