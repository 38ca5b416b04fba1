// The ledger of a job: a reducer from (state, event) to the next state and messages, without clock or socket. It grants each
// batch of an epoch to one consumer, whatever workers are lost, added, frozen or come back, and however often or late their
// messages come. An event that repeats another, or comes from a lease, an epoch or an era that is over, changes nothing.
// Words: ledger-state.ts.

import {
  type BatchId,
  type ConsumerReport,
  type Cut,
  keyOf,
  type LedgerEvent,
  type LedgerMessage,
  type LedgerOptions,
  type LedgerState,
  type Mark,
  type Restore,
} from './ledger-state.ts';
import {
  advance,
  assign,
  carriedOf,
  type Draft,
  draftOf,
  freshEpoch,
  grantable,
  lease,
  openEpoch,
} from './ledger-steps.ts';
import { contains, excluding, including } from './ranges.ts';

/** Eras that begin in different incarnations have different numbers, whatever the later one has heard of the earlier. */
const erasPerIncarnation = 2 ** 20;

/** A new job, or (with an incarnation above 1) one whose dispatcher was lost: that one waits for the reports of all consumers. */
export function openLedger(options: LedgerOptions, cut: Cut | null = null, incarnation = 1): LedgerState {
  const start = cut ?? { epoch: 0, done: options.lengths.map(() => []) };
  const awaited = new Set(
    incarnation > 1 ? Array.from({ length: options.consumers }, (_, consumer) => consumer) : [],
  );
  const nobody = { lastLease: 0, workers: new Map(), present: new Set<number>() };
  return freshEpoch({ options, incarnation, era: 1, attempt: 0, cut: start, ...nobody, awaited }, start);
}

export function reduce(
  state: LedgerState,
  event: LedgerEvent,
): readonly [LedgerState, readonly LedgerMessage[]] {
  const draft = draftOf(state);
  const messages: LedgerMessage[] = [];
  apply(draft, event, messages);
  if (state.awaited.size > 0 && draft.awaited.size === 0)
    for (const consumer of draft.consumers()) messages.push({ kind: 'opened', consumer });
  // Whatever has changed, somebody may have work now.
  if (draft.awaited.size === 0) {
    assign(draft, messages);
    lease(draft, messages);
    if (advance(draft, messages)) lease(draft, messages);
  }
  return [draft, messages];
}

function apply(draft: Draft, event: LedgerEvent, messages: LedgerMessage[]): void {
  switch (event.kind) {
    case 'room':
      draft.workers.set(event.worker, event.room);
      return;
    case 'worker-lost':
      loseWorker(draft, event.worker);
      return;
    case 'consumer':
      if (event.isHere) greet(draft, event.consumer, messages);
      else loseConsumer(draft, event.consumer);
      return;
    case 'made':
      made(draft, event, messages);
      return;
    case 'group-ended':
      endGroup(draft, event);
      return;
    case 'undelivered': {
      const ready = draft.ready.get(keyOf(event.id));
      if (ready?.worker === event.worker && event.id.epoch === draft.epoch)
        draft.ready.set(keyOf(event.id), { ...ready, consumer: null });
      return;
    }
    case 'claim':
      claim(draft, event, messages);
      return;
    case 'taken':
      if (event.era === draft.era && !draft.awaited.has(event.consumer))
        for (const id of event.ids) take(draft, event.consumer, id);
      return;
    case 'mark':
      mark(draft, event, messages);
      return;
    case 'restore':
      restore(draft, event, messages);
      return;
    case 'report':
      report(draft, event, messages);
      return;
    default:
      event satisfies never;
  }
}

function loseWorker(draft: Draft, worker: number): void {
  draft.workers.delete(worker);
  for (const [number, { worker: owner, group, next, to }] of draft.leases) {
    if (owner !== worker) continue;
    draft.leases.delete(number);
    for (let ordinal = next; ordinal < to; ordinal++) draft.giveBack(group, ordinal);
  }
  for (const [key, ready] of draft.ready) {
    if (ready.worker !== worker) continue;
    draft.ready.delete(key);
    draft.giveBack(ready.group, ready.ordinal);
  }
}

/** It may have missed that an epoch has ended. */
function greet(draft: Draft, consumer: number, messages: LedgerMessage[]): void {
  draft.present.add(consumer);
  const { era, epoch, ended } = draft;
  const last = ended.has(consumer) ? epoch : epoch - 1;
  if (last >= 0 && draft.awaited.size === 0)
    messages.push({ kind: 'epoch-ended', consumer, era, epoch: last });
}

/** What it was sent and has not claimed may go to others. */
function loseConsumer(draft: Draft, consumer: number): void {
  draft.present.delete(consumer);
  for (const [key, ready] of draft.ready)
    if (ready.consumer === consumer) draft.ready.set(key, { ...ready, consumer: null });
}

function made(draft: Draft, event: Extract<LedgerEvent, { kind: 'made' }>, messages: LedgerMessage[]): void {
  const { worker, id } = event;
  const current = draft.leases.get(event.lease);
  const key = keyOf(id);
  const isDue =
    current?.worker === worker &&
    id.epoch === draft.epoch &&
    id.group === current.group &&
    id.ordinal === current.next;
  if (!isDue) {
    const ready = draft.ready.get(key);
    const isKnown = ready?.lease === event.lease && ready.epoch === id.epoch;
    // It repeats itself: so may the order to send it.
    if (isKnown && ready.consumer !== null) messages.push(draft.sendMessage(ready, ready.consumer));
    // A later one of a lease that is still there comes again when those before it have come.
    const isEarly = current?.worker === worker && id.epoch === draft.epoch && id.ordinal > current.next;
    if (!isKnown && !isEarly) messages.push({ kind: 'release', worker, lease: event.lease, id });
    return;
  }
  if (current.next + 1 === current.to) draft.leases.delete(event.lease);
  else draft.leases.set(event.lease, { ...current, next: current.next + 1 });
  if (event.behind !== undefined) draft.setBehind(id.group, id.ordinal, event.behind);
  draft.ready.set(key, { ...id, worker, lease: event.lease, consumer: null });
}

function endGroup(draft: Draft, event: Extract<LedgerEvent, { kind: 'group-ended' }>): void {
  const current = draft.leases.get(event.lease);
  if (current?.worker !== event.worker) return;
  const group = draft.group(current.group);
  // The lease ends at a batch that has not come yet: the event comes again behind it.
  if (group.length !== null || event.length !== current.next) return;
  draft.leases.delete(event.lease);
  draft.setGroup(current.group, {
    length: event.length,
    next: Math.min(group.next, event.length),
    returned: group.returned.filter((ordinal) => ordinal < event.length),
  });
  openEpoch(draft);
}

function claim(
  draft: Draft,
  event: Extract<LedgerEvent, { kind: 'claim' }>,
  messages: LedgerMessage[],
): void {
  const { consumer, id } = event;
  // A new incarnation answers when it knows what the old one has granted; the consumer claims again.
  if (event.era === draft.era && draft.awaited.size > 0) return;
  const answer = (kind: 'granted' | 'denied') => messages.push({ kind, consumer, era: event.era, id });
  if (event.era !== draft.era || id.epoch !== draft.epoch || !draft.knows(id)) {
    answer('denied');
    return;
  }
  const group = draft.group(id.group);
  const holder = group.granted.get(id.ordinal);
  if (holder === consumer) {
    answer('granted');
    return;
  }
  const key = keyOf(id);
  const ready = draft.ready.get(key);
  const isGone = holder !== undefined || contains(group.taken, id.ordinal);
  if (isGone || !grantable(draft, consumer, id)) {
    // Another consumer may still get it.
    if (!isGone && ready?.consumer === consumer) draft.ready.set(key, { ...ready, consumer: null });
    answer('denied');
    return;
  }
  // It may have come from a worker that was given up, while another makes it again.
  if (ready !== undefined) messages.push({ kind: 'release', worker: ready.worker, lease: ready.lease, id });
  draft.ready.delete(key);
  draft.dropOrdinal(id, messages);
  draft.setGroup(id.group, { granted: new Map(draft.group(id.group).granted).set(id.ordinal, consumer) });
  draft.counts[consumer] = (draft.counts[consumer] ?? 0) + 1;
  answer('granted');
}

function take(draft: Draft, consumer: number, id: BatchId): void {
  if (id.epoch !== draft.epoch || draft.groups[id.group] === undefined) return;
  const { granted, taken } = draft.group(id.group);
  if (granted.get(id.ordinal) !== consumer) return;
  const rest = new Map(granted);
  rest.delete(id.ordinal);
  draft.setGroup(id.group, { granted: rest, taken: including(taken, id.ordinal) });
  const { mark } = draft;
  if (mark?.cut === null && mark.senders.has(consumer)) draft.mark = { ...mark, since: [...mark.since, id] };
}

function mark(draft: Draft, event: Extract<LedgerEvent, { kind: 'mark' }>, messages: LedgerMessage[]): void {
  const { consumer, number, era } = event;
  if (era !== draft.era || draft.awaited.size > 0) return;
  // An older one has been answered, or given up.
  if (draft.mark !== null && draft.mark.number > number) return;
  const current: Mark =
    draft.mark?.number === number ? draft.mark : { number, senders: new Set<number>(), since: [], cut: null };
  if (current.cut !== null) {
    messages.push({ kind: 'cut', consumer, era, number, cut: current.cut });
    return;
  }
  draft.mark = { ...current, senders: new Set([...current.senders, consumer]) };
  if (draft.mark.senders.size < draft.options.consumers) return;
  const done = draft.groups.slice(0, -1).map(({ taken }) => taken);
  for (const id of draft.mark.since) {
    if (id.epoch !== draft.epoch || id.group >= done.length) continue;
    done[id.group] = excluding(done[id.group] ?? [], id.ordinal);
  }
  const cut = { epoch: draft.epoch, done };
  draft.mark = { ...draft.mark, since: [], cut };
  for (const to of draft.consumers()) messages.push({ kind: 'cut', consumer: to, era, number, cut });
}

function restore(
  draft: Draft,
  event: Extract<LedgerEvent, { kind: 'restore' }>,
  messages: LedgerMessage[],
): void {
  const { consumer, consumers, cut, attempt } = event;
  const reject = (reason: string) => messages.push({ kind: 'rejected', consumer, era: draft.era, reason });
  if (attempt === draft.attempt && isSame(cut, draft.cut)) {
    // It has not heard that this era has begun, and so has nothing of it.
    draft.awaited.delete(consumer);
    messages.push({ kind: 'restored', consumer, era: draft.era, attempt, cut });
    return;
  }
  const groups = draft.options.lengths.length;
  const pending = draft.restore;
  if (attempt <= draft.attempt || (pending !== null && attempt < pending.attempt)) {
    reject('another restore() has come after it');
    return;
  }
  if (cut.done.length !== groups) {
    reject(`the state has ${cut.done.length} groups of batches, and this job has ${groups}`);
    return;
  }
  // A later attempt is one of other consumers: those of the earlier one will not all come.
  const current: Restore =
    pending?.attempt === attempt ? pending : { attempt, cut, consumers, senders: new Set<number>() };
  if (current.consumers !== consumers || !isSame(current.cut, cut)) {
    reject('the consumers restore different states');
    return;
  }
  const senders = new Set([...current.senders, consumer]);
  draft.restore = { ...current, senders };
  if (senders.size < consumers) return;
  for (const worker of draft.workers.keys()) messages.push({ kind: 'revoke', worker, lease: null });
  const options = { ...draft.options, consumers };
  const era = Math.max(draft.era, (draft.incarnation - 1) * erasPerIncarnation) + 1;
  draft.become(freshEpoch({ ...carriedOf(draft), options, era, attempt, cut, awaited: new Set() }, cut));
  for (const to of draft.consumers()) messages.push({ kind: 'restored', consumer: to, era, attempt, cut });
}

/** The first report decides the era; one of a later era makes those of the era before void, and their senders restore. */
function report(
  draft: Draft,
  event: ConsumerReport & { readonly consumer: number },
  messages: LedgerMessage[],
): void {
  const { consumer, era, cut, epoch, attempt } = event;
  if (!draft.awaited.has(consumer)) return;
  const reject = (to: number) =>
    messages.push({ kind: 'rejected', consumer: to, era: draft.era, reason: 'it is in an earlier era' });
  const isFirst = draft.awaited.size === draft.options.consumers;
  if (!isFirst && era < draft.era) {
    reject(consumer);
    return;
  }
  if (isFirst || era > draft.era) {
    const early = draft.consumers().filter((each) => !draft.awaited.has(each));
    const awaited = new Set(draft.consumers());
    const { restore: pending } = draft;
    draft.become(freshEpoch({ ...carriedOf(draft), era, attempt, cut, awaited }, cut));
    for (const to of early) reject(to);
    // Consumers that have not heard of the era that they asked for have nothing of it.
    if (pending?.attempt === attempt) {
      for (const to of pending.senders) {
        draft.awaited.delete(to);
        messages.push({ kind: 'restored', consumer: to, era, attempt, cut });
      }
    } else if (pending !== null && pending.attempt > attempt) draft.restore = pending;
  }
  // Nothing of an epoch is granted before all have ended the one before.
  if (epoch > draft.epoch)
    draft.become(freshEpoch(carriedOf(draft), { epoch, done: draft.options.lengths.map(() => []) }));
  draft.awaited.delete(consumer);
  if (epoch === draft.epoch) {
    for (const id of event.granted) draft.adopt(id, consumer);
    for (const id of event.taken) take(draft, consumer, id);
  }
}

function isSame(a: Cut, b: Cut): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}
