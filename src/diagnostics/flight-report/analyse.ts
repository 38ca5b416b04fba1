// What went wrong first, from the dumps of all ranks: a pure function. The ranks' records are put side by side, process
// set by process set: unnamed collectives have the same number on all ranks, named ones are counted. Where a ring has gone
// round, the records before the first that all ranks still have are left out, so that counting starts at the same place.

import { hasFreeFirstDimension, type RequestKind } from '../../engine/request.ts';
import type { FlightDump } from '../flight-dump.ts';
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
    if (sides.length > 1) return { kind: 'different', ...describe(place, sides), culprits: minority(sides) };
  }
  const lost = lostRank(dumps);
  if (lost !== undefined) return { kind: 'lost', culprits: [lost], sides: [] };
  for (const place of places) {
    const records = [...place.records.values()];
    if (records.some(({ state }) => state === 'done')) continue; // all were there; a dump was written before
    const present = membersOf(dumps, place.processSet);
    const absent = present.filter((rank) => !place.records.has(rank));
    if (absent.length === 0) continue;
    const sides = sidesOf(place, present);
    return { kind: 'absent', ...describe(place, sides), culprits: absent };
  }
  const blamed = dumps.flatMap(({ error }) => (error?.rank === undefined ? [] : [error.rank]));
  const failed = dumps.find(({ error }) => error !== undefined);
  if (failed === undefined) return { kind: 'none', culprits: [], sides: [] };
  return { kind: 'failed', culprits: [...new Set(blamed)].slice(0, 1), sides: [] };
}

/** Collectives side by side, in the order in which ranks came to them. */
function align(dumps: readonly FlightDump[]): Place[] {
  const places = new Map<string, Place>();
  const starts = startsOf(dumps);
  for (const dump of dumps) {
    const counts = new Map<string, number>();
    const { start, offset } = starts.get(dump.rank) as { start: number; offset: number };
    for (const record of dump.records) {
      const { name, processSet, sequence } = record;
      if (sequence < start) continue;
      const id = `${processSet} ${name}`;
      const count = (counts.get(id) ?? 0) + 1;
      counts.set(id, count);
      const key = `${id} ${count}`;
      const order = sequence - offset;
      const known = places.get(key);
      const records = known?.records ?? new Map<number, CollectiveRecord>();
      records.set(dump.rank, record);
      places.set(key, { name, processSet, order: Math.min(order, known?.order ?? order), records });
    }
  }
  return [...places.values()].sort((a, b) => a.order - b.order);
}

/** Where each rank's records begin to count, and by how much its numbers are ahead of those of the first rank. */
function startsOf(dumps: readonly FlightDump[]): Map<number, { start: number; offset: number }> {
  const [reference] = dumps;
  const offsets = new Map(dumps.map((dump) => [dump.rank, offsetOf(dump, reference as FlightDump)]));
  const firsts = dumps.map((dump) => (dump.records[0]?.sequence ?? 1) - (offsets.get(dump.rank) as number));
  const common = Math.max(...firsts);
  return new Map(
    dumps.map(({ rank }) => {
      const offset = offsets.get(rank) as number;
      return [rank, { start: common + offset, offset }];
    }),
  );
}

/** Ranks that are in more process sets have counted more: by names that both have once, most of which agree. */
function offsetOf(dump: FlightDump, reference: FlightDump): number {
  if (dump === reference) return 0;
  const known = uniqueNames(reference);
  const votes = new Map<number, number>();
  for (const [id, sequence] of uniqueNames(dump)) {
    const other = known.get(id);
    if (other !== undefined) votes.set(sequence - other, (votes.get(sequence - other) ?? 0) + 1);
  }
  return [...votes].sort((a, b) => b[1] - a[1])[0]?.[0] ?? 0;
}

function uniqueNames({ records }: FlightDump): Map<string, number> {
  const found = new Map<string, number>();
  const twice = new Set<string>();
  for (const { processSet, name, sequence } of records) {
    const id = `${processSet} ${name}`;
    if (found.has(id)) twice.add(id);
    found.set(id, sequence);
  }
  for (const id of twice) found.delete(id);
  return found;
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
export function whatOf({ kind, dtype, shapes, op }: CollectiveRecord): string {
  const isFree = hasFreeFirstDimension(kind as RequestKind);
  const shape = shapes.map((lengths) => `[${isFree ? ['…', ...lengths.slice(1)] : lengths}]`);
  const shown = shape.length > 3 ? [...shape.slice(0, 3), `and ${shape.length - 3} more`] : shape;
  return [kind, dtype, shown.join(' '), op].filter((part) => part !== undefined && part !== '').join(' ');
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

/** A rank that others have lost, and that had no time to say so itself. */
function lostRank(dumps: readonly FlightDump[]): number | undefined {
  const { rank } =
    dumps.find(({ error }) => error?.code === 'ERR_HVD_PEER_LOST' && error.rank !== undefined)?.error ?? {};
  return rank;
}
