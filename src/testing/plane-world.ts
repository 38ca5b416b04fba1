// A plane under test: one DataPlane per rank, all in this process, and the small helpers that drive them.

import assert from 'node:assert/strict';
import type { HorovodError } from '../errors.ts';
import type { DataPlane, Job, Outcome, PlaneGroup, PlaneOperation, Round } from '../plane/plane.ts';

export interface PlaneWorld {
  /** One per rank. */
  readonly planes: readonly DataPlane[];
  close(): void | Promise<void>;
}

export type MakeWorld = (ranks: number) => Promise<PlaneWorld>;

/** Opens one group on the planes of `members`; the result is in order of `members`. */
export async function openGroups(
  planes: readonly DataPlane[],
  members: readonly number[] = planes.map((_, rank) => rank),
  id = 0,
  timeoutMs = 20_000,
): Promise<PlaneGroup[]> {
  const exchangeOf = makeExchange(members.length);
  return Promise.all(
    members.map((rank, index) =>
      (planes[rank] as DataPlane).openGroup({ id, members, index, exchange: exchangeOf(index), timeoutMs }),
    ),
  );
}

/** GroupSpec.exchange for members that are all in this process. */
export function makeExchange(members: number): (index: number) => (text: string) => Promise<string[]> {
  const texts: string[] = [];
  let count = 0;
  let tell: (texts: string[]) => void = () => {};
  const told = new Promise<string[]>((resolve) => {
    tell = resolve;
  });
  return (index) => (text) => {
    texts[index] = text;
    if (++count === members) tell(texts);
    return told;
  };
}

/** Runs `body` in a new world with one group of all ranks, and closes both. */
export async function withWorld(
  makeWorld: MakeWorld,
  ranks: number,
  body: (groups: PlaneGroup[], planes: readonly DataPlane[]) => Promise<void>,
): Promise<void> {
  const world = await makeWorld(ranks);
  try {
    const groups = await openGroups(world.planes);
    await body(groups, world.planes);
    for (const group of groups) group.close();
  } finally {
    for (const plane of world.planes) plane.close();
    await world.close();
  }
}

export function round(operation: PlaneOperation, fingerprint = 1): Round {
  return { fingerprintLow: fingerprint, fingerprintHigh: ~fingerprint >>> 0, operation };
}

export function jobOf(rounds: readonly Round[], details: Partial<Job> = {}): Job {
  return { rounds, passive: false, timeoutMs: 30_000, stallAfterMs: 0, label: 'a test job', ...details };
}

export function submit(group: PlaneGroup, job: Job): Promise<Outcome> {
  return new Promise((resolve, reject) => {
    const complete = (result: Outcome | HorovodError) =>
      typeof result === 'string' ? resolve(result) : reject(result);
    const outcome = group.submit(job, complete);
    if (outcome !== undefined) resolve(outcome);
  });
}

/** One round on every member at once; all must be done with it. */
export async function runOnAll(
  groups: readonly PlaneGroup[],
  operations: readonly PlaneOperation[],
): Promise<void> {
  const outcomes = await Promise.all(
    groups.map((group, index) => submit(group, jobOf([round(operations[index] as PlaneOperation)]))),
  );
  assert.deepEqual(
    outcomes,
    groups.map(() => 'done'),
  );
}

/** Lets the event loop turn until `isTrue`; fails loudly when that never happens. */
export async function until(isTrue: () => boolean, what: string): Promise<void> {
  const deadline = performance.now() + 20_000;
  while (!isTrue()) {
    assert.ok(performance.now() < deadline, `never happened: ${what}`);
    await turn();
  }
}

export function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
