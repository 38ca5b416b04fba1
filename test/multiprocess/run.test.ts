// run() with real ranks of this host.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { HorovodError } from '../../src/errors.ts';
import { type JobView, type RunOptions, run } from '../../src/launch/run/run.ts';
import { fixturePath, repository } from '../support/repository.ts';

const fixtures = pathToFileURL(fixturePath('run/'));
const deadline = { timeout: 30_000 };
const hidden = { showOutput: false } as const;

async function failureOf(target: () => unknown, options: RunOptions<[]>): Promise<HorovodError> {
  try {
    await run(target, { ...hidden, ...options });
  } catch (error) {
    assert.ok(HorovodError.is(error), String(error));
    return error;
  }
  assert.fail('nothing was thrown');
}

test('a function runs on every rank and its results come back by rank', deadline, async () => {
  const results = await run(
    async (values: Map<string, Float32Array>, factor: number) => {
      const hvd = await import('horovod');
      await hvd.init();
      const sum = hvd.allreduceSync(values.get('x') ?? new Float32Array(), { op: hvd.Sum });
      const rank = hvd.rank();
      await hvd.shutdown();
      return { rank, sum, product: rank * factor, variable: process.env['HVD_TEST_VARIABLE'] };
    },
    {
      ...hidden,
      np: 3,
      args: [new Map([['x', new Float32Array([1, 2])]]), 10],
      env: { HVD_TEST_VARIABLE: 'for the ranks' },
    },
  );
  const sum = new Float32Array([3, 6]);
  assert.deepEqual(
    results,
    [0, 1, 2].map((rank) => ({ rank, sum, product: rank * 10, variable: 'for the ranks' })),
  );
});

test(
  'a module is called by its default export, JavaScript by path and TypeScript by URL',
  deadline,
  async () => {
    const [sums, places] = await Promise.all([
      run(fileURLToPath(new URL('sum.mjs', fixtures)), { ...hidden, np: 2, args: [1, 2] }),
      run(new URL('typed.ts', fixtures), { ...hidden, hosts: 'localhost:2', args: [5] }),
    ]);
    assert.deepEqual(
      sums,
      [0, 1].map((rank) => ({ rank, total: new Float64Array([2, 4]) })),
    );
    assert.deepEqual(places, [{ rank: 5 }, { rank: 6 }]);
  },
);

test('onOutput gets every line, and onStatus what the ranks are doing', deadline, async () => {
  const lines: string[] = [];
  const seen: JobView[] = [];
  await run(
    async () => {
      const hvd = await import('horovod');
      await hvd.init();
      hvd.logMetrics({ loss: 0.5 - hvd.rank() });
      hvd.markStep({ samples: 8 });
      process.stdout.write('10 %\r20 %\rdone\n<script>\r\n');
      console.error('a line on stderr');
      process.stdout.write('no end');
      await hvd.allreduce(new Float32Array(1));
      await hvd.shutdown();
    },
    {
      ...hidden,
      np: 2,
      onOutput: (rank, stream, line) => lines.push(`${rank} ${stream} ${line}`),
      onStatus: (view) => seen.push(view),
    },
  );
  assert.deepEqual(
    lines.sort(),
    [0, 1].flatMap((rank) => [
      `${rank} stderr a line on stderr`,
      `${rank} stdout <script>`,
      `${rank} stdout done`,
      `${rank} stdout no end`,
    ]),
  );
  const last = seen.at(-1);
  assert.deepEqual(
    last?.ranks.map(({ rank, presence, status }) => [rank, presence, status?.step, status?.metrics]),
    [
      [0, 'left', 1, [['loss', 0.5]]],
      [1, 'left', 1, [['loss', -0.5]]],
    ],
  );
});

test('a callback that throws is not called again, and the job goes on', deadline, () => {
  const code = `
    import { run } from 'horovod';
    let calls = 0;
    const onOutput = () => { calls++; throw new Error('in the callback'); };
    const [sum] = await run(() => { console.log('a'); console.log('b'); return 7; }, { showOutput: false, onOutput });
    console.log(sum, calls);`;
  const { stdout, stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', code], {
    cwd: repository,
    encoding: 'utf8',
  });
  assert.equal(stdout, '7 1\n');
  assert.match(
    stderr,
    /^horovod\.run: onOutput has thrown an error and is not called again: Error: in the callback/,
  );
});

test('without np, hosts or hostfile there is one rank', deadline, async () => {
  assert.deepEqual(await run(() => process.env['HOROVOD_SIZE'], hidden), ['1']);
});

test('run() works from `node -e`, and a rank cannot call it', deadline, () => {
  // If ranks evaluated this code again, they would start jobs without end: the variable stops them.
  const code = `
    if (process.env.HVD_TEST_DEPTH === '1') process.exit(9);
    const { run } = await import('horovod');
    const results = await run(
      async () => {
        const hvd = await import('horovod');
        return hvd.run(() => 1).then(() => 'started', ({ code, rank, message }) => ({ code, rank, message }));
      },
      { np: 2, showOutput: false, env: { HVD_TEST_DEPTH: '1' } },
    );
    console.log(JSON.stringify(results));`;
  const { stdout, stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', code], {
    cwd: repository,
    encoding: 'utf8',
  });
  assert.equal(stderr, '');
  const results = JSON.parse(stdout) as { code: string; rank: number; message: string }[];
  assert.deepEqual(
    results.map(({ code, rank }) => [code, rank]),
    [
      ['ERR_HVD_RUN', 0],
      ['ERR_HVD_RUN', 1],
    ],
  );
  assert.match(results[1]?.message ?? '', /run\(\) was called by a rank \(rank 1 of 2\)/);
});

test('results larger than a message of the store arrive whole', deadline, async () => {
  const [bytes] = await run(() => new Uint8Array(1_000_000).fill(7), hidden);
  assert.equal(bytes?.length, 1_000_000);
  assert.ok(bytes?.every((byte) => byte === 7));
});

test('an error on one rank rejects with its stack, and the others do not go on', deadline, async () => {
  const started = performance.now();
  const error = await failureOf(
    async () => {
      if (process.env['HOROVOD_RANK'] === '1') {
        const failing = () => {
          throw new RangeError('a bad epoch');
        };
        failing();
      }
      await new Promise((done) => setTimeout(done, 60_000));
    },
    { np: 2 },
  );
  assert.equal(error.code, 'ERR_HVD_RUN');
  assert.equal(error.rank, 1);
  assert.match(error.message, /rank 1 failed: RangeError: a bad epoch\./);
  const cause = error.cause as Error;
  assert.equal(cause.name, 'RangeError');
  assert.match(cause.stack ?? '', /at failing/);
  assert.ok(performance.now() - started < 20_000);
});

test('an error that the caller catches is not printed by the ranks', deadline, () => {
  const { stdout, stderr } = spawnSync(process.execPath, [fixturePath('run/caught.ts')], {
    encoding: 'utf8',
  });
  assert.deepEqual([stdout, stderr], ['RangeError: a bad epoch\n', '']);
});

test('of an error and its echo on other ranks, the error counts', deadline, async () => {
  const error = await failureOf(
    async () => {
      const hvd = await import('horovod');
      await hvd.init();
      if (hvd.rank() === 1) throw new TypeError('the first cause');
      hvd.barrierSync();
    },
    { np: 2 },
  );
  assert.equal(error.rank, 1);
  assert.match(error.message, /TypeError: the first cause/);
});

test('a variable from outside the function is explained', deadline, async () => {
  const outside = 1;
  const error = await failureOf(() => outside + 1, {});
  assert.match(error.message, /outside is not defined\. The function is sent to the ranks as source text/);
});

test(
  'a rank that is killed, exits early or returns what cannot be sent is an error that says so',
  deadline,
  async () => {
    const [killed, left, unsendable, notFunction] = await Promise.all([
      failureOf(
        () => process.kill(process.pid, 'SIGKILL') && new Promise((done) => setTimeout(done, 9999)),
        {},
      ),
      failureOf(() => process.exit(0), {}),
      failureOf(() => () => 1, {}),
      run(new URL('nothing.mjs', fixtures), hidden).catch((error: unknown) => error as HorovodError),
    ]);
    assert.equal(killed.code, 'ERR_HVD_RUN');
    assert.match(killed.message, /ended without a result[\s\S]*SIGKILL/);
    assert.equal(killed.rank, 0);
    assert.match(left.message, /ended without a result/);
    assert.match(unsendable.message, /the result cannot be sent back/);
    assert.match((notFunction as HorovodError).message, /does not export a function as its default/);
  },
);

test('a rank with something left to do is ended when its result is there', deadline, async () => {
  const results = await run(() => {
    setInterval(() => undefined, 1000);
    return 'done';
  }, hidden);
  assert.deepEqual(results, ['done']);
});

test('an AbortSignal ends the ranks', deadline, async (t) => {
  const directory = mkdtempSync(join(tmpdir(), 'hvd-run-'));
  t.after(() => rmSync(directory, { recursive: true }));
  const file = join(directory, 'pid');
  const abort = new AbortController();
  const running = failureOf(
    async () => {
      const { writeFileSync } = await import('node:fs');
      writeFileSync(process.env['HVD_TEST_FILE'] ?? '', `${process.pid}\n`);
      await new Promise((done) => setTimeout(done, 60_000));
    },
    { signal: abort.signal, env: { HVD_TEST_FILE: file } },
  );
  let pid = Number.NaN;
  while (!(pid > 0)) {
    await new Promise((done) => setTimeout(done, 10));
    pid = existsSync(file) ? Number(/^(\d+)\n/.exec(readFileSync(file, 'utf8'))?.[1]) : Number.NaN;
  }
  abort.abort(new Error('enough'));
  const error = await running;
  assert.equal(error.code, 'ERR_HVD_ABORTED');
  assert.equal((error.cause as Error).message, 'enough');
  assert.throws(() => process.kill(pid, 0), { code: 'ESRCH' });
  const early = await failureOf(() => 1, { signal: AbortSignal.abort() });
  assert.equal(early.code, 'ERR_HVD_ABORTED');
});

for (const program of ['mpirun.openmpi', 'mpirun.mpich']) {
  const skip = spawnSync(program, ['--version']).status !== 0 && `${program} is not installed`;
  test(`${program} can start the ranks`, { ...deadline, skip }, async (t) => {
    const directory = mkdtempSync(join(tmpdir(), 'hvd-run-'));
    t.after(() => rmSync(directory, { recursive: true }));
    const env = { HOROVOD_MPIRUN: program, TMPDIR: directory };
    const ranks = await run(
      (offset: number) => Number(process.env['OMPI_COMM_WORLD_RANK'] ?? process.env['PMI_RANK']) + offset,
      { ...hidden, np: 2, transport: 'mpi', args: [10], env },
    );
    assert.deepEqual(ranks, [10, 11]);
    const error = await failureOf(
      async () => {
        const rank = process.env['OMPI_COMM_WORLD_RANK'] ?? process.env['PMI_RANK'];
        if (rank === '1') throw new RangeError('under mpirun');
        await new Promise((done) => setTimeout(done, 60_000));
      },
      { np: 2, transport: 'mpi', env },
    );
    assert.deepEqual([error.rank, (error.cause as Error).name], [1, 'RangeError']);
  });
}

test('wrong options are rejected before anything is started', deadline, async () => {
  for (const [options, expected] of [
    [{ np: 0 }, /np is 0; expected an integer ≥ 1/],
    [{ np: 3, hosts: 'localhost:2' }, /is more than the 2 slots on localhost:2/],
    [{ hosts: 'localhost:1', hostfile: 'h' }, /cannot be used together/],
    [{ transport: 'warp' as 'tcp' }, /HOROVOD_TRANSPORT is "warp"/],
    [
      { transport: 'mpi' as const, env: { HOROVOD_MPIRUN: 'no-such-mpirun' } },
      /cannot start the job with mpirun/,
    ],
    [{ networkInterfaces: ['a b'] }, /HOROVOD_NETWORK_INTERFACES/],
    [{ startTimeoutMs: 0 }, /HOROVOD_START_TIMEOUT/],
    [{ maxNp: 2 }, /run: maxNp is for elastic jobs\. Add minNp or discover, or remove it\./],
    [{ minNp: 0 }, /HOROVOD_ELASTIC_MIN_NP is "0"/],
    [{ np: 2, minNp: 3 }, /-np 2 is less than --min-np 3/],
    [{ np: 2, minNp: 2, maxNp: 1 }, /--min-np 2 is more than --max-np 1/],
    [{ np: 4, minNp: 2, maxNp: 3 }, /-np 4 is more than --max-np 3/],
    [{ np: 3, minNp: 1, hosts: 'localhost:2' }, /-np 3 is more than the 2 slots on localhost:2/],
    [{ np: 2, minNp: 1, transport: 'mpi' as const }, /elastic training does not work with --mpi/],
    [{ discover: 7 as never }, /run: discover is .*; expected the path of a script, or a function/],
    [
      { np: 1, hosts: 'localhost:1', discover: async () => [] },
      /discover cannot be used together with hosts or a hostfile/,
    ],
    [{ np: 1, hosts: 'localhost:1', discover: './x.sh' }, /cannot be used together with -H or --hostfile/],
    [
      { np: 1, discover: './no-such-script.sh' },
      /the hosts cannot be found: .*no-such-script\.sh was not found/,
    ],
    [
      { np: 1, discover: async () => 7 as never },
      /cannot be found: discover\(\) returned .*, which is not a list/,
    ],
    [{ np: 1, discover: () => Promise.reject('no cloud') }, /the hosts cannot be found: 'no cloud'\./],
  ] as const) {
    const error = await failureOf(() => 1, options);
    assert.match(error.message, expected);
  }
});

test(
  'an elastic run() has the results of the last generation, by rank (test_happy_run_elastic)',
  deadline,
  async () => {
    const results = await run(
      async () => {
        const [hvd, elastic] = await Promise.all([import('horovod'), import('horovod/elastic')]);
        await hvd.init();
        const state = new elastic.ObjectState({ step: 0 });
        const worker = process.env['HOROVOD_ELASTIC_WORKER'];
        await elastic.run(async () => {
          while (state.step < 20) {
            await hvd.allreduce(new Float32Array(4));
            if (++state.step === 5 && worker === '1') process.kill(process.pid, 'SIGKILL');
            await state.commit();
          }
        }, state);
        return { rank: hvd.rank(), step: state.step, isLost: worker === '1' };
      },
      { ...hidden, np: 3, minNp: 1, env: { HOROVOD_ELASTIC_COOLDOWN_RANGE: '0 0' } },
    );
    assert.deepEqual(
      results,
      [0, 1].map((rank) => ({ rank, step: 20, isLost: false })),
    );
  },
);

test(
  'a function says which hosts there are, and ranks are started where there are more',
  deadline,
  async () => {
    let slots = 1;
    const results = await run(
      async () => {
        const [hvd, elastic] = await Promise.all([import('horovod'), import('horovod/elastic')]);
        await hvd.init();
        const state = new elastic.ObjectState({ step: 0 });
        await elastic.run(async () => {
          console.log(`size ${hvd.size()}`);
          while (hvd.size() < 2) {
            await hvd.allreduce(new Float32Array(4));
            state.step++;
            await state.commit();
            await new Promise((later) => setTimeout(later, 5));
          }
        }, state);
        return { rank: hvd.rank(), size: hvd.size() };
      },
      {
        ...hidden,
        np: 1,
        discover: async () => [{ name: 'localhost', slots }],
        onOutput: (_rank, _stream, line) => {
          if (line === 'size 1') slots = 2;
        },
      },
    );
    assert.deepEqual(
      results,
      [0, 1].map((rank) => ({ rank, size: 2 })),
    );
  },
);
