// A transport under test: one Transport per rank, all in this process, and helpers to run operations on them.

import assert from 'node:assert/strict';
import type { HorovodError } from '../../src/errors.ts';
import { makeExchange } from '../../src/testing/exchange.ts';
import type {
  Batch,
  Outcome,
  Round,
  Transport,
  TransportGroup,
  TransportOperation,
} from '../../src/transport/transport.ts';

/** Only for what never happens: a machine under load is slow. */
const patienceMs = 60_000;

export interface TransportWorld {
  /** One per rank. */
  readonly transports: readonly Transport[];
  /** The rank shuts down, and all hosts know it. */
  leave?(rank: number): void;
  close(): void | Promise<void>;
}

export type MakeWorld = (ranks: number) => Promise<TransportWorld>;

/** Opens one group on the transports of `members`; the result is in order of `members`. */
export async function openGroups(
  transports: readonly Transport[],
  members: readonly number[] = transports.map((_, rank) => rank),
  id = 0,
  timeoutMs = 20_000,
): Promise<TransportGroup[]> {
  const exchangeOf = makeExchange(members.length);
  return Promise.all(
    members.map((rank, index) =>
      (transports[rank] as Transport).openGroup({
        id,
        members,
        index,
        exchange: exchangeOf(index),
        timeoutMs,
      }),
    ),
  );
}

/** Runs `body` in a new world with one group of all ranks, and closes both. */
export async function withWorld(
  makeWorld: MakeWorld,
  ranks: number,
  body: (groups: TransportGroup[], transports: readonly Transport[]) => Promise<void>,
): Promise<void> {
  const world = await makeWorld(ranks);
  try {
    const groups = await openGroups(world.transports);
    await body(groups, world.transports);
    for (const group of groups) group.close();
  } finally {
    for (const transport of world.transports) transport.close();
    await world.close();
  }
}

export function round(operation: TransportOperation, fingerprint = 1): Round {
  return { fingerprintLow: fingerprint, fingerprintHigh: ~fingerprint >>> 0, operation };
}

export function batchOf(rounds: readonly Round[], details: Partial<Batch> = {}): Batch {
  return { rounds, passive: false, timeoutMs: 30_000, stallAfterMs: 0, label: 'a test batch', ...details };
}

export function submit(group: TransportGroup, batch: Batch): Promise<Outcome> {
  return new Promise((resolve, reject) => {
    const complete = (result: Outcome | HorovodError) =>
      typeof result === 'string' ? resolve(result) : reject(result);
    const outcome = group.submit(batch, complete);
    if (outcome !== undefined) resolve(outcome);
  });
}

/** Runs one round on all members at once, which must complete on all. */
export async function runOnAll(
  groups: readonly TransportGroup[],
  operations: readonly TransportOperation[],
): Promise<void> {
  const outcomes = await Promise.all(
    groups.map((group, index) => submit(group, batchOf([round(operations[index] as TransportOperation)]))),
  );
  assert.deepEqual(
    outcomes,
    groups.map(() => 'done'),
  );
}

/** Runs the event loop until `isTrue`. Fails if that never happens. */
export async function until(isTrue: () => boolean, what: string): Promise<void> {
  const deadline = performance.now() + patienceMs;
  while (!isTrue()) {
    assert.ok(performance.now() < deadline, `never happened: ${what}`);
    await turn();
  }
}

export function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
