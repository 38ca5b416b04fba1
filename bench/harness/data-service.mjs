// The rows of bench:data about the data service: compute workers of `horovod compute-worker`, a trainer, and for each row a peer that
// does the same without a service.
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Contestant, pinned, spreadOf } from './contestant.mjs';
import { watchProcessor } from './machine.mjs';
import { withBox } from './with-box.mjs';

const bench = path.join(import.meta.dirname, '..');
const command = path.join(bench, '../dist/cli/main.js');
const trainer = path.join(bench, 'peers/data-service-trainer.mjs');
const blockBytes = 2 ** 24;
const startMs = 60_000;
/** The address of host1 of a box, and the speed of the line between its hosts. */
const firstHost = '10.77.0.1';
const rate = '10gbit';
/** Multiplications for each sample: about 10 ms for a batch of 128. */
const turns = 60_000;
export const workers = Math.min(2, os.availableParallelism());

export const serviceTopics = [
  {
    name: 'batches of 16 MiB, same host',
    peer: 'memcpy of them between two processes',
    limit: 'memory',
    target: 0.8,
  },
  {
    name: 'batches of 16 MiB, over a connection (loopback)',
    peer: 'a plain TCP stream',
    limit: 'tcp',
    transport: 'tcp',
    target: 0.8,
  },
  {
    name: 'batches of 16 MiB, between two hosts, 10 Gbit/s',
    peer: 'a plain TCP stream',
    limit: 'tcp',
    hosts: 2,
    target: 0.8,
  },
  {
    name: `${workers} workers of one core, work in map()`,
    peer: `the same pipeline with ${workers} threads`,
    target: 0.9,
  },
];

/** @returns for each topic its figures, or why there are none. */
export async function measureService(topics, { folder, rounds, seconds, samples, say }) {
  if (topics.length === 0) return [];
  const limits = buildLimits(folder);
  const results = [];
  for (const topic of topics) {
    if (topic.limit !== undefined && limits.why !== undefined) {
      results.push({ ...topic, skipped: limits.why });
      say(`${topic.name}: skipped, ${limits.why}`);
      continue;
    }
    const isBlocks = topic.limit !== undefined;
    const measure = topic.hosts === undefined ? measureHere : measureBetweenHosts;
    try {
      results.push({
        ...topic,
        ...(await measure(topic, { folder, rounds, seconds, samples, isBlocks, program: limits.program })),
      });
      say(`${topic.name} against ${topic.peer}: ${results.at(-1).ratio.toFixed(2)}`);
    } catch (error) {
      if (!(error instanceof NoBox)) throw error;
      results.push({ ...topic, skipped: error.message });
      say(`${topic.name}: skipped, ${error.message}`);
    }
  }
  return results;
}

async function measureHere(topic, { folder, rounds, seconds, samples, isBlocks, program }) {
  // Blocks are ready: no thread has to copy them. Else each worker has a core, and what it has by default.
  const service = await Service.start(path.join(folder, 'compute.json'), isBlocks ? 1 : workers, {
    isBound: !isBlocks,
    flags: isBlocks ? ['--threads', '0'] : [],
  });
  const ours = new Contestant('trainer', process.execPath, [trainer], {
    env: { HOROVOD_DATA_THREADS: '0' },
  });
  const theirs = isBlocks
    ? undefined
    : new Contestant('threads', process.execPath, [trainer], {
        env: { HOROVOD_DATA_THREADS: String(workers) },
      });
  const task = isBlocks
    ? { task: 'blocks', bytes: blockBytes }
    : { task: 'mapped', file: path.join(folder, '3k.tfrecord'), turns };
  const own = { ...task, config: service.config, transport: topic.transport };
  const peer = (length) =>
    isBlocks
      ? runLimit(program, [topic.limit, blockBytes, length.seconds])
      : theirs.run({ ...task, ...length });
  try {
    if (!isBlocks) {
      // A whole epoch of both: the same samples with the same values.
      const [a, b] = [await ours.run({ ...own, samples }), await peer({ samples })];
      if (a.sum !== b.sum || a.samples !== b.samples)
        throw new Error(`${topic.name}: ${JSON.stringify(a)} against ${JSON.stringify(b)}`);
    }
    return await compared(rounds, isBlocks, [() => ours.run({ ...own, seconds }), () => peer({ seconds })]);
  } finally {
    ours.close();
    theirs?.close();
    await service.end();
  }
}

class NoBox extends Error {}

/** A worker on one host of a box, the trainer on the other. */
async function measureBetweenHosts(topic, { rounds, seconds, isBlocks, program }) {
  if (!existsSync(path.join(bench, '../.dist-test'))) throw new NoBox('tests are not compiled');
  const { canUseBox } = await import('../../.dist-test/test/support/box.js');
  const reason = canUseBox();
  if (reason !== undefined) throw new NoBox(reason);
  return await withBox(topic.hosts, async (box) => {
    for (const host of box.hosts) await box.rate(host, rate);
    const config = path.join(box.shared, 'compute.json');
    const root = path.join(bench, '..');
    const words = ['compute-worker', config, '--rank', '0', '--size', '1', '--threads', '0'];
    const [from, to] = box.hosts;
    const worker = box.start(from, [process.execPath, command, ...words], { cwd: root });
    const run = async (host, argv) => {
      const { exitCode, stdout, stderr } = await box.exec(host, argv, {
        cwd: root,
        env: { HOROVOD_DATA_THREADS: '0' },
        timeoutMs: startMs + 1000 * seconds,
      });
      if (exitCode !== 0) throw new Error(`${topic.name}: ${stderr}`);
      return JSON.parse(stdout);
    };
    const task = { task: 'blocks', bytes: blockBytes, config, seconds };
    let port = 5000;
    const ours = () => run(to, [process.execPath, trainer, JSON.stringify(task)]);
    const theirs = async () => {
      port += 1;
      const sender = box.start(from, [program, 'send', String(port), String(blockBytes)]);
      const figures = await run(to, [program, 'receive', firstHost, port, blockBytes, seconds].map(String));
      await sender.endedWithin(startMs);
      return figures;
    };
    try {
      return await compared(rounds, isBlocks, [ours, theirs]);
    } finally {
      worker.kill('SIGTERM');
      await worker.endedWithin(startMs);
    }
  });
}

async function compared(rounds, isBlocks, [ours, theirs]) {
  const [own, other, ratios, foreignShares] = [[], [], [], []];
  for (let round = -1; round < rounds; round++) {
    const shares = watchProcessor();
    const a = rateOf(await ours(), isBlocks);
    const b = rateOf(await theirs(), isBlocks);
    if (round < 0) continue;
    own.push(a);
    other.push(b);
    ratios.push(a / b);
    foreignShares.push(shares().foreign);
  }
  const { median: ratio, quartiles } = spreadOf(ratios);
  const unit = isBlocks ? 'MB/s' : 'samples/s';
  const [mine, peers] = [spreadOf(own).median, spreadOf(other).median];
  return { unit, ours: mine, theirs: peers, ratio, quartiles, ratios, foreignShares };
}

function rateOf({ bytes, samples, seconds }, isBlocks) {
  return isBlocks ? bytes / seconds / 1e6 : samples / seconds;
}

class Service {
  static async start(config, count, { isBound, flags }) {
    rmSync(config, { force: true });
    const processes = Array.from({ length: count }, (_, rank) => {
      const words = ['compute-worker', config, '--rank', String(rank), '--size', String(count), ...flags];
      const [program, ...rest] = [...pinned(isBound ? rank : undefined), process.execPath, command, ...words];
      return spawn(program, rest, { cwd: path.join(bench, '..'), stdio: ['ignore', 'ignore', 'inherit'] });
    });
    const service = new Service(config, processes);
    const end = performance.now() + startMs;
    while (!existsSync(config)) {
      if (performance.now() < end && processes.every(({ exitCode }) => exitCode === null)) await sleep(50);
      else {
        await service.end();
        throw new Error('the compute workers have not started');
      }
    }
    return service;
  }

  constructor(config, processes) {
    this.config = config;
    this.processes = processes;
  }

  async end() {
    for (const each of this.processes) each.kill('SIGTERM');
    for (const each of this.processes)
      if (each.exitCode === null && each.signalCode === null) await once(each, 'exit');
  }
}

function buildLimits(folder) {
  const program = path.join(folder, 'block-limit');
  const source = path.join(bench, 'peers/block-limit.c');
  const { status, stderr, error } = spawnSync('gcc', ['-O3', source, '-o', program], { encoding: 'utf8' });
  return status === 0
    ? { program }
    : { why: `block-limit.c cannot be compiled: ${error?.message ?? stderr}` };
}

function runLimit(program, words) {
  const { status, stdout, stderr } = spawnSync(program, words.map(String), { encoding: 'utf8' });
  if (status !== 0) throw new Error(`block-limit ${words[0]} failed: ${stderr}`);
  return JSON.parse(stdout);
}
