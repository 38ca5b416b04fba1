import assert from 'node:assert/strict';
import { type ChildProcess, fork } from 'node:child_process';
import { describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import type { Order, Report, Scene } from '../../testing/portable-rank.ts';
import { ControlBlock } from '../control-block.ts';

const rankScript = fileURLToPath(import.meta.resolve('../../testing/portable-rank.js'));
const deadline = { timeout: 60_000 };

interface Rank {
  readonly process: ChildProcess;
  readonly reports: Report[];
  /** Resolves with the first report of that kind. */
  next<K extends Report['kind']>(kind: K): Promise<Extract<Report, { kind: K }>>;
  send(order: Order): void;
  readonly ended: Promise<void>;
}

/** Starts one process per rank, and ends whatever is left of them. */
async function withRanks(ranks: number, scene: Scene, body: (ranks: Rank[]) => Promise<void>): Promise<void> {
  const control = ControlBlock.create(ranks);
  const all: Rank[] = [];
  for (let rank = 0; rank < ranks; rank++) all.push(startRank(rank, ranks, control, scene, all));
  try {
    await body(all);
  } finally {
    for (const rank of all) rank.process.kill('SIGKILL');
    await Promise.all(all.map(({ ended }) => ended));
    control.close();
  }
}

function startRank(rank: number, ranks: number, control: ControlBlock, scene: Scene, all: Rank[]): Rank {
  const child = fork(rankScript, [String(rank), String(ranks), control.path, scene]);
  const reports: Report[] = [];
  const waiting = new Map<string, (report: Report) => void>();
  let fail = (_error: Error): void => {};
  const died = new Promise<never>((_resolve, reject) => {
    fail = reject;
  });
  died.catch(() => {});
  child.on('message', (report: Report) => {
    reports.push(report);
    waiting.get(report.kind)?.(report);
    if (report.kind === 'share') for (const other of all) other.send({ ...report, kind: 'shared' });
  });
  const ended = new Promise<void>((resolve) => {
    child.on('exit', (code, signal) => {
      control.recordExit(rank, signal === null ? { code: code ?? 0 } : { signal });
      fail(new Error(`rank ${rank} ended (${code ?? signal}) after ${JSON.stringify(reports)}`));
      resolve();
    });
  });
  return {
    process: child,
    reports,
    ended,
    send: (order) => {
      if (child.connected) child.send(order);
    },
    next: async (kind) => {
      const known = reports.find((report) => report.kind === kind);
      const coming = new Promise<Report>((resolve) => waiting.set(kind, resolve));
      return (await (known ?? Promise.race([coming, died]))) as Extract<Report, { kind: typeof kind }>;
    },
  };
}

describe('the portable plane between processes', () => {
  for (const ranks of [2, 3, 5]) {
    test(`${ranks} ranks give the bits of the reference, blocking and not`, deadline, () =>
      withRanks(ranks, 'compare', async (all) => {
        for (const rank of all) await rank.next('finished');
      }),
    );
  }

  test('a rank that blocks in one group still serves another', deadline, () =>
    withRanks(2, 'twoGroups', async (all) => {
      for (const rank of all) await rank.next('finished');
    }),
  );

  test('waitSync() ends a submitted job and those before it, which are called back', deadline, () =>
    withRanks(2, 'waitSync', async (all) => {
      for (const rank of all) await rank.next('finished');
    }),
  );

  test('a stalled wait says who is missing, and goes on', deadline, () =>
    withRanks(2, 'stall', async ([waiting, late]) => {
      assert.ok(waiting !== undefined && late !== undefined);
      assert.deepEqual((await waiting.next('stalled')).missing, [1]);
      late.send({ kind: 'go' });
      for (const rank of [waiting, late]) await rank.next('finished');
    }),
  );

  for (const scene of ['endlessSync', 'endless'] as const) {
    test(`all survivors of a killed rank name it and its signal (${scene})`, deadline, () =>
      withRanks(3, scene, async (all) => {
        const [first, victim, last] = all as [Rank, Rank, Rank];
        for (const rank of all) await rank.next('running');
        victim.process.kill('SIGKILL');
        for (const survivor of [first, last]) {
          const { code, blamed, pid, signal } = await survivor.next('failed');
          assert.deepEqual(
            { code, blamed, pid, signal },
            {
              code: 'ERR_HVD_PEER_LOST',
              blamed: 1,
              pid: victim.process.pid,
              signal: 'SIGKILL',
            },
          );
        }
      }),
    );
  }

  test('a stopped rank runs into the deadline, and finds the same error when it wakes', deadline, () =>
    withRanks(2, 'impatient', async (all) => {
      const [waiting, stopped] = all as [Rank, Rank];
      for (const rank of all) await rank.next('running');
      stopped.process.kill('SIGSTOP');
      const failure = await waiting.next('failed');
      assert.equal(failure.code, 'ERR_HVD_TIMEOUT');
      assert.match(failure.message, /rank 0 waited 1 s in allreduce "grad" and rank 1 has not come/);
      stopped.process.kill('SIGCONT');
      assert.equal((await stopped.next('failed')).message, failure.message);
    }),
  );
});
