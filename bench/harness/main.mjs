// What all benchmarks do alike: read the flags, prepare, measure, judge, print the tables and write the figures as JSON. Ctrl-C ends
// the programs that run, so that nothing is left running.
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { describeMachine, loadAverage, sampleIdleness } from './machine.mjs';
import { renderNotes } from './notes.mjs';
import { resultFile } from './options.mjs';
import { renderTable } from './tables.mjs';

const benchFolder = path.join(import.meta.dirname, '..');
const say = (text) => process.stderr.write(`bench: ${text}\n`);

/**
 * Runs a benchmark with the flags of this process.
 * @param bench `name`; `options`, from benchOptions; `needs`: built files; `kept`: options that go into the result;
 * `prepare(tools)` returns what `measure({ ...tools, ...prepared })` needs; `measure` returns the parts of the result that are
 * its own; `judge`, `tables` and `notes` are functions of the result; `needsPeers`: whether --check fails if a peer is missing.
 */
export async function runBench(bench) {
  const interrupted = new AbortController();
  for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.once(name, () => interrupted.abort());
  try {
    process.exitCode = await main(bench, process.argv.slice(2), interrupted.signal);
  } catch (error) {
    say(error.message);
    process.exitCode = interrupted.signal.aborted ? 130 : 2;
  }
}

async function main(bench, argv, signal) {
  const { name, kept } = bench;
  const options = bench.options.parse(argv);
  if (options.help) {
    process.stdout.write(bench.options.help);
    return 0;
  }
  const root = path.resolve(options.root ?? path.join(benchFolder, '..'));
  for (const file of bench.needs) {
    if (existsSync(path.join(root, file))) continue;
    const command = file.startsWith('.dist-test/') ? 'npm test -- --only build' : 'npm run build';
    throw new Error(`${file} is missing: build first, with "${command}".`);
  }
  const machine = describeMachine();
  const tools = { options, root, benchFolder, machine, say, signal };
  const prepared = await bench.prepare?.(tools);
  const before = await sampleIdleness(signal);
  if (!before.idle) say(`warning: the machine is not idle (load ${before.load[0]})`);
  const startedAt = new Date();
  const measured = await bench.measure({ ...tools, ...prepared });

  const result = {
    format: 1,
    kind: name,
    command: commandLine(name, argv),
    startedAt: startedAt.toISOString(),
    seconds: Math.round((Date.now() - startedAt.getTime()) / 1000),
    version: JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8')).version,
    options: Object.fromEntries(kept.map((key) => [key, options[key]])),
    machine,
    idleness: { before, after: { load: loadAverage() } },
    ...measured,
  };
  result.targets = bench.judge(result);
  result.notes = bench.notes(result);
  const date = result.startedAt.slice(0, 16).replace(':', '');
  const file = options.json ?? path.join(benchFolder, 'results', resultFile(name, date));
  mkdirSync(path.dirname(path.resolve(file)), { recursive: true });
  writeFileSync(file, `${JSON.stringify(result, null, 1)}\n`);
  for (const table of bench.tables(result)) process.stdout.write(`${renderTable(table)}\n`);
  process.stdout.write(renderNotes(result.notes));
  say(`figures written to ${path.relative(process.cwd(), file)}`);
  return options.check && !isPassed(result, bench.needsPeers) ? 1 : 0;
}

/** Where absence counts, a peer that was asked for and could not be measured fails the check. */
function isPassed({ targets, failures, peers = {} }, needsPeers = false) {
  const isMissing = needsPeers && Object.values(peers).some(({ ready }) => !ready);
  return targets.every(({ met }) => met !== false) && Object.keys(failures).length === 0 && !isMissing;
}

/** As a reader would repeat it: folders of this machine mean nothing elsewhere. */
function commandLine(name, argv) {
  const flags = argv
    .join(' ')
    .replace(/--(json|root)[ =]\S+ ?/g, '')
    .trim();
  return `npm run bench:${name}${flags === '' ? '' : ` -- ${flags}`}`;
}

/** What a result says about peers. */
export function describePeers(peers) {
  return Object.fromEntries(
    Object.entries(peers).map(([name, { ready, version, why }]) => [name, { ready, version, why }]),
  );
}
