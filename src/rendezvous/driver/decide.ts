// Who forms the next generation, once it is known who is left; or why there is none. Functions that change the state in place; the
// driver gives them a copy.

import { isBlocked } from './blacklist.ts';
import { hostToGiveUp } from './blame.ts';
import type { DriverState, Generation, Order, Worker } from './driver-state.ts';
import { usableHosts } from './host-table.ts';
import { type Candidate, type Plan, plan } from './plan.ts';
import { closeGeneration, enter, fail, finish } from './transitions.ts';
import { answer, leave, maxRanks, punishHost } from './workforce.ts';

/** How long others that are being started are waited for, so that they come in with the same reset. */
const togetherMs = 1000;
/** Generations in a row that may fail while they are formed, although nobody dies. */
const maxFailedFormings = 3;

export function decide(state: DriverState, orders: Order[]): void {
  const accused = state.phase === 'collecting' ? hostToGiveUp(state) : undefined;
  if (accused !== undefined) punishHost(state, accused, orders);
  const { limits, resets, clock, lastFormed } = state;
  if (limits.resetLimit !== undefined && resets > limits.resetLimit) {
    const text = `the job needs another reset, and --reset-limit ${limits.resetLimit} is reached.`;
    fail(state, 'ERR_HVD_RESET_LIMIT', text, orders);
    return;
  }
  if (state.failedFormings > maxFailedFormings) {
    const cause = [...state.workers.values()].find(({ report }) => report?.cause !== undefined)?.report
      ?.cause;
    const text = `the ranks could not form a new generation ${state.failedFormings} times in a row.`;
    fail(
      state,
      'ERR_HVD_PEER_LOST',
      cause === undefined ? text : `${text} The last error: ${cause.message}`,
      orders,
    );
    return;
  }
  if (failsBeforeItStarts(state, orders)) return;
  const next = planNext(state);
  if (next.kind === 'end') {
    const last = state.losses.at(-1);
    const how = last === undefined ? '' : ` The last, rank ${last.rank} on ${last.host}, ${last.how}.`;
    const text = `no rank of generation ${lastFormed?.number} is left, so its state is lost.${how}`;
    fail(state, 'ERR_HVD_PEER_LOST', text, orders);
  } else if (next.kind === 'wait') {
    wait(state, next.available, orders);
  } else if (
    lastFormed !== undefined ||
    next.workers.length === maxRanks(state) ||
    !isSomebodyComing(state, clock)
  ) {
    assign(state, next, orders);
  }
}

/** Nobody has ever been ready, and nobody will be; or those that were have ended, and so would others. */
function failsBeforeItStarts(state: DriverState, orders: Order[]): boolean {
  const { hosts, workers, hasBeenReady, firstFailure, nextWorker, clock, generation, lastFormed } = state;
  if (lastFormed === undefined && generation?.workers.every((number) => !workers.has(number))) {
    fail(state, 'ERR_HVD_PEER_LOST', 'all ranks have ended before the first step.', orders);
    return true;
  }
  if (workers.size > 0 || hosts.some(({ phase }) => phase === 'opening')) return false;
  if (!hasBeenReady && nextWorker > 0) {
    if (firstFailure === undefined) finish(state, orders);
    else fail(state, 'ERR_HVD_PEER_LOST', `no worker has come up: ${firstFailure}.`, orders);
    return true;
  }
  const listed = hosts.filter(({ slots }) => slots > 0);
  const areUnusable = listed.every(({ phase, penalty }) => phase === 'closed' && isBlocked(penalty, clock));
  if (listed.length === 0 || !areUnusable) return false;
  fail(state, 'ERR_HVD_HOST', 'no host is left that can be used.', orders);
  return true;
}

function wait(state: DriverState, available: number, orders: Order[]): void {
  const { limits, clock, lastFormed } = state;
  if (state.phase !== 'waiting') {
    enter(state, 'waiting');
    orders.push({ kind: 'too-few', available, min: limits.min });
  }
  state.tooFewSince ??= clock;
  const limitMs = lastFormed === undefined ? limits.readyTimeoutMs : limits.elasticTimeoutMs;
  if (clock - state.tooFewSince < limitMs) return;
  const needed = lastFormed === undefined ? `-np is ${limits.np}` : `--min-np is ${limits.min}`;
  const ranks = available === 1 ? 'rank was' : 'ranks were';
  const seconds = limitMs / 1000;
  const text = `only ${available} ${ranks} available for ${seconds} s (--elastic-timeout), and ${needed}.`;
  fail(state, 'ERR_HVD_TOO_FEW_RANKS', text, orders);
}

/** Whether a worker that is being started may still come in with those that wait already. */
export function isSomebodyComing(state: DriverState, now: number): boolean {
  const staying = [...state.workers.values()].filter(({ leavingSince }) => leavingSince === undefined);
  const isStarting = staying.some(({ hadBeenReady }) => !hadBeenReady);
  const first = Math.min(...staying.map(({ report }) => report?.at ?? Number.POSITIVE_INFINITY));
  return isStarting && now - first < togetherMs;
}

export function planNext(state: DriverState): Plan {
  const { limits, hosts, lastFormed } = state;
  const staying = [...state.workers.values()].filter(({ leavingSince }) => leavingSince === undefined);
  const candidates = staying.map((worker) => candidate(state, worker));
  const isDone = staying.some(({ report }) => report?.isDone === true);
  return plan({
    hosts: usableHosts(hosts),
    survivors: candidates.filter(({ rank }) => rank !== undefined),
    standbys: candidates.filter(({ rank, worker }) => {
      return rank === undefined && state.workers.get(worker)?.report !== undefined;
    }),
    min: lastFormed === undefined ? limits.np : isDone ? 1 : limits.min,
    max: maxRanks(state),
    needsSurvivor: lastFormed !== undefined,
  });
}

/** A survivor has formed the last formed generation, or a later one, as far as it knows. */
function candidate({ phase, generation, lastFormed }: DriverState, worker: Worker): Candidate {
  const { number, host, slot, report } = worker;
  const place = { worker: number, host, slot };
  if (phase === 'running') return { ...place, rank: rankIn(generation, number) };
  if (report === undefined || report.generation === 0) return place;
  return { ...place, rank: rankIn(lastFormed, number) ?? rankIn(generation, number) };
}

function rankIn(generation: Generation | undefined, worker: number): number | undefined {
  const rank = generation?.workers.indexOf(worker) ?? -1;
  return rank < 0 ? undefined : rank;
}

/** Those with the highest commit go back to it; who has an earlier one gets theirs. */
function repeatedSteps(state: DriverState, workers: readonly number[]): number {
  const reports = workers.flatMap((worker) => state.workers.get(worker)?.report ?? []);
  const highest = Math.max(...reports.map(({ commit }) => commit));
  return Math.max(
    0,
    ...reports.filter(({ commit }) => commit === highest).map(({ stepsSince = 0 }) => stepsSince),
  );
}

function assign(state: DriverState, { workers, removed }: Plan & { kind: 'seats' }, orders: Order[]): void {
  const { generation: before, lastFormed } = state;
  if (before !== undefined) closeGeneration(before, 'the next generation is being formed', orders);
  for (const number of removed) {
    const worker = state.workers.get(number);
    if (worker === undefined) continue;
    const rank = rankIn(lastFormed, number);
    const how = 'was given up, because its host has no slot for it any more';
    if (rank !== undefined)
      state.losses.push({ worker: number, rank, host: worker.host, how, isWanted: true });
    leave(state, worker, 'its host has no slot for it any more', orders);
  }
  const number = (before?.number ?? 0) + 1;
  const generation: Generation = {
    number,
    since: workers.map((worker, rank) => {
      if (lastFormed === undefined) return 1;
      return before?.workers[rank] === worker ? (before.since[rank] ?? number) : number;
    }),
    // One that was not formed has taken nobody further.
    repeatedSteps: Math.max(
      repeatedSteps(state, workers),
      before === undefined || before.number === lastFormed?.number
        ? 0
        : before.repeatedSteps + (before.wentBack ?? 0),
    ),
    workers,
    joined: workers.filter(
      (worker) => lastFormed === undefined || (state.workers.get(worker)?.report?.generation ?? 0) === 0,
    ),
    formed: [],
    isNoticed: false,
    isClosed: false,
  };
  const seat = {
    kind: 'seat',
    generation: generation.number,
    size: workers.length,
    workers,
    joined: generation.joined,
    lost: state.losses.map(({ rank, host, how }) => ({ rank, host, how })),
    previousSize: lastFormed?.workers.length ?? 0,
    since: generation.since,
  } as const;
  orders.push({ kind: 'form', generation: generation.number, workers });
  for (const [rank, number] of workers.entries()) {
    const worker = state.workers.get(number);
    if (worker !== undefined) answer(worker, { ...seat, rank }, orders);
  }
  state.generation = generation;
  state.tooFewSince = undefined;
  enter(state, 'forming');
}
