// Which workers an elastic job has: starts them where there is room, opens and closes hosts, and sends away whom nobody
// needs. Functions that change the state in place; the driver gives them a copy.

import type { Assignment } from '../elastic-messages.ts';
import { noPenalty } from './blacklist.ts';
import type { DriverState, Order, Worker } from './driver-state.ts';
import { findHost, freeSlot, hostFailed, hostsToOpen, slotRecord, slotsOf } from './host-table.ts';

/** The most ranks that a generation may have. */
export function maxRanks({ limits, hosts }: DriverState): number {
  return limits.max ?? Math.max(limits.np, slotsOf(hosts) - limits.spares);
}

/** Opens hosts, starts workers and sends surplus ones away. */
export function staff(state: DriverState, orders: Order[]): void {
  if (state.phase === 'finishing' || state.phase === 'failing' || state.phase === 'over') return;
  for (const host of hostsToOpen(state.hosts, state.clock)) {
    host.phase = 'opening';
    orders.push({ kind: 'open-host', host: host.name });
  }
  const { generation } = state;
  for (const host of state.hosts) {
    const here = workersOn(state, host.name).filter(({ leavingSince }) => leavingSince === undefined);
    const surplus = here
      .filter(({ number }) => generation?.workers.includes(number) !== true)
      .sort((a, b) => b.number - a.number)
      .slice(0, Math.max(here.length - host.slots, 0));
    for (const worker of surplus) leave(state, worker, 'its host has no slot for it any more', orders);
    if (host.slots === 0 && host.phase === 'open' && workersOn(state, host.name).length === 0) {
      host.phase = 'closing';
      orders.push({ kind: 'close-host', host: host.name });
    }
  }
  if (
    ![...state.workers.values()].some(({ report }) => report?.isDone === true) &&
    !state.limits.isSelfStaffed
  )
    hire(state, orders);
}

/** A worker that nobody has started, in the lowest place of its host that is free. */
export function arrive(state: DriverState, name: string): void {
  const taken = workersOn(state, name).map(({ slot }) => slot);
  let slot = 0;
  while (taken.includes(slot)) slot++;
  const host = findHost(state.hosts, name);
  if (host === undefined)
    state.hosts.push({ name, slots: 1, phase: 'open', penalty: noPenalty, slotRecords: [] });
  else host.slots = Math.max(host.slots, slot + 1);
  const number = state.nextWorker++;
  state.workers.set(number, { number, host: name, slot, startedAt: state.clock, hadBeenReady: false });
}

function hire(state: DriverState, orders: Order[]): void {
  const wanted = maxRanks(state) + state.limits.spares;
  const staying = [...state.workers.values()].filter(({ leavingSince }) => leavingSince === undefined);
  const members = staying.filter(({ number }) => state.generation?.workers.includes(number)).length;
  // Of those that are on their way already.
  let rank = staying.length;
  const planned = Math.min(maxRanks(state), Math.max(slotsOf(state.hosts), state.limits.np));
  for (const host of state.hosts) {
    while (rank < wanted) {
      const slot = freeSlot(
        host,
        workersOn(state, host.name).map((worker) => worker.slot),
        state.clock,
      );
      if (slot === undefined) break;
      // Before anybody was ready, a failure is that of the command and not of the slot.
      if (!state.hasBeenReady && slotRecord(host, slot).penalty.failures > 0) break;
      const number = state.nextWorker++;
      const worker: Worker = { number, host: host.name, slot, startedAt: state.clock, hadBeenReady: false };
      state.workers.set(number, worker);
      const seat = Math.max(rank, members > 0 || state.lastFormed !== undefined ? 1 : 0);
      const size = Math.max(planned, seat + 1);
      orders.push({ kind: 'start', worker: number, host: host.name, slot, rank: seat, size });
      rank++;
    }
  }
}

function workersOn(state: DriverState, host: string): Worker[] {
  return [...state.workers.values()].filter((worker) => worker.host === host);
}

/** Tells a worker to leave: it is answered if it has asked, and stopped if it has not got that far. */
export function leave(state: DriverState, worker: Worker, why: string, orders: Order[]): void {
  worker.leavingSince ??= state.clock;
  if (worker.report !== undefined) answer(worker, { kind: 'removed', why }, orders);
  else signal(worker, 'SIGTERM', why, orders);
}

export function answer(worker: Worker, assignment: Assignment, orders: Order[]): void {
  if (worker.report === undefined) return;
  orders.push({ kind: 'answer', worker: worker.number, count: worker.report.count, assignment });
  worker.report = undefined;
}

export function signal(worker: Worker, name: NodeJS.Signals, why: string, orders: Order[]): void {
  if (worker.signalled === name || worker.signalled === 'SIGKILL') return;
  worker.signalled = name;
  orders.push({ kind: 'signal', worker: worker.number, signal: name, why });
}

export function kill(worker: Worker, why: string, orders: Order[]): void {
  signal(worker, 'SIGKILL', why, orders);
}

/** The host is left alone for a while. */
export function punishHost(state: DriverState, name: string, orders: Order[]): void {
  const host = findHost(state.hosts, name);
  if (host === undefined || host.phase === 'closed') return;
  hostFailed(host, { now: state.clock, range: state.limits.cooldown, random: nextRandom(state) });
  orders.push({ kind: 'close-host', host: name });
}

/** From 0 to 1 (mulberry32). */
export function nextRandom(state: DriverState): number {
  state.seed = (state.seed + 0x6d2b79f5) | 0;
  let bits = Math.imul(state.seed ^ (state.seed >>> 15), 1 | state.seed);
  bits = (bits + Math.imul(bits ^ (bits >>> 7), 61 | bits)) ^ bits;
  return ((bits ^ (bits >>> 14)) >>> 0) / 2 ** 32;
}
