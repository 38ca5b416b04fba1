// Compares this checkout's build with that of another checkout, in interleaved pairs: the start of a job, small operations, and those of
// bench:collectives and bench:training. Both run the same programs (ranks/), each with its own library and horovodrun. Prints a Markdown
// table. See README.md beside.
//
//   node bench/versions.mjs --other ../horovod-before [--topics start,small] [--pairs 30] [--seconds 300] [--json FILE]
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { explainFailure, jsonLines, runCommand } from './harness/command.mjs';
import { cleanEnvironment } from './harness/jobs.mjs';
import { comparePairs } from './harness/pairs.mjs';

const ranks = path.join(import.meta.dirname, 'ranks');
const quickSizes = [4, 64, 1024, 4096, 65_536, 2 ** 20, 2 ** 24, 2 ** 26];

/** By topic: the figures that one run of a build gives, by name. */
const TOPICS = {
  start: async (root) => {
    const startedAt = performance.now();
    await job(root, 'init-only.mjs', ['--library', libraryOf(root)]);
    return { 'job start, ms': performance.now() - startedAt };
  },
  small: (root) => collectives(root, 'horovod,await', [4, 1024, 65_536]),
  collectives: (root) => collectives(root, 'horovod,alloc', quickSizes),
  // The cost of a step, not its rate: in all rows, less is better.
  mlp: (root) => training(root, 'mlp', { warmup: 500, steps: 50, windows: 3 }),
  cnn: (root) => training(root, 'cnn', { warmup: 10, steps: 4, windows: 3 }),
};

const { values } = parseArgs({
  options: {
    other: { type: 'string' },
    topics: { type: 'string', default: 'start,small' },
    pairs: { type: 'string', default: '30' },
    seconds: { type: 'string', default: '100000' },
    json: { type: 'string' },
  },
});
if (values.other === undefined) throw new Error('--other names the checkout to compare with.');
const roots = [path.resolve(values.other), path.join(import.meta.dirname, '..')];
for (const root of roots) {
  if (!existsSync(libraryOf(root))) throw new Error(`${root} is not built: run "npm run build" there.`);
}
const topics = values.topics.split(',');
const unknown = topics.filter((topic) => !Object.hasOwn(TOPICS, topic));
if (unknown.length > 0)
  throw new Error(`there is no topic "${unknown[0]}": ${Object.keys(TOPICS).join(', ')}.`);

/** [other, ours] by figure. Those of an earlier run with the same --json file count, too. */
const figures =
  values.json !== undefined && existsSync(values.json) ? JSON.parse(readFileSync(values.json, 'utf8')) : {};
const until = performance.now() + 1000 * Number(values.seconds);
// The first of each build fills the caches of the file system.
for (const root of roots)
  for (const topic of topics.filter((name) => name === 'start')) await TOPICS[topic](root);
for (let pair = 0; pair < Number(values.pairs) && performance.now() < until; pair++) {
  for (const topic of topics) {
    const order = pair % 2 === 0 ? [0, 1] : [1, 0];
    const found = [];
    for (const which of order) found[which] = await TOPICS[topic](roots[which]);
    for (const name of Object.keys(found[0])) {
      figures[name] = [...(figures[name] ?? []), [found[0][name], found[1][name]]];
    }
  }
}
if (values.json !== undefined) writeFileSync(values.json, `${JSON.stringify(figures)}\n`);
console.log('| | pairs | other | this | ratio (95 %) |\n| --- | --- | --- | --- | --- |');
for (const [name, pairs] of Object.entries(figures)) {
  const { other, ours, ratio, low, high } = comparePairs(pairs);
  const interval = `${low.toFixed(3)}–${high.toFixed(3)}`;
  const cells = [name, pairs.length, digits(other), digits(ours), `${ratio.toFixed(3)} (${interval})`];
  console.log(`| ${cells.join(' | ')} |`);
}

/** Where it is may differ between versions. */
function libraryOf(root, entry = '.') {
  const { exports } = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8'));
  return path.join(root, exports[entry].default);
}

async function collectives(root, variants, sizes) {
  const flags = ['--library', libraryOf(root), '--variants', variants, '--sizes', sizes.join(',')];
  const lines = await job(root, 'collectives.mjs', flags);
  const samples = lines.filter(({ us }) => typeof us === 'number');
  return Object.fromEntries(samples.map(({ peer, bytes, us }) => [`${peer} ${bytes} B, µs`, us]));
}

async function training(root, model, length) {
  const options = { model, backend: 'wasm', batch: 64, ...length, library: libraryOf(root, './tensorflow') };
  const flags = Object.entries(options).flatMap(([name, value]) => [`--${name}`, String(value)]);
  const lines = await job(root, 'training.mjs', [...flags, '--horovod']);
  const { rate } = lines.find((line) => typeof line.rate === 'number');
  return { [`${model} step of 64 on 2 ranks, ms`]: (1000 * 64) / rate };
}

async function job(root, program, flags) {
  const launcher = path.join(root, 'bin/horovodrun.js');
  const argv = [launcher, '-np', '2', '--no-prefix-output', path.join(ranks, program), ...flags];
  const result = await runCommand(process.execPath, argv, { env: cleanEnvironment() });
  if (result.failure !== undefined) throw new Error(`${program} in ${root}: ${explainFailure(result)}`);
  return jsonLines(result.stdout);
}

function digits(value) {
  return value >= 100 ? value.toFixed(0) : value.toPrecision(3);
}
