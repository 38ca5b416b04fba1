// A real Spark with two executors on this machine: one context for most tests, and the two ways to start Spark once each.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { HorovodError } from '../../../src/errors.ts';
import type { RunOptions } from '../../../src/launch/run/run.ts';
import { startRun } from '../../../src/launch/run/start-run.ts';
import { run } from '../../../src/launch/spark/run.ts';
import { fixturePath, repository } from '../../support/repository.ts';
import { SparkHarness, sparkEnvironment, sparkSubmit } from '../../support/spark.ts';

const spark = sparkSubmit();
const hidden = { showOutput: false } as const;
/** Executors take half a minute to start on two cores, and longer beside other tests. */
const deadline = { timeout: 240_000 };

const waits = async () => {
  const hvd = await import('horovod');
  await hvd.init();
  await hvd.barrier();
  console.log(`pid ${process.pid} ${process.ppid}`);
  await new Promise((resolve) => setTimeout(resolve, 100_000));
};

describe('Spark', { skip: 'reason' in spark && spark.reason }, () => {
  let cluster: SparkHarness;
  before(() => {
    cluster = new SparkHarness('local-cluster[2,1,512]', { 'spark.executor.memory': '512m' });
  });
  after(() => cluster.close());

  async function failureOf(target: unknown, options: RunOptions): Promise<HorovodError> {
    try {
      await startRun(target, { ...hidden, ...options }, cluster.give);
    } catch (error) {
      assert.ok(HorovodError.is(error), String(error));
      return error;
    }
    assert.fail('nothing was thrown');
  }

  test(
    'results by rank from two executors of one machine, which share it; output comes live',
    deadline,
    async () => {
      const lines: string[] = [];
      const results = await startRun(
        async (factor: number) => {
          const hvd = await import('horovod');
          await hvd.init();
          console.log(`here is ${hvd.rank()}`);
          const [sum = 0] = hvd.allreduceSync(Float32Array.of(hvd.rank() + 1), { op: hvd.Sum });
          const local = `${hvd.localRank()} of ${hvd.localSize()}`;
          const { HVD_TEST_VARIABLE: given, HVD_TEST_HERE: here } = process.env;
          await hvd.shutdown();
          return { sum: sum * factor, local, given, here };
        },
        {
          ...hidden,
          np: 2,
          args: [2],
          env: { HVD_TEST_VARIABLE: 'given' },
          onOutput: (rank, stream, line) => lines.push(`${rank} ${stream} ${line}`),
        },
        cluster.give,
      );
      assert.deepEqual(
        results,
        [0, 1].map((rank) => ({ sum: 6, local: `${rank} of 2`, given: 'given', here: undefined })),
      );
      for (const rank of [0, 1])
        assert.ok(lines.includes(`${rank} stdout here is ${rank}`), lines.join('\n'));
    },
  );

  test('an error of a rank comes with its rank and cause, and an exit with its code', deadline, async () => {
    const thrown = await failureOf(
      async () => {
        const hvd = await import('horovod');
        await hvd.init();
        if (hvd.rank() === 1) throw new RangeError('no such loss');
        await hvd.barrier();
      },
      { np: 2 },
    );
    assert.equal(thrown.code, 'ERR_HVD_RUN');
    assert.equal(thrown.rank, 1);
    assert.match(String(thrown.cause), /RangeError: no such loss/);
  });

  for (const [what, victimOf, expected] of [
    ['an executor', executorOf, /Spark says: ExecutorLostFailure[^\n]*137[\s\S]*memoryOverhead/],
    ['an agent', parentOf, /its agent was killed[\s\S]*Spark says: task 1: its agent ended with code/],
  ] as const) {
    test(`${what} that is killed ends the job, and nothing is left of it`, deadline, async () => {
      const ranks: (readonly [pid: number, parent: number])[] = [];
      let killed = 0;
      const error = await failureOf(waits, {
        np: 2,
        onOutput(rank, _stream, line) {
          const [, pid, parent] = /^pid (\d+) (\d+)$/.exec(line) ?? [];
          if (pid === undefined || parent === undefined) return;
          ranks[rank] = [Number(pid), Number(parent)];
          if (Object.keys(ranks).length < 2) return;
          killed = victimOf(Number(ranks[1]?.[0]));
          process.kill(killed, 'SIGKILL');
        },
      });
      assert.equal(error.code, 'ERR_HVD_RUN');
      assert.match(error.message, expected);
      assert.ok(killed > 1);
      await gone(ranks.flat());
    });
  }

  test('a job that is stopped while it runs leaves nothing behind', deadline, async () => {
    const stop = new AbortController();
    const pids: number[] = [];
    const error = await failureOf(waits, {
      np: 2,
      signal: stop.signal,
      onOutput(_rank, _stream, line) {
        const [, pid] = /^pid (\d+)/.exec(line) ?? [];
        if (pid !== undefined) pids.push(Number(pid));
        if (pids.length === 2) stop.abort();
      },
    });
    assert.equal(error.code, 'ERR_HVD_ABORTED');
    await gone(pids);
  });

  test(
    'more ranks than slots are an error that says how many there are, and the slots are free again',
    deadline,
    async () => {
      const error = await failureOf(() => 0, { np: 3, env: { HOROVOD_SPARK_START_TIMEOUT: '6' } });
      assert.equal(error.code, 'ERR_HVD_HOST');
      assert.match(error.message, /Spark has 2 slots, and the job needs 3.*spark.executor.instances/);
      const stop = new AbortController();
      setTimeout(() => stop.abort(), 2000);
      assert.equal((await failureOf(() => 0, { np: 3, signal: stop.signal })).code, 'ERR_HVD_ABORTED');
      assert.deepEqual(await startRun(() => 7, { ...hidden, np: 2 }, cluster.give), [7, 7]);
    },
  );

  test(
    'an elastic job goes on without an executor that is killed, and Spark brings a new place',
    deadline,
    async () => {
      const sizes: string[] = [];
      let killed = 0;
      const results = await startRun(
        async () => {
          const [hvd, elastic] = await Promise.all([import('horovod'), import('horovod/elastic')]);
          await hvd.init();
          const state = new elastic.ObjectState({ phase: 0 });
          await elastic.run(async () => {
            console.log(`size ${hvd.size()} ${process.pid}`);
            // Two ranks, one, and two again.
            while (state.phase < 3) {
              if (hvd.size() === (state.phase === 1 ? 1 : 2)) state.phase++;
              await hvd.allreduce(new Float32Array(4));
              await state.commit();
              await new Promise((later) => setTimeout(later, 50));
            }
          }, state);
          return hvd.size();
        },
        {
          ...hidden,
          np: 2,
          minNp: 1,
          maxNp: 2,
          env: { HOROVOD_ELASTIC_COOLDOWN_RANGE: '0 0' },
          onOutput(rank, _stream, line) {
            const [, size, pid] = /^size (\d) (\d+)$/.exec(line) ?? [];
            if (size === undefined) return;
            sizes.push(size);
            if (rank === 1 && killed === 0) {
              killed = executorOf(Number(pid));
              process.kill(killed, 'SIGKILL');
            }
          },
        },
        cluster.give,
      );
      assert.deepEqual(results, [2, 2]);
      assert.ok(killed > 1);
      assert.ok(sizes.includes('1'), sizes.join());
    },
  );

  test('a Spark driver that is killed ends the job, and nothing is left of it', deadline, async () => {
    const pids: number[] = [];
    const error = await failureOf(waits, {
      np: 2,
      onOutput(_rank, _stream, line) {
        const [, pid, parent] = /^pid (\d+) (\d+)$/.exec(line) ?? [];
        if (pid === undefined) return;
        pids.push(Number(pid), Number(parent));
        // The context of these tests ends with it.
        if (pids.length === 4) cluster.kill();
      },
    });
    assert.equal(error.code, 'ERR_HVD_RUN');
    assert.match(error.message, /the task or executor that ran/);
    await gone(pids);
  });
});

describe('spark-submit', { skip: 'reason' in spark && spark.reason }, () => {
  const { program, python } = spark as { program: string; python: string };
  const conf = { 'spark.ui.enabled': false, 'spark.driver.memory': '512m' };

  test(
    'run() of horovod/spark starts it, with as many ranks as there are slots, and it ends by itself',
    deadline,
    async () => {
      const results = await run(
        async (text: string) => {
          const hvd = await import('horovod');
          await hvd.init();
          const found = [text, hvd.rank(), hvd.size(), 'HOROVOD_SPARK_ORDER' in process.env];
          await hvd.shutdown();
          return found;
        },
        {
          ...hidden,
          master: 'local[2]',
          conf,
          args: ['hello'],
          sparkSubmit: program,
          pythonExecutable: python,
        },
      );
      assert.deepEqual(results, [
        ['hello', 0, 2, false],
        ['hello', 1, 2, false],
      ]);
    },
  );

  test(
    'a data service in one application, and a training job that uses it in another',
    deadline,
    async (t) => {
      const folder = mkdtempSync(join(tmpdir(), 'horovod-spark-'));
      t.after(() => rmSync(folder, { recursive: true }));
      const config = join(folder, 'compute.json');
      const words = Object.entries(conf).flatMap(([name, value]) => ['--conf', `${name}=${value}`]);
      const submit = async (master: string, file: string, ...more: string[]) => {
        const path = join(repository, 'python/spark', file);
        const child = spawn(program, ['--master', master, ...words, path, ...more], {
          cwd: repository,
          env: sparkEnvironment(python),
          stdio: ['ignore', 'pipe', 'pipe'],
        });
        let text = '';
        for (const stream of [child.stdout, child.stderr])
          stream.on('data', (piece: Buffer) => {
            text += piece.toString();
          });
        const [code] = await once(child, 'close');
        return { code: code as number | null, text };
      };
      const [service, training] = await Promise.all([
        submit('local[2]', 'compute_worker.py', config),
        submit('local[2]', 'horovod_spark.py', fixturePath('spark/data-service.ts'), config),
      ]);
      assert.equal(training.code, 0, training.text);
      assert.match(training.text, /\[0\]<stdout>:all 2 ranks together: 1000 samples, sum 499500/);
      assert.equal(service.code, 0, service.text);
      assert.match(service.text, /the data service is ready: 2 workers/);
    },
  );
});

/** Resolves when none of these processes is left; the time of the test is the limit. */
async function gone(pids: readonly number[]): Promise<void> {
  while (pids.some((pid) => parentOf(pid) !== 0)) await sleep(100);
}

/** 0: it has ended. */
function parentOf(pid: number): number {
  try {
    return Number(/^PPid:\s*(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0);
  } catch {
    return 0;
  }
}

/** The JVM above a rank: rank, agent, Python worker, its daemon, executor. */
function executorOf(pid: number): number {
  for (let each = parentOf(pid); each > 1; each = parentOf(each)) {
    if (/java$/.test(readlinkSync(`/proc/${each}/exe`))) return each;
  }
  throw new Error(`${pid} has no JVM above it among ${readdirSync('/proc').length} processes`);
}
