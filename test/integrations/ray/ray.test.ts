// A real Ray: one cluster of one node for all tests.

import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { HorovodError } from '../../../src/errors.ts';
import { type RayRunOptions, run } from '../../../src/launch/ray/run.ts';
import { freePort } from '../../support/scripted-server.ts';

const python = process.env['HVD_TEST_RAY'];
const skip = python === undefined && 'no Ray: set HVD_TEST_RAY to a Python that has it (pip install ray)';
const cpus = 3;

describe('Ray', { skip, timeout: 240_000 }, () => {
  let folder = '';
  let address = '';
  let head: ChildProcess | undefined;

  before(async () => {
    folder = mkdtempSync('/tmp/hvd-ray-');
    address = `127.0.0.1:${await freePort()}`;
    // It keeps a token in the home directory otherwise.
    Object.assign(process.env, { RAY_AUTH_MODE: 'disabled', RAY_USAGE_STATS_ENABLED: '0' });
    const flags = ['--head', '--block', `--num-cpus=${cpus}`, '--num-gpus=0', '--include-dashboard=false'];
    const places = [
      `--temp-dir=${folder}`,
      `--plasma-directory=${folder}`,
      '--object-store-memory=100000000',
    ];
    const port = ['--node-ip-address=127.0.0.1', `--port=${address.split(':')[1]}`];
    head = spawn(join(dirname(python as string), 'ray'), ['start', ...flags, ...places, ...port], {
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let said = '';
    for (const stream of [head.stdout, head.stderr]) stream?.on('data', (piece) => (said += piece));
    const deadline = Date.now() + 90_000;
    while (!/Ray runtime started/.test(said)) {
      assert.ok(head.exitCode === null && Date.now() < deadline, said);
      await sleep(100);
    }
  });
  after(async () => {
    if (head?.pid !== undefined && head.exitCode === null) {
      const gone = once(head, 'exit');
      process.kill(-head.pid, 'SIGTERM');
      await Promise.race([gone, sleep(15_000, undefined, { ref: false })]);
    }
    // Its processes have groups of their own.
    for (const { pid } of processes().filter(({ command }) => command.includes(folder)))
      process.kill(pid, 'SIGKILL');
    rmSync(folder, { recursive: true, force: true });
  });

  const options = (more: RayRunOptions<never>): RayRunOptions<never> => ({
    address,
    pythonExecutable: python,
    showOutput: false,
    numWorkers: 2,
    startTimeoutMs: 60_000,
    ...more,
  });

  test('results come in the order of ranks, output line by line, and nothing stays', async () => {
    const lines: string[] = [];
    const results = await run(
      async (factor: number) => {
        const hvd = await import('horovod');
        await hvd.init();
        const [sum] = hvd.allreduceSync(Float32Array.of(hvd.rank() + 1), { op: hvd.Sum });
        console.log(`rank ${hvd.rank()}`);
        const facts = [hvd.rank() * factor, sum, hvd.localSize(), process.env['HVD_TEST_MINE']];
        const gpus = process.env['CUDA_VISIBLE_DEVICES'];
        const isForwarded = process.env['HVD_TEST_OTHER'];
        await hvd.shutdown();
        return { facts, gpus: gpus ?? '', isForwarded, mark: process.env['HOROVOD_JOB_ID'] };
      },
      {
        ...(options({}) as object),
        numHosts: 1,
        workersPerHost: 2,
        args: [10] as [number],
        env: { HVD_TEST_MINE: 'yes' },
        onOutput: (_rank, _stream, line) => void lines.push(line),
      },
    );
    assert.deepEqual(
      results.map(({ facts }) => facts),
      [
        [0, 3, 2, 'yes'],
        [10, 3, 2, 'yes'],
      ],
    );
    assert.deepEqual(
      results.map(({ gpus }) => gpus),
      ['', ''],
    );
    assert.deepEqual(lines.filter((line) => line.startsWith('rank ')).sort(), ['rank 0', 'rank 1']);
    await nothingStays();
  });

  test('a rank that throws is named, with its stack', async () => {
    const job = run(async () => {
      const hvd = await import('horovod');
      await hvd.init();
      if (hvd.rank() === 1) throw new RangeError('not this one');
      await hvd.barrier();
    }, options({}));
    await assert.rejects(job, (error) => {
      assert.ok(HorovodError.is(error) && error.code === 'ERR_HVD_RUN', String(error));
      assert.equal(error.rank, 1);
      assert.match(error.message, /not this one/);
      return true;
    });
    await nothingStays();
  });

  test('too few resources: the error says what the job needs and what there is', async () => {
    const job = run(() => 0, options({ numWorkers: cpus + 1, startTimeoutMs: 5000 }));
    await assert.rejects(job, {
      code: 'ERR_HVD_HOST',
      message: /The job needs 4 places of 1 CPU, and Ray has 1 node \(3 CPUs, 0 GPUs\): there is room for 3/,
    });
    await nothingStays();
  });

  test('an abort ends ranks, actors and what started them', async () => {
    const stop = new AbortController();
    const job = run(
      async () => {
        const hvd = await import('horovod');
        await hvd.init();
        console.log('here');
        await new Promise(() => setInterval(() => undefined, 1000));
      },
      options({ signal: stop.signal, onOutput: () => stop.abort() }),
    );
    await assert.rejects(job, { code: 'ERR_HVD_ABORTED' });
    await nothingStays();
  });

  test('an actor that is killed ends a job of a fixed size, and Ray starts it again in an elastic one', async () => {
    const train = async () => {
      const hvd = await import('horovod');
      await hvd.init();
      const state = new hvd.elastic.ObjectState({ step: 0 });
      const done = await hvd.elastic.run(async (state) => {
        for (; state.step < 40; ) {
          await hvd.allreduce(Float32Array.of(1));
          await new Promise((resolve) => setTimeout(resolve, 50));
          state.step += 1;
          if (state.step === 5 && hvd.rank() === 0) console.log('five');
          await state.commit();
        }
        return [hvd.size(), hvd.elastic.generation() > 1];
      }, state);
      await hvd.shutdown();
      return done;
    };
    const killOne = (): void => {
      const [actor] = actors();
      if (actor !== undefined) process.kill(actor, 'SIGKILL');
    };
    const once = (act: () => void) => {
      let isDone = false;
      return (_rank: number, _stream: string, line: string) => {
        if (line !== 'five' || isDone) return;
        isDone = true;
        act();
      };
    };
    await assert.rejects(run(train, options({ onOutput: once(killOne) })), (error) => {
      assert.ok(HorovodError.is(error) && error.code === 'ERR_HVD_RUN', String(error));
      return true;
    });
    await nothingStays();
    const results = await run(train, options({ minWorkers: 1, maxWorkers: 2, onOutput: once(killOne) }));
    assert.ok(results.length >= 1);
    for (const result of results) assert.equal((result as [number, boolean])[1], true);
    await nothingStays();
  });
});

/** Ray calls its workers by the method that runs. */
function actors(): number[] {
  return processes()
    .filter(({ command }) => command.startsWith('ray::Place'))
    .map(({ pid }) => pid);
}

/** Of actors, agents, ranks and horovod_ray.py. Agents and ranks inherit the variables that Ray gives its workers. */
async function nothingStays(): Promise<void> {
  const deadline = Date.now() + 20_000;
  for (;;) {
    const left = processes().filter(
      ({ command, environment }) =>
        /^ray::Place|horovod_ray\.py/.test(command) ||
        (/(^|\/)node\b/.test(command) && /(^|\0)RAY_RAYLET_PID=/.test(environment)),
    );
    if (left.length === 0) return;
    assert.ok(Date.now() < deadline, left.map(({ pid, command }) => `${pid} ${command}`).join('\n'));
    await sleep(200);
  }
}

interface Process {
  readonly pid: number;
  readonly command: string;
  readonly environment: string;
}

function processes(): Process[] {
  return readdirSync('/proc').flatMap((name) => {
    if (!/^\d+$/.test(name) || Number(name) === process.pid) return [];
    try {
      const command = readFileSync(`/proc/${name}/cmdline`, 'utf8').replaceAll('\0', ' ');
      return [{ pid: Number(name), command, environment: readFileSync(`/proc/${name}/environ`, 'utf8') }];
    } catch {
      return [];
    }
  });
}
