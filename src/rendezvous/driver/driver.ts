// The driver of an elastic job decides every membership: (state, event) → (state, orders), without a clock, process or
// socket. Workers only report (`ready`, `formed`) and obey. Survivors continue at once if they are at least `min`;
// replacements are started meanwhile and are taken in when they are ready.

import { forgivenAfterMs, noPenalty } from './blacklist.ts';
import type { DriverEvent, DriverState, Order, ReportedError, Worker } from './driver-state.ts';
import { findHost, listHosts, slotFailed, slotRecord } from './host-table.ts';
import { collect, settle } from './membership.ts';
import { closeGeneration, enter, isMember } from './transitions.ts';
import { answer, arrive, kill, leave, nextRandom, punishHost, signal, staff } from './workforce.ts';

/** Between two ticks: time beyond it does not count, because this process was stopped or the machine was suspended. */
const maxTickMs = 1000;
/** How long a worker that has to leave may take until SIGTERM, and then until SIGKILL. */
const leaveMs = 5000;

export function drive(state: DriverState, event: DriverEvent): { state: DriverState; orders: Order[] } {
  const next = structuredClone(state);
  const orders: Order[] = [];
  apply(next, event, orders);
  settle(next, orders);
  staff(next, orders);
  return { state: next, orders };
}

function apply(state: DriverState, event: DriverEvent, orders: Order[]): void {
  switch (event.kind) {
    case 'tick':
      tick(state, event.now, orders);
      return;
    case 'interrupted':
      if (state.phase !== 'over') enter(state, 'finishing');
      return;
    case 'hosts':
      listHosts(state.hosts, event.hosts);
      return;
    case 'host-open': {
      const host = findHost(state.hosts, event.host);
      if (host?.phase === 'opening') host.phase = 'open';
      return;
    }
    case 'host-failed':
      punishHost(state, event.host, orders);
      return;
    case 'host-closed': {
      const host = findHost(state.hosts, event.host);
      if (host?.phase === 'closing') host.phase = 'closed';
      return;
    }
    case 'arrived':
      arrive(state, event.host);
      return;
    case 'ready':
      onReady(state, event, orders);
      return;
    case 'formed':
      onFormed(state, event);
      return;
    case 'stopped': {
      const worker = state.workers.get(event.worker);
      if (worker !== undefined)
        worker.stoppedSince = event.isStopped ? (worker.stoppedSince ?? state.clock) : undefined;
      return;
    }
    case 'hanging': {
      const worker = state.workers.get(event.worker);
      // It may only be slow: a file that is read or written for long.
      const why = 'it used no processor for longer than --hang-timeout, while all other ranks waited for it';
      if (worker !== undefined) kill(worker, why, orders);
      return;
    }
    case 'ended':
      onEnded(state, event, orders);
      return;
    default:
      event satisfies never;
  }
}

function tick(state: DriverState, now: number, orders: Order[]): void {
  const passed = Math.max(now - (state.now ?? now), 0);
  state.now = now;
  state.clock += passed > maxTickMs ? 0 : passed;
  const { clock, limits } = state;
  for (const worker of state.workers.values()) {
    const { leavingSince, stoppedSince } = worker;
    if (leavingSince !== undefined) {
      if (clock - leavingSince >= 2 * leaveMs) kill(worker, 'it did not leave', orders);
      else if (clock - leavingSince >= leaveMs) signal(worker, 'SIGTERM', 'it did not leave', orders);
    } else if (!worker.hadBeenReady && clock - worker.startedAt >= limits.readyTimeoutMs) {
      kill(worker, `it was not ready after ${limits.readyTimeoutMs / 1000} s (--elastic-timeout)`, orders);
    }
    const isStopped = limits.stoppedTimeoutMs > 0 && stoppedSince !== undefined;
    if (isStopped && clock - stoppedSince >= limits.stoppedTimeoutMs && isWaitedFor(state, worker))
      kill(worker, 'it was stopped, and other ranks wait for it', orders);
  }
}

/** Whether others cannot continue without it. */
function isWaitedFor(state: DriverState, worker: Worker): boolean {
  if (!isMember(state, worker.number) || worker.report !== undefined) return false;
  return state.phase !== 'running' || (state.generation?.workers.length ?? 0) > 1;
}

function onReady(state: DriverState, event: DriverEvent & { kind: 'ready' }, orders: Order[]): void {
  const worker = state.workers.get(event.worker);
  if (worker === undefined) return;
  const { count, ready } = event;
  worker.report = { ...ready, count, at: state.clock };
  worker.hadBeenReady = true;
  state.hasBeenReady = true;
  const host = findHost(state.hosts, worker.host);
  if (host !== undefined) slotRecord(host, worker.slot).failedStarts = 0;
  const formed = state.lastFormed?.number ?? 0;
  if (state.failure !== undefined) {
    answer(worker, { kind: 'failed', ...state.failure }, orders);
  } else if (worker.leavingSince !== undefined) {
    leave(state, worker, 'it is not needed any more', orders);
  } else if (ready.generation > 0 && ready.generation < formed) {
    leave(state, worker, `the others have formed generation ${formed} without it`, orders);
  } else if (isMember(state, worker.number) && ready.isDone !== true) {
    if (state.phase === 'running') state.resetCause = reportedError(state, event);
    if (state.phase === 'running' || state.phase === 'forming') collect(state, orders, ready.cause?.message);
  }
}

/** Undefined: it has left because ranks are to come or to go. */
function reportedError(
  { generation }: DriverState,
  { worker, ready: { cause, host } }: DriverEvent & { kind: 'ready' },
): ReportedError | undefined {
  if (cause === undefined || cause.code === 'ERR_HVD_HOSTS_UPDATED') return undefined;
  return { rank: generation?.workers.indexOf(worker) ?? -1, host, message: cause.message };
}

function onFormed(state: DriverState, event: DriverEvent & { kind: 'formed' }): void {
  const { generation, worker, wentBack = 0 } = event;
  const current = state.generation;
  if (current?.number !== generation || current.formed.includes(worker)) return;
  current.formed.push(worker);
  current.wentBack = Math.max(current.wentBack ?? 0, wentBack);
}

function onEnded(state: DriverState, event: DriverEvent & { kind: 'ended' }, orders: Order[]): void {
  const worker = state.workers.get(event.worker);
  if (worker === undefined) return;
  state.workers.delete(worker.number);
  const { how, exitCode, isLost } = event;
  const isWanted = worker.leavingSince !== undefined;
  const isOver = state.phase === 'finishing' || state.phase === 'failing' || state.phase === 'over';
  if (!isOver && !isWanted && !isLost) punishSlot(state, orders, worker);
  if (!state.hasBeenReady && exitCode !== 0)
    state.firstFailure ??= `worker ${worker.number} on ${worker.host} ${how}`;
  // One that has said that it is done has nothing left to lose.
  if (isOver || !isMember(state, worker.number) || worker.report?.isDone === true) return;
  const rank = state.lastFormed?.workers.indexOf(worker.number) ?? -1;
  if (rank >= 0) state.losses.push({ worker: worker.number, rank, host: worker.host, how, isWanted });
  state.failedFormings = 0;
  collect(state, orders, `worker ${worker.number} on ${worker.host} ${how}`);
  if (state.generation !== undefined) closeGeneration(state.generation, how, orders);
}

function punishSlot(
  state: DriverState,
  orders: Order[],
  { host: name, slot, memberSince, hadBeenReady }: Worker,
): void {
  const host = findHost(state.hosts, name);
  if (host === undefined) return;
  const record = slotRecord(host, slot);
  if (state.clock - (memberSince ?? state.clock) >= forgivenAfterMs) record.penalty = noPenalty;
  const failure = { now: state.clock, range: state.limits.cooldown, random: nextRandom(state) };
  if (slotFailed(host, slot, hadBeenReady, failure)) punishHost(state, name, orders);
}
