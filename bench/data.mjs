// `npm run bench:data`: TFRecord files read and written by this checkout, against Python TensorFlow and npm's tfrecord-stream, on one
// core. Each contestant is a process that stays; rounds are interleaved (A B A B …), a ratio is taken in every round, and the table
// has its median and quartiles. A round in which other processes used more than 10 % of the processors is repeated. Writes the
// figures as JSON. See README.md beside.
import { spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { parseArgs } from 'node:util';
import { describeMachine, loadAverage, watchProcessor } from './harness/machine.mjs';

const { values: options } = parseArgs({
  options: {
    rounds: { type: 'string', default: '7' },
    seconds: { type: 'string', default: '2' },
    quick: { type: 'boolean', default: false },
    only: { type: 'string' },
    help: { type: 'boolean', short: 'h' },
  },
});
if (options.help) {
  console.log(`npm run bench:data -- [--rounds N] [--seconds S] [--quick] [--only TOPIC]

Measures reading and writing of TFRecord files. HVD_TENSORFLOW_PYTHON names a Python with TensorFlow (else .cache/tensorflow-venv,
else python3). To make it: python3 -m venv .cache/tensorflow-venv && .cache/tensorflow-venv/bin/pip install tensorflow-cpu. To
compare with tfrecord-stream: npm install --prefix .cache/tfrecord-stream tfrecord-stream
--quick: two short rounds of small files, to see whether it runs.`);
  process.exit(0);
}

const foreignLimit = 0.1;
const maxRepeats = 3;
const rounds = options.quick ? 2 : Number(options.rounds);
const seconds = options.quick ? 0.2 : Number(options.seconds);
const here = import.meta.dirname;
const folder = path.join(here, 'build', options.quick ? 'data-quick' : 'data');
const ownPython = path.join(here, '../.cache/tensorflow-venv/bin/python');
const python = process.env.HVD_TENSORFLOW_PYTHON ?? (existsSync(ownPython) ? ownPython : 'python3');
const say = (text) => process.stderr.write(`${text}\n`);

/** What is compared: our figure divided by the peer's must reach the target. Rows of the data service will follow. */
const topics = [
  ...pairs('records 3 KB', 'records', '3k.tfrecord', 0.8),
  ...pairs('records 100 KB', 'records', '100k.tfrecord', 0.8),
  ...pairs('parsed, in the graph', 'parsed', '3k.tfrecord', 1.0),
  ...pairs('parsed, Python loop', 'parsed', '3k.tfrecord', 1.5, 'parsed-loop'),
  ...pairs('GZIP', 'records', '3k-gzip.tfrecord', 0.9),
  { name: 'writing 3 KB Examples', task: 'write', file: 'written', peer: 'tensorflow', target: 1.0 },
  { name: 'records 3 KB', task: 'records', file: '3k.tfrecord', peer: 'tfrecord-stream', target: 10 },
];

/** A pipeline, and the codec alone, against the same peer. */
function pairs(name, task, file, target, peerTask = task) {
  const common = { file, peer: 'tensorflow', peerTask };
  return [
    { name, task, target, ...common },
    { name: `${name}: codec alone`, task: `codec-${task}`, ...common },
  ];
}

/** A process that gets a task per line and answers with its figures. */
class Contestant {
  constructor(name, command, args) {
    this.name = name;
    const pinned = spawnSync('taskset', ['--version']).status === 0 ? ['taskset', '-c', '0'] : [];
    const [program, ...rest] = [...pinned, command, ...args];
    this.process = spawn(program, rest, {
      stdio: ['pipe', 'pipe', 'inherit'],
      env: { ...process.env, TF_CPP_MIN_LOG_LEVEL: '3', HOROVOD_DATA_THREADS: '0' },
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
};
if (missing['tfrecord-stream'] === undefined) {
  const script = path.join(here, 'peers/tfrecord-stream.mjs');
  contestants['tfrecord-stream'] = new Contestant('tfrecord-stream', process.execPath, [
    script,
    streamPackage,
  ]);
}

const results = [];
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
} finally {
  for (const contestant of Object.values(contestants)) contestant.close();
}

const report = {
  machine: describeMachine(),
  load: loadAverage(),
  versions,
  isPinned: contestants.horovod.isPinned,
  rounds,
  seconds,
  results,
};
mkdirSync(path.join(here, 'results'), { recursive: true });
const file = path.join(here, 'results', options.quick ? 'data-quick.json' : 'data.json');
writeFileSync(file, `${JSON.stringify(report, null, 1)}\n`);
console.log('| what | peer | ours records/s | MB/s | peer records/s | MB/s | ratio (quartiles) | target |');
console.log('| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |');
for (const each of results) {
  if (each.skipped !== undefined)
    console.log(`| ${each.name} | ${each.peer} | | | | | skipped: ${each.skipped} | ${each.target ?? ''} |`);
  else {
    const { ours, theirs, ratio, quartiles } = each;
    const figures = [ours, theirs].flatMap(({ recordsPerSecond, mbPerSecond }) => [
      Math.round(recordsPerSecond),
      Math.round(mbPerSecond),
    ]);
    const spread = quartiles.map((value) => value.toFixed(2)).join(' to ');
    console.log(
      `| ${each.name} | ${each.peer} | ${figures.join(' | ')} | ${ratio.toFixed(2)} (${spread}) | ${each.target ?? ''} |`,
    );
  }
}
say(`wrote ${path.relative(process.cwd(), file)}`);

async function compare(topic, title) {
  const task = { task: topic.task, file: path.join(folder, topic.file), seconds };
  const [ours, theirs, ratios, foreignShares] = [[], [], [], []];
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
        foreignShares.push(Number(others.toFixed(3)));
      }
      break;
    }
  }
  say(`${title}: ${quantile(ratios, 0.5).toFixed(2)}`);
  const medianOf = (list) => ({
    recordsPerSecond: quantile(
      list.map((each) => each.recordsPerSecond),
      0.5,
    ),
    mbPerSecond: quantile(
      list.map((each) => each.mbPerSecond),
      0.5,
    ),
  });
  return {
    ours: medianOf(ours),
    theirs: medianOf(theirs),
    ratio: quantile(ratios, 0.5),
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

function figuresOf({ records, bytes, seconds: took }) {
  return {
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
