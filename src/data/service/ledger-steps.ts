// The steps that follow every event of the ledger: ready batches are assigned to consumers with room, workers with room get
// leases, and an epoch ends when every consumer has taken its share. A draft is a copy of the state that one event may change.

import {
  type BatchId,
  type Cut,
  type Group,
  keyOf,
  type Lease,
  type LedgerMessage,
  type LedgerState,
  type Ready,
} from './ledger-state.ts';
import { contains, countOf } from './ranges.ts';
import { type Deal, dealRounds, mayHaveMore, type Quota, quotaFor } from './rounds.ts';

type Carried = Pick<
  LedgerState,
  'options' | 'incarnation' | 'era' | 'attempt' | 'cut' | 'lastLease' | 'workers' | 'present' | 'awaited'
>;

/** What stays when an epoch begins. */
export function carriedOf(state: LedgerState): Carried {
  const { options, incarnation, era, attempt, cut, lastLease, workers, present, awaited } = state;
  return { options, incarnation, era, attempt, cut, lastLease, workers, present, awaited };
}

/** The state at a cut, with nothing leased, ready or granted. */
export function freshEpoch(carried: Carried, { epoch, done }: Cut): LedgerState {
  const { options } = carried;
  const blank = { next: 0, returned: [], owner: null, granted: new Map(), behind: new Map() };
  const groups = options.lengths.map(
    (length, group): Group => ({ ...blank, length, taken: done[group] ?? [] }),
  );
  const draft = draftOf({
    ...carried,
    epoch,
    groups: [...groups, { ...blank, length: null, taken: [] }],
    leases: new Map(),
    ready: new Map(),
    counts: Array.from({ length: options.consumers }, () => 0),
    ended: new Set(),
    quota: null,
    deal: null,
    mark: null,
    restore: null,
  });
  openEpoch(draft);
  return draft;
}

/** As soon as the lengths of all groups are known: who gets how many, and how many are made twice. */
export function openEpoch(draft: Draft): void {
  if (draft.quota !== null) return;
  const groups = draft.groups.slice(0, -1);
  const lengths = groups.map(({ length }) => length);
  if (!lengths.every((length) => length !== null)) return;
  const { consumers, uneven, isRoundRobin } = draft.options;
  // What this era had taken when it began counts neither as left nor as granted.
  const before = groups.map((_, group) =>
    draft.cut.epoch === draft.epoch ? (draft.cut.done[group] ?? []) : [],
  );
  const left = lengths.reduce((sum, length, group) => sum + length - countOf(before[group] ?? []), 0);
  draft.quota = quotaFor(left, consumers, uneven, Math.max(...draft.counts));
  draft.deal = isRoundRobin ? dealRounds(lengths, before, consumers, uneven) : null;
  draft.setGroup(groups.length, { length: draft.quota.repeats });
}

/** Whether a batch may become this consumer's: it has not had its share, and (round robin) the batch is dealt to it. */
export function grantable(draft: Draft, consumer: number, { group, ordinal }: BatchId): boolean {
  if (draft.quota !== null && !mayHaveMore(draft.quota, draft.counts, consumer)) return false;
  return draft.deal === null || draft.deal.placeOf(group, ordinal)?.consumer === consumer;
}

/** Tells workers where to send what they have made: to the consumer that has the most room. */
export function assign(draft: Draft, messages: LedgerMessage[]): void {
  const holding = draft.holding();
  const promised = [...draft.counts];
  for (const { consumer } of draft.ready.values())
    if (consumer !== null) promised[consumer] = (promised[consumer] ?? 0) + 1;
  for (const [key, ready] of draft.ready) {
    if (ready.consumer !== null) continue;
    const to = draft.deal === null ? leastBusy(draft, holding, promised) : dealtTo(draft, ready);
    if (to === undefined) continue;
    holding[to] = (holding[to] ?? 0) + 1;
    promised[to] = (promised[to] ?? 0) + 1;
    const assigned = { ...ready, consumer: to };
    draft.ready.set(key, assigned);
    messages.push(draft.sendMessage(assigned, to));
  }
}

function leastBusy(
  draft: Draft,
  holding: readonly number[],
  promised: readonly number[],
): number | undefined {
  const { consumers, depth } = draft.options;
  let best: number | undefined;
  for (let consumer = 0; consumer < consumers; consumer++) {
    const held = holding[consumer] ?? 0;
    if (!draft.present.has(consumer)) continue;
    if (held >= depth || (draft.quota !== null && !mayHaveMore(draft.quota, promised, consumer))) continue;
    if (best === undefined || held < (holding[best] ?? 0)) best = consumer;
  }
  return best;
}

function isAwaited(draft: Draft, group: number, ordinal: number): boolean {
  return dealtTo(draft, { epoch: draft.epoch, group, ordinal }) !== undefined;
}

/** Only the next rounds: later ones would fill a consumer's memory while it waits for an earlier one. */
function dealtTo(draft: Draft, { group, ordinal }: BatchId): number | undefined {
  const place = draft.deal?.placeOf(group, ordinal);
  if (place === undefined || !draft.present.has(place.consumer)) return undefined;
  return place.round < draft.takenBy(place.consumer) + draft.options.depth ? place.consumer : undefined;
}

/** Gives work to the workers with room. */
export function lease(draft: Draft, messages: LedgerMessage[]): void {
  for (const [worker, room] of draft.workers) {
    // Round robin: a worker whose room is full of later rounds makes one that consumers wait for all the same.
    const left = room - draft.burdenOf(worker);
    const isFull = left <= 0;
    const isStuck = isFull && draft.deal !== null && !draft.isWorking(worker);
    for (let free = isStuck ? 1 : left; free > 0; ) {
      const found = nextRun(draft, worker, free);
      if (found === undefined) break;
      const { group, from, to } = found;
      if (isFull && !isAwaited(draft, group, from)) break;
      free -= to - from;
      draft.lastLease += 1;
      draft.leases.set(draft.lastLease, { worker, group, next: from, to });
      const { next, returned, behind } = draft.group(group);
      draft.setGroup(group, {
        owner: worker,
        next: Math.max(next, to),
        returned: returned.filter((ordinal) => ordinal < from || ordinal >= to),
      });
      const start = behind.get(from - 1);
      const known = start === undefined ? {} : { start };
      messages.push({
        kind: 'lease',
        worker,
        lease: draft.lastLease,
        epoch: draft.epoch,
        group,
        from,
        to,
        ...known,
      });
    }
  }
}

/** The next batches that nobody makes: of the worker's own groups, then of groups without owner, then of the fullest other. */
function nextRun(
  draft: Draft,
  worker: number,
  room: number,
): { readonly group: number; readonly from: number; readonly to: number } | undefined {
  let best: { group: number; from: number; to: number; rank: number; left: number } | undefined;
  for (const [group, { owner, length, next, returned, taken }] of draft.groups.entries()) {
    const isRepeat = group === draft.groups.length - 1;
    if (isRepeat && length === null) continue;
    // Where the length is not known, batches are made one lease after another.
    if (length === null && draft.hasLease(group)) continue;
    let from = returned[0] ?? next;
    while (from >= next && contains(taken, from)) from++;
    const end = length ?? Number.POSITIVE_INFINITY;
    if (from >= end || !draft.isWanted(group, from)) continue;
    const isOneMore = (ordinal: number) =>
      ordinal < end &&
      (ordinal >= next ? !contains(taken, ordinal) : returned.includes(ordinal)) &&
      draft.isWanted(group, ordinal);
    let to = from + 1;
    while (to - from < Math.min(room, draft.options.leaseBatches) && isOneMore(to)) to++;
    const isOwn = owner === worker || owner === null || !draft.workers.has(owner);
    // Round robin: consumers wait for rounds in their order.
    const round = draft.deal?.placeOf(group, from)?.round ?? 0;
    const rank = draft.deal === null ? (owner === worker ? 0 : isOwn ? 1 : 2) : round;
    const left = end - from;
    if (best === undefined || rank < best.rank || (rank === best.rank && left > best.left))
      best = { group, from, to, rank, left };
  }
  return best;
}

/** Ends the epoch of consumers that get nothing more, and begins the next one when all have. True: it has begun. */
export function advance(draft: Draft, messages: LedgerMessage[]): boolean {
  const { quota, era, epoch } = draft;
  if (quota === null) return false;
  const holding = draft.holding(true);
  const isAllGranted = draft.groups.every(
    ({ length, granted, taken }) => granted.size + countOf(taken) >= (length ?? 0),
  );
  for (const consumer of draft.consumers()) {
    const batches = draft.counts[consumer] ?? 0;
    const isDone = batches >= quota.perConsumer || isAllGranted;
    if (draft.ended.has(consumer) || !isDone || (holding[consumer] ?? 0) > 0) continue;
    draft.ended.add(consumer);
    messages.push({ kind: 'epoch-ended', consumer, era, epoch });
  }
  if (draft.ended.size < draft.options.consumers) return false;
  // 'drop' leaves batches behind that were made, or are being made.
  for (const ready of draft.ready.values())
    messages.push({ kind: 'release', worker: ready.worker, lease: ready.lease, id: idOf(ready) });
  for (const [number, { worker }] of draft.leases) messages.push({ kind: 'revoke', worker, lease: number });
  const { mark, restore } = draft;
  draft.become(freshEpoch(carriedOf(draft), { epoch: epoch + 1, done: draft.options.lengths.map(() => []) }));
  draft.mark = mark;
  draft.restore = restore;
  return true;
}

export function draftOf(state: LedgerState): Draft {
  return new Draft(state);
}

export class Draft implements LedgerState {
  declare options: LedgerState['options'];
  declare incarnation: number;
  declare era: number;
  declare cut: Cut;
  declare epoch: number;
  declare groups: Group[];
  declare leases: Map<number, Lease>;
  declare lastLease: number;
  declare ready: Map<string, Ready>;
  declare workers: Map<number, number>;
  declare present: Set<number>;
  declare counts: number[];
  declare ended: Set<number>;
  declare quota: Quota | null;
  declare deal: Deal | null;
  declare awaited: Set<number>;
  declare mark: LedgerState['mark'];
  declare attempt: number;
  declare restore: LedgerState['restore'];

  constructor(state: LedgerState) {
    this.become(state);
  }

  become(state: LedgerState): void {
    this.options = state.options;
    this.incarnation = state.incarnation;
    this.era = state.era;
    this.cut = state.cut;
    this.epoch = state.epoch;
    this.groups = [...state.groups];
    this.leases = new Map(state.leases);
    this.lastLease = state.lastLease;
    this.ready = new Map(state.ready);
    this.workers = new Map(state.workers);
    this.present = new Set(state.present);
    this.counts = [...state.counts];
    this.ended = new Set(state.ended);
    this.quota = state.quota;
    this.deal = state.deal;
    this.awaited = new Set(state.awaited);
    this.mark = state.mark;
    this.attempt = state.attempt;
    this.restore = state.restore;
  }

  consumers(): number[] {
    return Array.from({ length: this.options.consumers }, (_, consumer) => consumer);
  }

  group(number: number): Group {
    const group = this.groups[number];
    if (group === undefined) throw new Error(`there is no group ${number}`);
    return group;
  }

  setGroup(number: number, change: Partial<Group>): void {
    this.groups[number] = { ...this.group(number), ...change };
  }

  /** Whether there is, or may be, such a batch. */
  knows({ group, ordinal }: BatchId): boolean {
    const found = this.groups[group];
    if (found === undefined || !Number.isSafeInteger(ordinal) || ordinal < 0) return false;
    return found.length === null ? group < this.groups.length - 1 : ordinal < found.length;
  }

  setBehind(group: number, ordinal: number, position: unknown): void {
    const { behind, next, returned } = this.group(group);
    const kept = new Map(behind).set(ordinal, position);
    // Of use where another worker may begin: behind the last one, and in front of those to be made again.
    const first = Math.min(next, returned[0] ?? next, ...this.#unsettled(group)) - 1;
    for (const each of kept.keys()) if (each < first) kept.delete(each);
    this.setGroup(group, { behind: kept });
  }

  *#unsettled(group: number): Generator<number> {
    for (const each of this.leases.values()) if (each.group === group) yield each.next;
    for (const each of this.ready.values()) if (each.group === group) yield each.ordinal;
  }

  giveBack(number: number, ordinal: number): void {
    const { returned, granted, taken, length } = this.group(number);
    const isSettled = granted.has(ordinal) || contains(taken, ordinal) || returned.includes(ordinal);
    if (isSettled || (length !== null && ordinal >= length)) return;
    this.setGroup(number, { returned: [...returned, ordinal].sort((a, b) => a - b) });
  }

  /** Granted although it was to be made again: nobody has to. */
  dropOrdinal({ group, ordinal }: BatchId, messages: LedgerMessage[]): void {
    const { returned, next } = this.group(group);
    this.setGroup(group, {
      returned: returned.filter((each) => each !== ordinal),
      next: Math.max(next, ordinal + 1),
    });
    for (let each = next; each < ordinal; each++) this.giveBack(group, each);
    for (const [number, { worker, next: due, to, group: its }] of this.leases) {
      if (its !== group || ordinal < due || ordinal >= to) continue;
      // What this lease still has to make besides is leased again.
      this.leases.delete(number);
      messages.push({ kind: 'revoke', worker, lease: number });
      for (let each = due; each < to; each++) if (each !== ordinal) this.giveBack(group, each);
    }
    this.ready.delete(keyOf({ group, ordinal }));
  }

  /** From the report of a consumer: the incarnation before has granted it this batch. */
  adopt(id: BatchId, consumer: number): void {
    // How many repeats there are may not be known yet.
    if (id.epoch !== this.epoch || !(this.knows(id) || id.group === this.groups.length - 1)) return;
    const { granted, taken } = this.group(id.group);
    if (granted.has(id.ordinal) || contains(taken, id.ordinal)) return;
    this.dropOrdinal(id, []);
    this.setGroup(id.group, { granted: new Map(granted).set(id.ordinal, consumer) });
    this.counts[consumer] = (this.counts[consumer] ?? 0) + 1;
  }

  hasLease(group: number): boolean {
    for (const each of this.leases.values()) if (each.group === group) return true;
    return false;
  }

  /** Round robin: the batch is in a round that consumers come to soon. Otherwise, as long as some may still be granted. */
  isWanted(group: number, ordinal: number): boolean {
    if (this.deal === null) return true;
    const place = this.deal.placeOf(group, ordinal);
    if (place === undefined) return false;
    const { depth, consumers, leaseBatches } = this.options;
    const ahead = depth + Math.max(1, Math.ceil((leaseBatches * this.workers.size) / consumers));
    return place.round < this.takenBy(place.consumer) + ahead;
  }

  isWorking(worker: number): boolean {
    for (const each of this.leases.values()) if (each.worker === worker) return true;
    return false;
  }

  /** Batches that the worker makes or holds. */
  burdenOf(worker: number): number {
    let burden = 0;
    for (const each of this.leases.values()) if (each.worker === worker) burden += each.to - each.next;
    for (const each of this.ready.values()) if (each.worker === worker) burden += 1;
    return burden;
  }

  /** Batches of each consumer that it has been granted (or will be sent) and has not taken. */
  holding(isGrantedOnly = false): number[] {
    const holding = this.consumers().map(() => 0);
    for (const { granted } of this.groups)
      for (const consumer of granted.values()) holding[consumer] = (holding[consumer] ?? 0) + 1;
    if (isGrantedOnly) return holding;
    for (const { consumer } of this.ready.values())
      if (consumer !== null) holding[consumer] = (holding[consumer] ?? 0) + 1;
    return holding;
  }

  takenBy(consumer: number): number {
    return (this.counts[consumer] ?? 0) - (this.holding(true)[consumer] ?? 0);
  }

  sendMessage(ready: Ready, consumer: number): LedgerMessage {
    const round = this.deal?.placeOf(ready.group, ready.ordinal)?.round ?? null;
    return {
      kind: 'send',
      worker: ready.worker,
      lease: ready.lease,
      id: idOf(ready),
      era: this.era,
      consumer,
      round,
    };
  }
}

function idOf({ epoch, group, ordinal }: BatchId): BatchId {
  return { epoch, group, ordinal };
}
