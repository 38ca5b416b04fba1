// `npm run bench:data`: TFRecord files read and written by this checkout, against Python TensorFlow and npm's tfrecord-stream, on one
// core; and whole pipelines with threads. Each contestant is a process that stays; rounds are interleaved (A B A B …), a ratio is
// taken in every round, and the table has its median and quartiles. A round in which other processes used more than 10 % of the
// processors is repeated. Writes the figures as JSON. See README.md beside.
import { spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { parseArgs } from 'node:util';
import { dataNotes, dataTables, judgeData, pipelineTopics, topics } from './harness/data-results.mjs';
import { describeMachine, sampleIdleness, watchProcessor } from './harness/machine.mjs';
import { renderTable } from './harness/tables.mjs';

const { values: options } = parseArgs({
  options: {
    rounds: { type: 'string', default: '7' },
    seconds: { type: 'string', default: '2' },
    repeats: { type: 'string', default: '3' },
    quick: { type: 'boolean', default: false },
    only: { type: 'string' },
    help: { type: 'boolean', short: 'h' },
  },
});
if (options.help) {
  console.log(`npm run bench:data -- [--rounds N] [--seconds S] [--repeats N] [--quick] [--only TOPIC]

Measures reading and writing of TFRecord files. HVD_TENSORFLOW_PYTHON names a Python with TensorFlow (else .cache/tensorflow-venv,
else python3). To make it: python3 -m venv .cache/tensorflow-venv && .cache/tensorflow-venv/bin/pip install tensorflow-cpu. To
compare with tfrecord-stream: npm install --prefix .cache/tfrecord-stream tfrecord-stream
--repeats: how often a round is repeated while other programs use the machine (3).
--quick: two short rounds of small files, to see whether it runs.`);
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

/** A process that gets a task per line and answers with its figures. */
class Contestant {
  /** `threads`: those of its pipelines; undefined: the default. Without threads it runs on one core. */
  constructor(name, command, args, threads = '0') {
    this.name = name;
    const isAble = spawnSync('taskset', ['--version']).status === 0;
    const pinned = threads === '0' && isAble ? ['taskset', '-c', '0'] : [];
    const [program, ...rest] = [...pinned, command, ...args];
    this.process = spawn(program, rest, {
      stdio: ['pipe', 'pipe', 'inherit'],
      env: { ...process.env, TF_CPP_MIN_LOG_LEVEL: '3', HOROVOD_DATA_THREADS: threads },
    });
    this.lines = createInterface({ input: this.process.stdout })[Symbol.asyncIterator]();
    this.isPinned = pinned.length > 0;
  }

  async run(task) {
    this.process.stdin.write(`${JSON.stringify(task)}\n`);
    const { value, done } = await this.lines.next();
    if (done) throw new Error(`${this.name} has ended`);
    return JSON.parse(value);
  }

  close() {
    this.process.stdin.end();
  }
}

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
if (!existsSync(streamPackage)) missing['tfrecord-stream'] = 'not installed in .cache/tfrecord-stream';

mkdirSync(folder, { recursive: true });
const contestants = {
  horovod: new Contestant('horovod', process.execPath, [path.join(here, 'peers/tfrecord-horovod.mjs')]),
  tensorflow: new Contestant('tensorflow', python, [path.join(here, 'peers/tfrecord-tensorflow.py')]),
  pipelines: new Contestant(
    'pipelines',
    process.execPath,
    [path.join(here, 'peers/data-pipelines.mjs')],
    '1',
  ),
};
if (missing['tfrecord-stream'] === undefined) {
  const script = path.join(here, 'peers/tfrecord-stream.mjs');
  contestants['tfrecord-stream'] = new Contestant('tfrecord-stream', process.execPath, [
    script,
    streamPackage,
  ]);
}

const [results, pipelines] = [[], []];
let versions;
try {
  const scale = options.quick ? 50 : 1;
  versions = {
    tensorflow: await contestants.tensorflow.run({ task: 'make', folder, scale }),
    horovod: await contestants.horovod.run({ task: 'versions' }),
  };
  if (missing['tfrecord-stream'] === undefined) {
    versions['tfrecord-stream'] = createRequire(import.meta.url)(
      path.join(streamPackage, 'package.json'),
    ).version;
  }
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
  isPinned: contestants.horovod.isPinned,
  results,
  pipelines,
};
report.targets = judgeData(report);
report.notes = dataNotes(report);
mkdirSync(path.join(here, 'results'), { recursive: true });
const file = path.join(here, 'results', options.quick ? 'quick-data.json' : 'data.json');
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
  say(`${topic.name}: ${quantile(values, 0.5).toFixed(3)}`);
  const quartiles = [quantile(values, 0.25), quantile(values, 0.75)];
  return { ...topic, value: quantile(values, 0.5), quartiles, values, foreignShares };
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
  say(`${title}: ${quantile(ratios, 0.5).toFixed(2)}`);
  const median = (list, name) =>
    quantile(
      list.map((each) => each[name]),
      0.5,
    );
  const medianOf = (list) => ({
    recordsPerSecond: median(list, 'recordsPerSecond'),
    mbPerSecond: median(list, 'mbPerSecond'),
  });
  return {
    ours: medianOf(ours),
    theirs: medianOf(theirs),
    ratio: quantile(ratios, 0.5),
    cpuRatio: quantile(cpuRatios, 0.5),
    cpuRatios,
    quartiles: [quantile(ratios, 0.25), quantile(ratios, 0.75)],
    ratios,
    foreignShares,
  };
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

function quantile(list, share) {
  const sorted = [...list].sort((a, b) => a - b);
  const place = (sorted.length - 1) * share;
  const [low, high] = [sorted[Math.floor(place)], sorted[Math.ceil(place)]];
  return low + (high - low) * (place - Math.floor(place));
}
