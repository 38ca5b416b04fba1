// Tests of the bench's own logic: sizes and flags, rotation, medians, targets, tables, and running programs.
// Run with `node --test bench/harness/`.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { elements, resnet50Shapes } from '../ranks/resnet50-shapes.mjs';
import { collectivesOptions, RESNET50_BYTES } from './collectives-options.mjs';
import { jsonLines, runCommand } from './command.mjs';
import { processorKind, watchProcessor } from './machine.mjs';
import { notes } from './notes.mjs';
import { benchOptions, KiB, MiB, parseBytes } from './options.mjs';
import { comparePairs } from './pairs.mjs';
import { rotate, runRounds, summarize } from './rounds.mjs';
import { buildTables, formatBytes, formatUs, renderTable } from './tables.mjs';
import { judge, TARGETS, targetFor } from './targets.mjs';
import { planTraining, readResults } from './training-jobs.mjs';
import {
  buildTables as buildTrainingTables,
  gather,
  judge as judgeTraining,
  ratio,
  TARGETS as TRAINING_TARGETS,
} from './training-results.mjs';

const never = new AbortController().signal;

test('sizes are read with and without units', () => {
  assert.deepEqual(['4', '4K', '64KiB', '16m', '1GB'].map(parseBytes), [
    4,
    4 * KiB,
    64 * KiB,
    16 * MiB,
    1024 * MiB,
  ]);
  for (const wrong of ['', '3', '-4', '0', '4T', '4 floats', '3G']) {
    assert.throws(() => parseBytes(wrong), /is not a size/);
  }
});

test('the default sizes are 4 B to 256 MiB in steps of four', () => {
  const { sizes, rounds } = collectivesOptions.parse([]);
  assert.equal(sizes.length, 14);
  assert.deepEqual([sizes[0], sizes.at(-1), rounds], [4, 256 * MiB, 5]);
});

test('a size limit below the ResNet-50 set drops that topic', () => {
  assert.ok(!collectivesOptions.parse(['--max-bytes', '1M']).topics.includes('resnet50'));
  assert.ok(collectivesOptions.parse(['--max-bytes', '128M']).topics.includes('resnet50'));
});

test('pages are named after the kind of processor', () => {
  assert.equal(processorKind('Intel(R) Xeon(R) Processor'), 'intel-xeon');
  assert.equal(processorKind('AMD EPYC'), 'amd-epyc');
  assert.equal(processorKind('Some CPU @ 2.0GHz'), 'some-cpu-2-0ghz');
});

test('every collective has its targets', () => {
  const series = (ours, us) => ({ [ours]: { 4: { us, low: us, high: us } } });
  const target = TARGETS.find(({ ours, kind }) => ours === 'barrier' && kind === 'within');
  assert.equal(judge(target, { calls: series('barrier', 1.5) }).met, true);
  assert.equal(judge(target, { calls: series('barrier', 1.6) }).met, false);
  assert.equal(judge(target, { calls: {} }).met, undefined);
});

test('an unknown peer, topic or number is rejected by name', () => {
  assert.throws(() => collectivesOptions.parse(['--peers', 'openmpi,nccl']), /no "nccl"/);
  assert.throws(() => collectivesOptions.parse(['--rounds', '0']), /--rounds takes/);
});

test('all benchmarks share flags, and each adds its lists and choices', () => {
  const { help, parse } = benchOptions({
    name: 'x',
    about: 'Measures x.',
    rounds: 5,
    quick: { rounds: 1, about: 'short' },
    lists: { topics: { values: ['a', 'b', 'c'] }, optimizer: { values: ['sgd', 'adam'], isSingle: true } },
    canInstall: true,
  });
  assert.match(
    help,
    /--topics LIST +a,b,c \(all\)\n {2}--optimizer NAME +sgd,adam \(sgd\)\n {2}--no-install/,
  );
  const defaults = parse([]);
  assert.deepEqual([defaults.rounds, defaults.topics, defaults.optimizer], [5, ['a', 'b', 'c'], 'sgd']);
  assert.deepEqual(
    [defaults.install, defaults.quick, defaults.check, defaults.json],
    [true, false, false, undefined],
  );
  const quick = parse(['--quick', '--topics', 'c,a', '--optimizer=adam', '--no-install', '--json', 'f']);
  assert.deepEqual([quick.rounds, quick.topics, quick.optimizer], [1, ['a', 'c'], 'adam']);
  assert.deepEqual([quick.install, quick.json], [false, 'f']);
  assert.throws(() => parse(['--optimizer', 'sgd,adam']), /takes one of/);
  assert.throws(() => parse(['--topics', '']), /--topics/);
  assert.throws(() => parse(['--root', '/x']), /root/);
});

test('ResNet-50 has 161 tensors of 25 557 032 floats', () => {
  const shapes = resnet50Shapes();
  assert.equal(shapes.length, 161);
  assert.equal(4 * shapes.reduce((sum, shape) => sum + elements(shape), 0), RESNET50_BYTES);
});

test('over the rounds every job starts at a different place', () => {
  const jobs = ['a', 'b', 'c', 'd'];
  const orders = [0, 1, 2, 3].map((round) => rotate(jobs, round, 4).join(''));
  assert.deepEqual(orders, ['abcd', 'bcda', 'cdab', 'dabc']);
});

test('a figure is the median of the runs with the extremes beside it', () => {
  assert.deepEqual(summarize([3, 1, 2]), { us: 2, low: 1, high: 3, runs: [3, 1, 2] });
  assert.equal(summarize([4, 1]).us, 2.5);
});

test('a job that fails keeps what it printed before and is named', async () => {
  const job = {
    name: 'broken',
    topic: 'allreduce',
    series: ['horovod'],
    run: async () => ({ samples: [{ peer: 'horovod', bytes: 4, us: 2 }], failure: 'exit code 1' }),
  };
  const { series, failures } = await runRounds([job], 2, { say: () => {}, signal: never });
  assert.deepEqual(series.allreduce.horovod[4].runs, [2, 2]);
  assert.equal(failures.broken.why, 'exit code 1');
});

test('a target is met only when every size of its range meets it', () => {
  const target = targetFor('allreduce', 'horovod', 'openmpi', 16 * KiB);
  const fast = seriesOf({ openmpi: { 4096: 3, 16384: 8 }, horovod: { 4096: 1.5, 16384: 4 } });
  assert.equal(judge(target, fast).met, true);
  const uneven = seriesOf({ openmpi: { 4096: 3, 16384: 8 }, horovod: { 4096: 1.5, 16384: 6 } });
  const { met, worst } = judge(target, uneven);
  assert.deepEqual([met, worst.bytes], [false, 16384]);
});

test('a target without figures is neither met nor missed', () => {
  for (const target of TARGETS) assert.equal(judge(target, {}).met, undefined);
});

test('what await adds is judged in microseconds', () => {
  const target = targetFor('allreduce', 'await', 'horovod', 4);
  assert.equal(judge(target, seriesOf({ horovod: { 4: 0.3 }, await: { 4: 1.2 } })).met, true);
  assert.equal(judge(target, seriesOf({ horovod: { 4: 0.3 }, await: { 4: 1.4 } })).met, false);
});

test('a missing peer, one left out and one that failed are named in the tables', () => {
  const result = resultOf({
    peers: { openmpi: { ready: false, why: 'no mpicc' }, gloo: { ready: true, version: 'torch 1' } },
    failures: { gloo: { topic: 'allreduce', series: ['gloo'], why: 'exit code 1' } },
    series: seriesOf({ horovod: { 4: 0.3 } }),
  });
  const text = buildTables(result).map(renderTable).join('\n');
  assert.match(text, /\| 4 B +\| +left out \| +left out \| +missing \| +left out \| +0\.30 /);
  assert.match(text, /\| 4 B +\| +failed \| +0\.30 /);
  const sentences = notes(result).join('\n');
  assert.match(sentences, /openmpi: missing: no mpicc/);
  assert.match(sentences, /openmpi-tuned: left out/);
  assert.match(sentences, /gloo: failed: exit code 1/);
});

test('every row of every table has as many cells as its head', () => {
  const result = resultOf({
    series: seriesOf({ horovod: { 4: 0.3 }, await: { 4: 0.5 }, prepared: { 4: 0.2 } }),
  });
  for (const { title, head, rows } of buildTables(result)) {
    for (const row of rows) assert.equal(row.length, head.length, title);
  }
});

test('figures are written for people', () => {
  assert.deepEqual([0.25, 12.34, 1234567].map(formatUs), ['0.25', '12.3', '1 234 567']);
  assert.deepEqual([4, 4096, 64 * MiB, 102228128].map(formatBytes), ['4 B', '4 KiB', '64 MiB', '102 MB']);
});

test('JSON lines are found among other output, with or without a rank before them', () => {
  const text = 'hello\n{"peer":"a","bytes":4,"us":1}\n[0]<stdout>:{"peer":"b"}\n{broken}\n';
  assert.deepEqual(jsonLines(text), [{ peer: 'a', bytes: 4, us: 1 }, { peer: 'b' }]);
});

test('a program that cannot start, fails or does not end becomes a failure with its reason', async () => {
  assert.match((await runCommand('no-such-program', [])).failure, /ENOENT/);
  assert.equal((await runCommand(process.execPath, ['-e', 'process.exitCode = 3'])).failure, 'exit code 3');
  const endless = await runCommand(process.execPath, ['-e', 'setInterval(() => {}, 1000)'], {
    deadlineMs: 200,
  });
  assert.match(endless.failure, /did not end/);
});

test('processor time of children that have ended counts as ours', async () => {
  const shares = watchProcessor();
  const busy = 'const end = Date.now() + 500; while (Date.now() < end);';
  await runCommand(process.execPath, ['-e', busy]);
  const { own, foreign } = shares();
  assert.ok(own > 0, `own ${own}`);
  assert.ok(foreign >= 0 && foreign <= 1, `foreign ${foreign}`);
});

function seriesOf(times) {
  const allreduce = {};
  for (const [peer, byBytes] of Object.entries(times)) {
    allreduce[peer] = Object.fromEntries(
      Object.entries(byBytes).map(([bytes, us]) => [bytes, summarize([us])]),
    );
  }
  return { allreduce };
}

function resultOf(parts) {
  return {
    options: {
      rounds: 5,
      quick: false,
      sizes: [4],
      topics: ['allreduce', 'resnet50', 'oversubscribed', 'startup'],
    },
    machine: { cores: 2 },
    peers: {},
    failures: {},
    runs: [],
    idleness: { before: { idle: true, load: [0, 0, 0], foreign: 0 } },
    hasFingerprintSwitch: false,
    series: {},
    ...parts,
  };
}

test('training: ratios are taken round by round, and a series of one round counts for all', () => {
  const series = gather([
    { name: 'mlp wasm alone', round: 0, rate: 100 },
    { name: 'mlp wasm alone', round: 1, rate: 50 },
    { name: 'mlp wasm ranks', round: 0, rate: 190 },
    { name: 'mlp wasm ranks', round: 1, rate: 96 },
    { name: 'mlp cpu alone', round: 0, rate: 5 },
  ]);
  const { value, low, high } = ratio(series, 'mlp wasm ranks', 'mlp wasm alone', 2);
  assert.deepEqual(
    [value, low, high].map((x) => x.toFixed(3)),
    ['0.955', '0.950', '0.960'],
  );
  assert.equal(ratio(series, 'mlp wasm alone', 'mlp cpu alone').low, 10);
  assert.equal(ratio(series, 'mlp wasm alone', 'cnn cpu alone'), undefined);
  const [first] = TRAINING_TARGETS.map((target) => judgeTraining(target, series));
  assert.equal(first.met, true);
});

test('training: two ranks count twice, processes apart are added up, and a missing figure is a failure', () => {
  const printed = (rate) => ({ stdout: `${JSON.stringify({ rate })}\n`, stderr: '' });
  assert.equal(readResults([printed(100)], 'ranks').rate, 200);
  assert.equal(readResults([printed(100), printed(90)], 'apart').rate, 190);
  assert.equal(readResults([printed(100)], 'threads').rate, 100);
  assert.match(readResults([printed(100), { stdout: '', stderr: '' }], 'apart').failure, /1 of 2 figures/);
  assert.match(
    readResults([{ stdout: '', stderr: 'no', failure: 'exit code 1' }], 'alone').failure,
    /exit code 1: no/,
  );
});

test('training: what is not installed is not run, and the tables say which targets were not measured', () => {
  const options = {
    models: ['mlp', 'cnn'],
    backends: ['wasm', 'wasm-module', 'wasm-stock', 'tensorflow', 'torch'],
    optimizer: 'sgd',
  };
  const absent = { ready: false };
  const jobs = planTraining({ options, tfjsNode: absent, torch: absent, root: '.', benchFolder: '.' });
  assert.deepEqual(
    jobs.map(({ name }) => name),
    [
      ...['alone', 'ranks', 'apart', 'threads'].map((way) => `mlp wasm ${way}`),
      'mlp wasm-module alone',
      'mlp wasm-stock alone',
      ...['alone', 'ranks', 'apart', 'threads'].map((way) => `cnn wasm ${way}`),
      'cnn wasm-module alone',
    ],
  );
  const series = gather(jobs.map(({ name }) => ({ name, round: 0, rate: 64 })));
  const batches = Object.fromEntries(jobs.map(({ name, batch }) => [name, batch]));
  const timelines = {
    'mlp wasm ranks': { forwardMs: 1, backwardMs: 2, exposedCommunicationMs: 1, updateMs: 0 },
  };
  const targets = TRAINING_TARGETS.map((target) => judgeTraining(target, series));
  const steadiness = { 'mlp wasm alone': { p50: 1, p90: 2, p99: 3.5, scavengesPer1000: 250 } };
  const text = buildTrainingTables({ options, series, batches, timelines, steadiness, targets })
    .map(renderTable)
    .join('\n');
  assert.match(text, /2 ranks\*\* \| +64 \| +64 … 64 \| +2000\.0 \| +0\.500/);
  assert.match(text, /25\.0 %/);
  assert.match(text, /1 process, no Horovod \| +1\.00 \| +2\.00 \| +3\.50 \| +250/);
  assert.match(text, /tfjs-node: scaling efficiency +\| +≥ 0\.93 \| +not measured/);
});

test('two builds are compared within pairs, and a slow moment is in both of a pair', () => {
  const pairs = Array.from({ length: 21 }, (_, pair) => {
    const load = pair % 3 === 0 ? 4 : 1;
    return [10 * load, 11 * load];
  });
  const { other, ours, ratio, low, high } = comparePairs(pairs);
  assert.deepEqual([other, ours].map(Math.round), [10, 11]);
  for (const each of [ratio, low, high]) assert.ok(Math.abs(each - 1.1) < 1e-9, String(each));
  const noisy = comparePairs(pairs.map(([a, b], pair) => [a, pair % 2 === 0 ? b : 0.5 * b]));
  assert.ok(noisy.low < noisy.ratio && noisy.ratio <= noisy.high);
});
