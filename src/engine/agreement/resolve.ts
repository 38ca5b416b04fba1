// What to do when fingerprints differ: a pure function from all ranks' pending lists to the same decision on
// every rank. What all of them have runs now, in one order; the same name with something else in it becomes an
// error; the rest waits. A rank that has joined takes part in allreduces with zeros. What is optional (autotune, checks) and not
// asked for by all at this moment is given up: nobody ever waits for it.

import { listRanks } from '../../console/list-ranks.ts';
import type { ErrorCode } from '../../errors.ts';
import {
  canJoin,
  compareText,
  compositeMark,
  type Description,
  isOptional,
  labelOf,
} from '../description.ts';
import { findMismatch } from './mismatch.ts';
import type { PendingList } from './pending-list.ts';
import { isProven, unevenText } from './uneven.ts';

export interface Resolution {
  /** What runs now, in this order, on every rank. */
  readonly run: readonly Description[];
  /** What ends in an error, by key. */
  readonly errors: ReadonlyMap<string, { code: ErrorCode; message: string; rank?: number }>;
  /** Keys of optional requests that not all ranks have; they are in `errors`, too. */
  readonly givenUp: readonly string[];
  /** Every rank has joined; this one came last. */
  readonly lastJoined: number | undefined;
  /** Nothing can ever run: everybody is blocked. */
  readonly deadlock: string | undefined;
  /** Ranks are at different points of their training, and that is why not all ask for the same. */
  readonly uneven: Uneven | undefined;
}

export interface Uneven {
  readonly text: string;
  /** They will not come together again. */
  readonly isProven: boolean;
}

/** `lists[i]` is of the group's member i, whose global rank is `ranks[i]`. */
export function resolvePending(lists: readonly PendingList[], ranks: readonly number[]): Resolution {
  const ranksWith = lists.map(({ requests }, i) => ({
    rank: ranks[i] as number,
    join: requests.find((entry) => entry.kind === 'join'),
    entries: new Map(requests.map((entry) => [entry.key, entry])),
  }));
  const active = ranksWith.filter(({ join }) => join === undefined);
  const joined = ranksWith.filter(({ join }) => join !== undefined);
  const errors = new Map<string, { code: ErrorCode; message: string; rank?: number }>();
  const run: Description[] = [];
  const givenUp = optionalKeys(lists).filter((key) => ranksWith.some(({ entries }) => !entries.has(key)));
  for (const key of givenUp) {
    errors.set(key, { code: 'ERR_HVD_ABORTED', message: `${key}: not all ranks are at this point.` });
  }

  // A rank may have joined with something of its own still pending: then it takes part with its own values.
  const keys = new Set(
    (active[0] === undefined ? joined : [active[0]]).flatMap(({ entries }) => [...entries.keys()]),
  );
  for (const key of [...keys].sort(compareText)) {
    if (givenUp.includes(key)) continue;
    if (active.some(({ entries }) => !entries.has(key))) continue;
    const claims = ranksWith.flatMap(({ rank, entries }) => {
      const description = entries.get(key);
      return description === undefined ? [] : [{ rank, description }];
    });
    const first = claims[0]?.description;
    if (first === undefined || first.kind === 'join') continue;
    const away = joined.filter(({ entries }) => !entries.has(key)).map(({ rank }) => rank);
    const mismatch = findMismatch(claims);
    if (mismatch !== undefined) {
      errors.set(key, { code: 'ERR_HVD_MISMATCH', message: `${mismatch} It must be the same on all ranks.` });
    } else if (away[0] !== undefined && !canJoin(first)) {
      errors.set(key, {
        code: 'ERR_HVD_JOIN_UNSUPPORTED',
        message:
          `${labelOf(first)}: ${whatOf(first)} is not supported while a rank has joined, ` +
          `and ${listRanks(away)} joined. Only allreduce and barrier are.`,
        rank: away[0],
      });
    } else {
      run.push(first);
    }
  }
  const uneven = joined.length === 0 ? unevenOf(lists, ranks) : undefined;
  if (active.length === 0) {
    return { run, errors, givenUp, lastJoined: lastToJoin(lists, ranks), deadlock: undefined, uneven };
  }
  const isStuck = run.length === 0 && errors.size === 0 && lists.every((list) => list.isBlocked);
  const deadlock = isStuck ? deadlockText(lists, ranks, uneven) : undefined;
  return { run, errors, givenUp, lastJoined: undefined, deadlock, uneven };
}

function unevenOf(lists: readonly PendingList[], ranks: readonly number[]): Uneven | undefined {
  const positions = lists.map(({ training }) => training);
  const text = unevenText(positions, ranks);
  return text === undefined ? undefined : { text, isProven: isProven(positions) };
}

function optionalKeys(lists: readonly PendingList[]): string[] {
  const keys = lists.flatMap(({ requests }) =>
    requests.flatMap((entry) => (isOptional(entry) ? [entry.key] : [])),
  );
  return [...new Set(keys)].sort(compareText);
}

/** Who has taken part in most operations; ties go to the higher rank. No clock: those of different machines differ. */
function lastToJoin(lists: readonly PendingList[], ranks: readonly number[]): number | undefined {
  let last: { operations: number; rank: number } | undefined;
  lists.forEach(({ operations }, i) => {
    const rank = ranks[i] as number;
    const isLater =
      last === undefined ||
      operations > last.operations ||
      (operations === last.operations && rank > last.rank);
    if (isLater) last = { operations, rank };
  });
  return last?.rank;
}

function deadlockText(
  lists: readonly PendingList[],
  ranks: readonly number[],
  uneven: Uneven | undefined,
): string {
  const waits = lists.map((list, i) => `rank ${ranks[i]} waits for ${list.requests.map(labelOf).join(', ')}`);
  const stuck = `all ranks are blocked and wait for different things: ${waits.join('; ')}.`;
  if (uneven !== undefined) return `${stuck} ${uneven.text}`;
  return (
    `${stuck} The usual cause is that ranks take different branches, or call the same operations in a different order. ` +
    'Give the operations names, or use the promise forms where the order may differ.'
  );
}

/** `allgather`, or `allreduce with Adasum`. */
function whatOf({ kind, op, detail }: Description): string {
  if (kind !== 'allreduce') return kind;
  const compressor = detail.slice(compositeMark.length);
  return `${kind} with ${compressor === '' ? op : `compression ${compressor}`}`;
}
