// The way from one generation to the next: collects who is left, plans, assigns, and waits until all have formed it.
// Functions that change the state in place; the driver gives them a copy.

import { blamedMembers } from './blame.ts';
import { decide, isSomebodyComing, planNext } from './decide.ts';
import type { DriverState, Generation, Order, Phase } from './driver-state.ts';
import { closeGeneration, enter, finish } from './transitions.ts';
import { kill } from './workforce.ts';

/** How long a member that others blame may take to report or to end by itself. */
const blamedMs = 5000;

/** Does what the state calls for, whatever the event was. */
export function settle(state: DriverState, orders: Order[]): void {
  // A step may call for the next one.
  for (let before: Phase | undefined; before !== state.phase; ) {
    before = state.phase;
    step(state, orders);
  }
}

function step(state: DriverState, orders: Order[]): void {
  switch (state.phase) {
    case 'forming':
      awaitFormed(state, orders);
      return;
    case 'running':
      if (areAllDone(state)) finish(state, orders);
      else notice(state, orders);
      return;
    case 'collecting':
      awaitReports(state, orders);
      return;
    case 'waiting':
      decide(state, orders);
      return;
    case 'finishing':
    case 'failing':
      if (state.workers.size > 0) return;
      enter(state, 'over');
      orders.push({ kind: 'over' });
      return;
    case 'over':
      return;
    default:
      state.phase satisfies never;
  }
}

/** A member was lost or has left: the generation is over. */
export function collect(state: DriverState, orders: Order[], why = 'a member has left it'): void {
  if (state.phase === 'running') {
    state.resets++;
    state.resetSince = state.clock;
  }
  if (state.phase === 'forming') {
    state.failedFormings++;
    state.resetSince ??= state.clock;
    if (state.generation !== undefined) closeGeneration(state.generation, why, orders);
  }
  if (state.phase !== 'collecting') enter(state, 'collecting');
}

function awaitFormed(state: DriverState, orders: Order[]): void {
  const generation = state.generation as Generation;
  const missing = generation.workers.filter((worker) => !generation.formed.includes(worker));
  if (missing.length > 0) {
    if (state.clock - state.since < state.limits.collectTimeoutMs) return;
    for (const worker of missing) killNumber(state, worker, 'it did not form the new generation', orders);
    return;
  }
  enter(state, 'running');
  generation.formedAt = state.clock;
  for (const number of generation.workers) {
    const worker = state.workers.get(number);
    if (worker !== undefined) worker.memberSince ??= state.clock;
  }
  const { lastFormed, losses, resetSince = state.clock } = state;
  if (lastFormed !== undefined) {
    orders.push({
      kind: 'reset',
      generation: generation.number,
      size: generation.workers.length,
      previousSize: lastFormed.workers.length,
      lost: losses,
      joined: generation.joined.map((worker) => ({
        rank: generation.workers.indexOf(worker),
        host: state.workers.get(worker)?.host ?? '?',
      })),
      ...(losses.length === 0 && state.resetCause !== undefined ? { cause: state.resetCause } : {}),
      repeatedSteps: generation.repeatedSteps + (generation.wentBack ?? 0),
      tookMs: state.clock - resetSince,
    });
  }
  state.lastFormed = generation;
  state.losses = [];
  state.failedFormings = 0;
  state.resetSince = undefined;
  state.resetCause = undefined;
}

function awaitReports(state: DriverState, orders: Order[]): void {
  const { generation, clock } = state;
  const silent = (generation?.workers ?? []).filter((number) => {
    const worker = state.workers.get(number);
    return worker !== undefined && worker.report === undefined && worker.leavingSince === undefined;
  });
  if (silent.length === 0) {
    decide(state, orders);
    return;
  }
  const isLate = clock - state.since >= state.limits.collectTimeoutMs;
  const blamed = isLate ? silent : blamedMembers(state, silent, clock - blamedMs);
  for (const worker of blamed) killNumber(state, worker, 'other ranks wait for it', orders);
}

function killNumber(state: DriverState, number: number, why: string, orders: Order[]): void {
  const worker = state.workers.get(number);
  if (worker !== undefined) kill(worker, why, orders);
}

/** Calls the members together if another membership is better and possible. */
function notice(state: DriverState, orders: Order[]): void {
  const { generation, limits, resets, clock } = state;
  if (generation === undefined || generation.isNoticed) return;
  if ([...state.workers.values()].some(({ report }) => report?.isDone === true)) return;
  const next = planNext(state);
  if (next.kind !== 'seats') return;
  const isGrowing = next.workers.some((worker) => !generation.workers.includes(worker));
  if (next.removed.length === 0) {
    // The reset that would end the job is not worth a rank more.
    if (!isGrowing || resets >= (limits.resetLimit ?? Number.POSITIVE_INFINITY)) return;
    if (isSomebodyComing(state, clock)) return;
  }
  generation.isNoticed = true;
  orders.push({ kind: 'notice', generation: generation.number });
}

/** Every member has said that it is done, or has ended after it had said so. */
function areAllDone({ generation, workers }: DriverState): boolean {
  return (generation?.workers ?? []).every(
    (number) => workers.get(number)?.report?.isDone ?? !workers.has(number),
  );
}
