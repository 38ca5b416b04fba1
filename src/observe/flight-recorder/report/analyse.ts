// What went wrong first, from the dumps of all ranks: a pure function. The ranks' records are put side by side, process
// set by process set: unnamed collectives have the same number on all ranks, named ones the same name and occurrence. Where
// a ring has gone round, nobody is said to be absent from what came before the records it still has.

import { hasFreeFirstDimension, isOptional, type RequestKind } from '../../../engine/description.ts';
import type { DumpedRequest, FlightDump } from '../flight-dump.ts';
import type { CollectiveRecord } from '../flight-recorder.ts';

export interface Finding {
  /**
   * different: ranks asked for different things under one name. absent: some wait for what others never asked for.
   * lost: a rank died. failed: the ranks say so, and their records agree. none: nothing is wrong.
   */
  readonly kind: 'different' | 'absent' | 'lost' | 'failed' | 'none';
  readonly culprits: readonly number[];
  /** The collective in question. */
  readonly name?: string | undefined;
  readonly processSet?: number | undefined;
  /** What each rank has to do with it. */
  readonly sides: readonly Side[];
}

/** Ranks that did the same. */
export interface Side {
  readonly ranks: readonly number[];
  /** Undefined: never asked for it. */
  readonly record: CollectiveRecord | undefined;
  /** 'allreduce float32 [3] Sum' */
  readonly what: string | undefined;
}

interface Place {
  readonly name: string;
  readonly processSet: number;
  /** Of the first rank that came to it: earlier ones are smaller. */
  readonly order: number;
  readonly records: Map<number, CollectiveRecord>;
}

export function analyse(dumps: readonly FlightDump[]): Finding {
  const places = align(dumps);
  for (const place of places) {
    const sides = sidesOf(place, [...place.records.keys()]);
    // Ranks must agree on more than records hold (scales, compression): then the error is all that is known.
    const isMismatch = [...place.records.values()].some(({ error }) => error === 'ERR_HVD_MISMATCH');
    if (sides.length > 1 || isMismatch) {
      return { kind: 'different', ...describe(place, sides), culprits: minority(sides) };
    }
  }
  const lost = lostRank(dumps);
  if (lost !== undefined) return { kind: 'lost', culprits: [lost], sides: [] };
  const beginnings = beginningsOf(dumps, places);
  for (const place of places) {
    const records = [...place.records.values()];
    if (records.some(({ state }) => state === 'done')) continue; // all were there; a dump was written before
    const missing = missingFrom(place, dumps);
    const members = membersOf(dumps, place.processSet);
    // Of a ring that has gone round only those who wait can say whether it is absent; so of a rank without a dump.
    const absent = [...new Set([...members, ...missing])]
      .sort((a, b) => a - b)
      .filter(
        (rank) =>
          !place.records.has(rank) &&
          !isPending(place, dumps, rank) &&
          (missing.has(rank) || !mayBeGone(place, rank, beginnings)),
      );
    if (absent.length === 0) continue;
    const callers = [...place.records.keys()];
    const sides = sidesOf(place, [...callers, ...absent]);
    return { kind: 'absent', ...describe(place, sides), culprits: ofAbsence(place, callers, absent, dumps) };
  }
  const blamed = dumps.flatMap(({ error }) => (error?.rank === undefined ? [] : [error.rank]));
  const failed = dumps.find(({ error }) => error !== undefined);
  if (failed === undefined) return { kind: 'none', culprits: [], sides: [] };
  return { kind: 'failed', culprits: [...new Set(blamed)].slice(0, 1), sides: [] };
}

/** Collectives side by side, in the order in which ranks came to them. */
function align(dumps: readonly FlightDump[]): Place[] {
  const places = new Map<string, Place>();
  const identified = dumps.map((dump) => ({ dump, ids: identify(dump.records) }));
  const [reference] = identified;
  for (const { dump, ids } of identified) {
    const offset = reference === undefined ? 0 : offsetOf(ids, reference.ids);
    for (const [id, record] of ids) {
      const known = places.get(id);
      const records = known?.records ?? new Map<number, CollectiveRecord>();
      records.set(dump.rank, record);
      const order = Math.min(record.sequence - offset, known?.order ?? Number.POSITIVE_INFINITY);
      const { name, processSet } = known ?? record;
      places.set(id, { name, processSet, order, records });
    }
  }
  return [...places.values()].sort((a, b) => a.order - b.order);
}

/** What is the same thing on all ranks has the same id. */
function identify(records: readonly CollectiveRecord[]): Map<string, CollectiveRecord> {
  const found = new Map<string, CollectiveRecord>();
  const counts = new Map<string, number>();
  for (const record of records) {
    const { processSet, name, occurrence } = record;
    // Of unnamed ones the number counts: another rank may have asked for another kind of thing at that place.
    const id = `${processSet} ${/\.noname\.(\d+)$/.exec(name)?.[0] ?? name}`;
    const count = (counts.get(id) ?? 0) + 1;
    counts.set(id, count);
    found.set(`${id} ${occurrence > 0 ? occurrence : count}`, record);
  }
  return found;
}

/** By how much a rank's numbers are ahead: it may be in more process sets. Most of what both have says so. */
function offsetOf(
  ids: ReadonlyMap<string, CollectiveRecord>,
  reference: ReadonlyMap<string, CollectiveRecord>,
): number {
  const votes = new Map<number, number>();
  for (const [id, { sequence }] of ids) {
    const other = reference.get(id)?.sequence;
    if (other !== undefined) votes.set(sequence - other, (votes.get(sequence - other) ?? 0) + 1);
  }
  return [...votes].sort((a, b) => b[1] - a[1])[0]?.[0] ?? 0;
}

/** For each rank whose ring has gone round: where, in the records of each other one, the first is that it still has. */
function beginningsOf(
  dumps: readonly FlightDump[],
  places: readonly Place[],
): Map<number, Map<number, number>> {
  const beginnings = new Map<number, Map<number, number>>();
  for (const { rank, records } of dumps) {
    if ((records[0]?.sequence ?? 1) > 1) beginnings.set(rank, new Map());
  }
  for (const { records } of places) {
    for (const rank of records.keys()) {
      const firsts = beginnings.get(rank);
      if (firsts === undefined) continue;
      for (const [other, { sequence }] of records) {
        firsts.set(other, Math.min(sequence, firsts.get(other) ?? sequence));
      }
    }
  }
  return beginnings;
}

/** `member` may have asked for it so long ago that it has no record of it. */
function mayBeGone(
  { records }: Place,
  member: number,
  beginnings: ReadonlyMap<number, ReadonlyMap<number, number>>,
): boolean {
  const firsts = beginnings.get(member);
  if (firsts === undefined) return false;
  return [...records].every(([rank, { sequence }]) => {
    const first = firsts.get(rank);
    return first === undefined || sequence < first;
  });
}

/** A request that waits may have lost its record in the ring. */
function isPending(place: Place, dumps: readonly FlightDump[], rank: number): boolean {
  return requestsFor(place, dumps, [rank]).length > 0;
}

/** Ranks that had not called it, as far as those knew who have. */
function missingFrom(place: Place, dumps: readonly FlightDump[]): Set<number> {
  const requests = requestsFor(place, dumps, [...place.records.keys()]);
  return new Set(requests.flatMap(({ missing }) => missing ?? []));
}

/** What these ranks wait for at this place. */
function requestsFor(
  { name, processSet }: Place,
  dumps: readonly FlightDump[],
  ranks: readonly number[],
): readonly DumpedRequest[] {
  const pending = dumps.filter(({ rank }) => ranks.includes(rank)).flatMap((dump) => dump.pending);
  return pending.filter((request) => request.name === name && request.processSet === processSet);
}

/** Ranks with dumps that belong to the set. */
function membersOf(dumps: readonly FlightDump[], processSet: number): number[] {
  const ranks = dumps.flatMap(
    ({ processSets }) => processSets.find(({ id }) => id === processSet)?.ranks ?? [],
  );
  return dumps.map(({ rank }) => rank).filter((rank) => ranks.includes(rank));
}

function sidesOf({ records }: Place, ranks: readonly number[]): Side[] {
  const sides = new Map<string | undefined, { ranks: number[]; record: CollectiveRecord | undefined }>();
  for (const rank of ranks) {
    const record = records.get(rank);
    const what = record === undefined ? undefined : whatOf(record);
    const side = sides.get(what) ?? { ranks: [], record };
    side.ranks.push(rank);
    sides.set(what, side);
  }
  return [...sides].map(([what, { ranks: own, record }]) => ({ ranks: own, record, what }));
}

/** All that ranks must agree on, as text. */
export function whatOf({ kind, dtype, shapes, op, root }: CollectiveRecord): string {
  const isFree = hasFreeFirstDimension(kind as RequestKind);
  const shape = shapes.map((lengths) => `[${isFree ? ['…', ...lengths.slice(1)] : lengths}]`);
  const shown = shape.length > 3 ? [...shape.slice(0, 3), `and ${shape.length - 3} more`] : shape;
  const from = root === undefined ? undefined : `from rank ${root}`;
  return [kind, dtype, shown.join(' '), op, from]
    .filter((part) => part !== undefined && part !== '')
    .join(' ');
}

function describe(place: Place, sides: readonly Side[]): Pick<Finding, 'name' | 'processSet' | 'sides'> {
  return { name: place.name, processSet: place.processSet, sides };
}

/** Those who differ from most; nobody where no side is smaller. */
function minority(sides: readonly Side[]): number[] {
  const most = Math.max(...sides.map(({ ranks }) => ranks.length));
  const largest = sides.filter(({ ranks }) => ranks.length === most);
  if (largest.length > 1) return [];
  return sides.filter((side) => side !== largest[0]).flatMap(({ ranks }) => ranks);
}

/**
 * Who is to blame if `absent` did not call what `callers` wait for. Ranks that have passed by, and called something else that
 * the callers have not, show that they will not come: then the smaller side is to blame, and nobody if both are as large.
 */
function ofAbsence(
  { processSet, records }: Place,
  callers: readonly number[],
  absent: readonly number[],
  dumps: readonly FlightDump[],
): readonly number[] {
  const own = new Set(records.values());
  const calledBy = (rank: number) =>
    dumps
      .filter((dump) => dump.rank === rank)
      .flatMap((dump) => [...identify(dump.records)])
      .filter(
        ([, record]) =>
          record.processSet === processSet &&
          !own.has(record) &&
          !isOptional({ kind: record.kind as RequestKind }),
      );
  const known = new Set(callers.flatMap((rank) => calledBy(rank).map(([id]) => id)));
  const passed = absent.filter((rank) => calledBy(rank).some(([id]) => !known.has(id)));
  if (passed.length > callers.length) return callers;
  return passed.length === callers.length && passed.length === absent.length ? [] : absent;
}

/** A rank that others have lost, and that had no time to say so itself. */
function lostRank(dumps: readonly FlightDump[]): number | undefined {
  const { rank } =
    dumps.find(({ error }) => error?.code === 'ERR_HVD_PEER_LOST' && error.rank !== undefined)?.error ?? {};
  return rank;
}
