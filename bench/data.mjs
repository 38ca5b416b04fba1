// `npm run bench:data`: TFRecord files read and written by this checkout, against Python TensorFlow and npm's tfrecord-stream, on one
// core; whole pipelines with threads; and the data service. Each contestant is a process that stays; rounds are interleaved (A B A B …), a ratio is
// taken in every round, and the table has its median and quartiles. A round in which other processes used more than 10 % of the
// processors is repeated. Writes the figures as JSON. See README.md beside.
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { Contestant, spreadOf } from './harness/contestant.mjs';
import { dataNotes, dataTables, judgeData, pipelineTopics, topics } from './harness/data-results.mjs';
import { measureService, serviceTopics } from './harness/data-service.mjs';
import { describeMachine, sampleIdleness, watchProcessor } from './harness/machine.mjs';
import { renderTable } from './harness/tables.mjs';

const { values: options } = parseArgs({
  options: {
    rounds: { type: 'string', default: '7' },
    seconds: { type: 'string', default: '2' },
    repeats: { type: 'string', default: '3' },
    quick: { type: 'boolean', default: false },
    only: { type: 'string' },
    json: { type: 'string' },
    help: { type: 'boolean', short: 'h' },
  },
});
if (options.help) {
  console.log(`npm run bench:data -- [--rounds N] [--seconds S] [--repeats N] [--quick] [--only TOPIC] [--json FILE]

Measures reading and writing of TFRecord files, pipelines, and the data service. HVD_TENSORFLOW_PYTHON names a Python with TensorFlow (else .cache/tensorflow-venv,
else python3). To make it: python3 -m venv .cache/tensorflow-venv && .cache/tensorflow-venv/bin/pip install tensorflow-cpu. To
compare with tfrecord-stream: npm install --prefix .cache/tfrecord-stream tfrecord-stream
--repeats: how often a round is repeated while other programs use the machine (3).
--quick: two short rounds of small files, to see whether it runs.
--json: where the figures go (bench/results/data.json).`);
  process.exit(0);
}

const foreignLimit = 0.1;
const maxRepeats = Number(options.repeats);
const rounds = options.quick ? 2 : Number(options.rounds);
const seconds = options.quick ? 0.2 : Number(options.seconds);
const here = import.meta.dirname;
const folder = path.join(here, 'build', options.quick ? 'data-quick' : 'data');
const ownPython = path.join(here, '../.cache/tensorflow-venv/bin/python');
const python = process.env.HVD_TENSORFLOW_PYTHON ?? (existsSync(ownPython) ? ownPython : 'python3');
const say = (text) => process.stderr.write(`${text}\n`);

const startedAt = new Date();
const start = performance.now();
const { signal } = new AbortController();
const before = await sampleIdleness(signal);
const missing = {};
if (!existsSync(path.join(here, '../dist/data/tfrecord-writer.js'))) {
  say('There is no build: run npm run build first.');
  process.exit(1);
}
if (
  spawnSync(python, ['-c', 'import importlib.util as u; exit(u.find_spec("tensorflow") is None)']).status !==
  0
) {
  say(`${python} has no TensorFlow, which also makes the files. Set HVD_TENSORFLOW_PYTHON.`);
  process.exit(1);
}
const streamPackage = path.join(here, '../.cache/tfrecord-stream/node_modules/tfrecord-stream');
if (!existsSync(streamPackage)) {
  const why = 'not installed in .cache/tfrecord-stream';
  missing['tfrecord-stream'] = why;
  missing['tfrecord-stream in JavaScript'] = why;
}

mkdirSync(folder, { recursive: true });
/** `threads`: those of its pipelines. Without threads it runs on one core. */
function contestant(name, program, script, { threads = 0, args = [] } = {}) {
  const core = threads === 0 ? 0 : undefined;
  const env = { HOROVOD_DATA_THREADS: String(threads) };
  return new Contestant(name, program, [path.join(here, 'peers', script), ...args], { core, env });
}
const contestants = {
  horovod: contestant('horovod', process.execPath, 'tfrecord-horovod.mjs'),
  tensorflow: contestant('tensorflow', python, 'tfrecord-tensorflow.py'),
  pipelines: contestant('pipelines', process.execPath, 'data-pipelines.mjs', { threads: 1 }),
};
if (existsSync(streamPackage)) {
  for (const [name, ...more] of [['tfrecord-stream'], ['tfrecord-stream in JavaScript', '--javascript']]) {
    const args = [streamPackage, ...more];
    contestants[name] = contestant(name, process.execPath, 'tfrecord-stream.mjs', { args });
  }
}

const [results, pipelines] = [[], []];
let [versions, checked, service] = [undefined, [], []];
try {
  const scale = options.quick ? 50 : 1;
  versions = {
    tensorflow: await contestants.tensorflow.run({ task: 'make', folder, scale }),
    horovod: await contestants.horovod.run({ task: 'versions' }),
  };
  if (missing['tfrecord-stream'] === undefined) {
    const { version } = createRequire(import.meta.url)(path.join(streamPackage, 'package.json'));
    for (const name of ['tfrecord-stream', 'tfrecord-stream in JavaScript']) {
      const { checksums } = await contestants[name].run({ task: 'versions' });
      versions[name] = `${version}, checksums ${checksums}`;
    }
  }
  checked = await compareValues();
  for (const topic of topics) {
    if (options.only !== undefined && !topic.name.includes(options.only)) continue;
    const title = `${topic.name} against ${topic.peer}`;
    if (contestants[topic.peer] === undefined) {
      say(`${title}: skipped, ${topic.peer} is ${missing[topic.peer]}`);
      results.push({ ...topic, skipped: missing[topic.peer] });
      continue;
    }
    results.push({ ...topic, ...(await compare(topic, title)) });
  }
  for (const topic of pipelineTopics) {
    if (options.only === undefined || topic.name.includes(options.only)) pipelines.push(await measure(topic));
  }
  const wanted = serviceTopics.filter(
    ({ name }) => options.only === undefined || name.includes(options.only),
  );
  const samples = Math.max(1, Math.floor(40_000 / scale));
  service = await measureService(wanted, { folder, rounds, seconds, samples, say });
} finally {
  for (const contestant of Object.values(contestants)) contestant.close();
}

const report = {
  format: 1,
  kind: 'data',
  command: ['npm run bench:data', ...(process.argv.length > 2 ? ['--', ...process.argv.slice(2)] : [])].join(
    ' ',
  ),
  startedAt: startedAt.toISOString(),
  seconds: (performance.now() - start) / 1000,
  version: JSON.parse(readFileSync(path.join(here, '../package.json'), 'utf8')).version,
  options: { rounds, seconds, quick: options.quick },
  machine: describeMachine(),
  idleness: { before, after: await sampleIdleness(signal) },
  crc32c: versions.horovod.crc32c,
  peers: {
    'Python TensorFlow': { version: versions.tensorflow },
    'tfrecord-stream': { version: versions['tfrecord-stream'], why: missing['tfrecord-stream'] },
  },
  checked,
  isPinned: contestants.horovod.isPinned,
  results,
  pipelines,
  service,
};
report.targets = judgeData(report);
report.notes = dataNotes(report);
const file = options.json ?? path.join(here, 'results', options.quick ? 'quick-data.json' : 'data.json');
mkdirSync(path.dirname(path.resolve(file)), { recursive: true });
writeFileSync(file, `${JSON.stringify(report, null, 1)}\n`);
console.log(dataTables(report).map(renderTable).join('\n'));
say(`wrote ${path.relative(process.cwd(), file)}`);

/** A figure of ours alone: the same in every round, the first of which does not count. */
async function measure({ file: name, ...topic }) {
  const [values, foreignShares] = [[], []];
  for (let round = -1; round < rounds; round++) {
    const shares = watchProcessor();
    const { value } = await contestants.pipelines.run({ ...topic, file: path.join(folder, name), seconds });
    const { foreign, own } = shares();
    if (round < 0) continue;
    values.push(value);
    // Its own threads are among these: told, not judged.
    foreignShares.push(Number((foreign + own).toFixed(3)));
  }
  const { median: value, quartiles } = spreadOf(values);
  say(`${topic.name}: ${value.toFixed(3)}`);
  return { ...topic, value, quartiles, values, foreignShares };
}

async function compare(topic, title) {
  const task = { task: topic.task, file: path.join(folder, topic.file), seconds };
  const [ours, theirs, ratios, cpuRatios, foreignShares] = [[], [], [], [], []];
  // The first round warms files and code and does not count.
  for (let round = -1; round < rounds; round++) {
    for (let attempt = 0; ; attempt++) {
      const shares = watchProcessor();
      const a = figuresOf(await contestants.horovod.run(task));
      const b = figuresOf(await contestants[topic.peer].run({ ...task, task: topic.peerTask ?? topic.task }));
      checkSameWork(a, b, topic, title);
      const { foreign, own } = shares();
      // The contestants themselves count as foreign: they are other processes. One core of them is expected.
      const others = Math.max(0, foreign + own - 1 / describeMachine().cores);
      if (round >= 0 && others > foreignLimit && attempt < maxRepeats && !options.quick) {
        say(`${title}: round ${round + 1} repeated, other processes used ${Math.round(100 * others)} %`);
        continue;
      }
      if (round >= 0) {
        ours.push(a);
        theirs.push(b);
        ratios.push(a.recordsPerSecond / b.recordsPerSecond);
        cpuRatios.push(a.recordsPerCpuSecond / b.recordsPerCpuSecond);
        foreignShares.push(Number(others.toFixed(3)));
      }
      break;
    }
  }
  const { median: ratio, quartiles } = spreadOf(ratios);
  say(`${title}: ${ratio.toFixed(2)}`);
  const medianOf = (list) => ({
    recordsPerSecond: spreadOf(list.map((each) => each.recordsPerSecond)).median,
    mbPerSecond: spreadOf(list.map((each) => each.mbPerSecond)).median,
  });
  return {
    ours: medianOf(ours),
    theirs: medianOf(theirs),
    ratio,
    cpuRatio: spreadOf(cpuRatios).median,
    cpuRatios,
    quartiles,
    ratios,
    foreignShares,
  };
}

/** The values of all files, as both sides parse them: those that TensorFlow has written, and one of this checkout. */
async function compareValues() {
  const files = [...new Set(topics.filter(({ task }) => task !== 'write').map(({ file }) => file))];
  const own = 'written-by-horovod.tfrecord';
  await contestants.horovod.run({ task: 'write-file', file: path.join(folder, own) });
  const compared = [];
  for (const name of [...files, own]) {
    const task = { task: 'digest', file: path.join(folder, name) };
    const [ours, theirs] = [await contestants.horovod.run(task), await contestants.tensorflow.run(task)];
    if (ours.digest !== theirs.digest || ours.records !== theirs.records)
      throw new Error(`${name}: ${JSON.stringify(ours)} here, ${JSON.stringify(theirs)} in TensorFlow`);
    compared.push({ name, ...ours });
  }
  say(`the same values on both sides: ${compared.map(({ name }) => name).join(', ')}`);
  return compared;
}

/** Both must have seen the same bytes in a record; tfrecord-stream stops in the middle of a file, so totals differ. */
function checkSameWork(a, b, { name }, title) {
  const [ours, theirs] = [a.bytesPerRecord, b.bytesPerRecord];
  if (Math.abs(ours - theirs) <= 0.001 * theirs) return;
  throw new Error(`${title}: ${ours} bytes per record against ${theirs}; "${name}" is not the same work`);
}

function figuresOf({ records, bytes, seconds: took, cpuSeconds }) {
  return {
    recordsPerCpuSecond: records / cpuSeconds,
    bytesPerRecord: bytes / records,
    recordsPerSecond: records / took,
    mbPerSecond: bytes / took / 1e6,
  };
}
