// Jobs in places that a cluster manager gives: agents that dial back, several on one machine.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { HorovodError } from '../../src/errors.ts';
import { agentsNumber, attemptChannel } from '../../src/launch/agent/dial-order.ts';
import { decodeBody, encodeBody, maxFrameBytes, protocolVersion } from '../../src/launch/agent/protocol.ts';
import { runProgram } from '../../src/launch/notebook/run-program.ts';
import { AgentPlaces } from '../../src/launch/places/agent-places.ts';
import type { RunOptions } from '../../src/launch/run/run.ts';
import { startRun } from '../../src/launch/run/start-run.ts';
import type { Connection } from '../../src/net/connection.ts';
import { Dial } from '../../src/net/dial.ts';
import { SealedFrames } from '../../src/net/sealed-frames.ts';
import { packageVersion } from '../../src/settings/package.ts';
import { notebookText } from '../support/notebook-file.ts';
import { agentPath, type PlaceTasks, placeTasks } from '../support/place-tasks.ts';

const deadline = { timeout: 40_000 };
const hidden = { showOutput: false } as const;

async function failureOf(target: unknown, options: RunOptions, tasks: PlaceTasks): Promise<HorovodError> {
  try {
    await startRun(target, { ...hidden, ...options }, tasks.give);
  } catch (error) {
    assert.ok(HorovodError.is(error), String(error));
    return error;
  }
  assert.fail('nothing was thrown');
}

test(
  'ranks in places of one machine share it, each with the environment of its agent',
  deadline,
  async () => {
    const tasks = placeTasks({ environmentOf: (place) => ({ CUDA_VISIBLE_DEVICES: String(7 - place) }) });
    const results = await startRun(
      async (factor: number) => {
        const hvd = await import('horovod');
        await hvd.init();
        const sum = hvd.allreduceSync(Float32Array.of(hvd.rank() + 1), { op: hvd.Sum })[0];
        const found = {
          sum: sum === undefined ? 0 : sum * factor,
          local: `${hvd.localRank()} of ${hvd.localSize()}`,
          gpu: process.env['CUDA_VISIBLE_DEVICES'],
          variable: process.env['HVD_TEST_VARIABLE'],
        };
        await hvd.shutdown();
        return found;
      },
      { ...hidden, np: 3, args: [2], env: { HVD_TEST_VARIABLE: 'given' } },
      tasks.give,
    );
    assert.deepEqual(
      results,
      [0, 1, 2].map((rank) => ({
        sum: 12,
        local: `${rank} of 3`,
        gpu: String(7 - rank),
        variable: 'given',
      })),
    );
    assert.ok(tasks.isClosed);
    for (const { exitCode } of tasks.agents.values()) assert.equal(exitCode, 0);
  },
);

const waits = async () => {
  const hvd = await import('horovod');
  await hvd.init();
  await hvd.barrier();
  console.log(`pid ${process.pid}`);
  await new Promise((resolve) => setTimeout(resolve, 60_000));
};

for (const [how, end, expected] of [
  [
    'an agent that is killed takes its rank with it',
    (agent) => agent.kill('SIGKILL'),
    /its agent was killed, perhaps together with the task or executor/,
  ],
  [
    'an agent whose task has ended ends its rank',
    (agent) => agent.stdin?.end(),
    /the task or executor that ran its agent has ended/,
  ],
] as const satisfies readonly (readonly [
  string,
  (agent: ReturnType<PlaceTasks['start']>) => unknown,
  RegExp,
])[]) {
  test(`${how}, and the report says what the cluster manager says`, deadline, async () => {
    const tasks = placeTasks({ says: 'The test says: container killed.' });
    const pids: number[] = [];
    const error = await failureOf(
      waits,
      {
        np: 2,
        onOutput(_rank, _stream, line) {
          const [, pid] = /^pid (\d+)$/.exec(line) ?? [];
          if (pid === undefined) return;
          pids.push(Number(pid));
          if (pids.length === 2) end(tasks.agents.get(1) as never);
        },
      },
      tasks,
    );
    assert.equal(error.code, 'ERR_HVD_RUN');
    assert.equal(error.rank, 1);
    assert.match(error.message, expected);
    assert.match(error.message, /container killed/);
    assert.equal(pids.length, 2);
    // The guardian of a killed agent kills its rank.
    while (pids.some((pid) => existsSync(`/proc/${pid}`))) await sleep(50);
  });
}

test(
  'an elastic job goes on when a place is taken away, and takes in the one that replaces it',
  deadline,
  async () => {
    const tasks = placeTasks();
    const sizes: string[] = [];
    const results = await startRun(
      async () => {
        const [hvd, elastic] = await Promise.all([import('horovod'), import('horovod/elastic')]);
        await hvd.init();
        const state = new elastic.ObjectState({ phase: 0, step: 0 });
        await elastic.run(async () => {
          console.log(`size ${hvd.size()}`);
          // Two ranks, one, and two again.
          while (state.phase < 3 || state.step < 10) {
            const size = hvd.size();
            if (size === (state.phase === 1 ? 1 : 2) && state.phase < 3) state.phase++;
            await hvd.allreduce(new Float32Array(4));
            state.step++;
            await state.commit();
            await new Promise((later) => setTimeout(later, 20));
          }
        }, state);
        return { size: hvd.size(), local: `${hvd.localRank()} of ${hvd.localSize()}` };
      },
      {
        ...hidden,
        np: 2,
        minNp: 1,
        maxNp: 2,
        env: { HOROVOD_ELASTIC_COOLDOWN_RANGE: '0 0' },
        onOutput(_rank, _stream, line) {
          const [, size] = /^size (\d)$/.exec(line) ?? [];
          if (size === undefined) return;
          sizes.push(size);
          if (sizes.join('') === '22') tasks.agents.get(1)?.kill('SIGKILL');
          if (sizes.join('') === '221') tasks.start(1);
        },
      },
      tasks.give,
    );
    assert.deepEqual(
      results,
      [0, 1].map((rank) => ({ size: 2, local: `${rank} of 2` })),
    );
    assert.deepEqual(sizes, ['2', '2', '1', '2', '2']);
  },
);

test('places that do not come are an error that says how many there are', deadline, async () => {
  const tasks = placeTasks({ places: 1, timeoutMs: 1500 });
  const error = await failureOf(() => 0, { np: 2 }, tasks);
  assert.equal(error.code, 'ERR_HVD_HOST');
  assert.match(error.message, /the test has started [01] of 2 places within 1.5 s/);
  assert.ok(tasks.isClosed);
});

test(
  'an agent of a place that has one is turned away, and so is one with another secret',
  deadline,
  async () => {
    const tasks = placeTasks();
    const results = await startRun(
      () => 1,
      { ...hidden, np: 1 },
      async (wanted) => {
        const places = await tasks.give(wanted);
        const order = { ...places.dialOrder(0, 1), timeoutMs: 700 };
        for (const [wrong, says] of [
          [order, /rank 0 is connected there already/],
          [{ ...order, place: 5, secret: '0'.repeat(64) }, /rejected: another job, or a different secret/],
        ] as const) {
          const child = spawn(process.execPath, [agentPath, 'dial'], { stdio: ['pipe', 'ignore', 'pipe'] });
          let text = '';
          child.stderr.on('data', (piece: Buffer) => {
            text += piece.toString();
          });
          child.stdin.write(`${JSON.stringify(wrong)}\n`);
          const [code] = await once(child, 'close');
          assert.equal(code, 1);
          assert.match(text, says);
        }
        return places;
      },
    );
    assert.deepEqual(results, [1]);
  },
);

test('what an agent is told after the handshake does not have the secret', deadline, async () => {
  const orders: Buffer[] = [];
  let secret = '';
  const error = await startRun(
    () => 0,
    { ...hidden, np: 1 },
    async ({ settings, say }) => {
      const ended = async () => undefined;
      const manager = { name: 'the test', explainLoss: ended, close: ended };
      const places = await AgentPlaces.open({ settings, say, explain: () => undefined, manager });
      const order = places.dialOrder(0, 0);
      secret = order.secret;
      const { socket, keysFor } = await new Promise<Connection>((onConnection) => {
        const claim = { purpose: 'agents', from: 0, to: agentsNumber, channel: attemptChannel(0) } as const;
        new Dial({ identity: places.identity, claim, addresses: order.addresses, onConnection });
      });
      const frames = new SealedFrames(keysFor('frames'), maxFrameBytes);
      socket.on('data', (piece: Buffer) => {
        orders.push(...frames.open(piece));
        if (orders.some((each) => decodeBody(each).op === 'start')) socket.end();
      });
      socket.resume();
      const about = {
        protocol: protocolVersion,
        version: packageVersion(),
        node: '20',
        pid: 1,
        directory: '/',
      };
      const hello = { op: 'hello', ...about, hostname: 'h', loopback: 'l', machine: 'm' } as const;
      socket.write(frames.seal(encodeBody(hello)));
      await places.gather({ count: 1, timeoutMs: 10_000 });
      return places;
    },
  ).then(
    () => undefined,
    (reason: unknown) => reason,
  );
  assert.ok(HorovodError.is(error) && error.code === 'ERR_HVD_RUN', String(error));
  const text = Buffer.concat(orders).toString('latin1');
  assert.match(text, /"op":"prepare"/);
  assert.equal(secret.length, 64);
  assert.doesNotMatch(text, new RegExp(secret));
});

test('a notebook on a server goes to the places, and its errors name the cell', deadline, async (t) => {
  const cells = [
    'import * as hvd from "horovod";\nawait hvd.init();',
    'if (hvd.rank() === 1) throw new Error("here");\nawait hvd.barrier();',
  ];
  const notebook = Buffer.from(notebookText(cells));
  const server = createServer((request, response) => {
    const [, from = '0', to = ''] = /^bytes=(\d+)-(\d*)$/.exec(request.headers.range ?? '') ?? [];
    const piece = notebook.subarray(Number(from), to === '' ? notebook.length : Number(to) + 1);
    const isWhole = request.headers.range === undefined;
    response.writeHead(isWhole ? 200 : 206, {
      'accept-ranges': 'bytes',
      'content-length': piece.length,
      etag: '"1"',
      ...(isWhole
        ? {}
        : { 'content-range': `bytes ${from}-${Number(from) + piece.length - 1}/${notebook.length}` }),
    });
    response.end(request.method === 'HEAD' ? undefined : piece);
  }).listen(0, '127.0.0.1');
  t.after(() => server.close());
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const tasks = placeTasks();
  const job = runProgram({
    program: `http://127.0.0.1:${port}/train.ipynb`,
    options: { np: 2, display: 'none', tensorboard: false },
    signal: new AbortController().signal,
    onProgress: () => undefined,
    givePlaces: tasks.give,
  });
  await assert.rejects(job, /rank 1 failed in train\.ipynb, cell 2, line 1: .*here/);
  assert.deepEqual(
    readdirSync(process.cwd()).filter((name) => name.startsWith('.horovod-')),
    [],
  );
});
