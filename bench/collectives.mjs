// `npm run bench:collectives`: measures our allreduce against Open MPI in C, Gloo through torch and the machine's memory,
// interleaved over several rounds; prints a Markdown table per topic and writes the figures as JSON. See README.md beside.
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { preparePeers } from './harness/install.mjs';
import { planJobs } from './harness/jobs.mjs';
import { describeMachine, loadAverage, sampleIdleness } from './harness/machine.mjs';
import { notes, renderNotes } from './harness/notes.mjs';
import { HELP, PEERS, parseOptions } from './harness/options.mjs';
import { runRounds } from './harness/rounds.mjs';
import { buildTables, renderTable } from './harness/tables.mjs';
import { judge, TARGETS } from './harness/targets.mjs';

const benchFolder = import.meta.dirname;
const say = (text) => process.stderr.write(`bench: ${text}\n`);

const interrupted = new AbortController();
for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.once(name, () => interrupted.abort());

try {
  process.exitCode = await main(process.argv.slice(2), interrupted.signal);
} catch (error) {
  say(error.message);
  process.exitCode = interrupted.signal.aborted ? 130 : 2;
}

async function main(argv, signal) {
  const options = parseOptions(argv);
  if (options.help) {
    process.stdout.write(HELP);
    return 0;
  }
  const root = path.resolve(options.root ?? path.join(benchFolder, '..'));
  for (const file of ['dist/index.js', 'bin/horovodrun.js']) {
    if (existsSync(path.join(root, file))) continue;
    throw new Error(`${file} is missing: build first, with "npm install" or "npm run build".`);
  }
  const peers = await preparePeers({ ...options, benchFolder, say, signal });
  for (const [name, { ready, why, version }] of Object.entries(peers))
    say(`${name}: ${ready ? version : `missing: ${why}`}`);

  const machine = describeMachine();
  const hasFingerprintSwitch = mentions(path.join(root, 'dist'), 'HOROVOD_BENCH_NO_FINGERPRINT');
  const jobs = planJobs({ options, peers, benchFolder, root, cores: machine.cores, hasFingerprintSwitch });
  const before = await sampleIdleness(signal);
  if (!before.idle)
    say(`warning: the machine is not idle (load ${before.load[0]}, foreign ${percent(before.foreign)})`);
  const startedAt = new Date();
  const measured = await runRounds(jobs, options.rounds, { say, signal });
  const after = { load: loadAverage() };

  const result = {
    format: 1,
    command: commandLine(argv),
    startedAt: startedAt.toISOString(),
    seconds: Math.round((Date.now() - startedAt.getTime()) / 1000),
    version: JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8')).version,
    options: { rounds: options.rounds, quick: options.quick, sizes: options.sizes, topics: options.topics },
    machine,
    peers: Object.fromEntries(
      PEERS.filter((name) => peers[name]).map((name) => {
        const { ready, version, why } = peers[name];
        return [name, ready ? { ready, version } : { ready, why }];
      }),
    ),
    hasFingerprintSwitch,
    idleness: { before, after },
    ...measured,
  };
  result.targets = TARGETS.map((target) => judge(target, result.series));
  const file = options.json ?? path.join(benchFolder, 'results', `${fileDate(startedAt)}.json`);
  mkdirSync(path.dirname(path.resolve(file)), { recursive: true });
  writeFileSync(file, `${JSON.stringify(result, null, 1)}\n`);

  for (const table of buildTables(result)) process.stdout.write(`${renderTable(table)}\n`);
  process.stdout.write(renderNotes(notes(result)));
  say(`figures written to ${path.relative(process.cwd(), file)}`);
  return options.check && !isPassed(result) ? 1 : 0;
}

/** A peer that was asked for and could not be measured fails the check too: nothing passes by being absent. */
function isPassed(result) {
  const missed = result.targets.some(({ met }) => met === false);
  const absent =
    Object.values(result.peers).some(({ ready }) => !ready) || Object.keys(result.failures).length > 0;
  return !missed && !absent;
}

function mentions(folder, text) {
  return readdirSync(folder, { recursive: true })
    .filter((file) => file.endsWith('.js') && !file.endsWith('.test.js'))
    .some((file) => readFileSync(path.join(folder, file), 'utf8').includes(text));
}

/** As a reader would repeat it: folders of this machine mean nothing elsewhere. */
function commandLine(argv) {
  const flags = argv
    .join(' ')
    .replace(/--(json|root)[ =]\S+ ?/g, '')
    .trim();
  return flags === '' ? 'npm run bench:collectives' : `npm run bench:collectives -- ${flags}`;
}

function fileDate(date) {
  return date.toISOString().slice(0, 16).replace(':', '');
}

function percent(share) {
  return `${(share * 100).toFixed(1)} %`;
}
