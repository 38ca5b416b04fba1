// The stages of `npm test`, in order. A stage resolves to { passed, failed, skipped, reason? }; one that throws
// has failed. What a stage has to fetch first (`fetch`) is fetched while others run.

import { fork } from 'node:child_process';
import { existsSync, lstatSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { flavours, testNative } from '../test-native.mjs';
import { runExamples } from './example-runs.mjs';
import { cannotInstallHere, ensureClusterPackages, ensureCompiler } from './system-packages.mjs';
import { capture, filesBelow, inRepository, removeStaleOutputs, run, runTool } from './tools.mjs';

// Two cores are what CI has; tests that start processes run alone, so that ranks get the cores.
const unitConcurrency = 2;
// Against hanging only. A file of multi-process tests may start a hundred ranks.
const fileTimeoutMs = 300_000;
/** More files than this with failures are no accident. */
const filesAgain = 3;

const ok = { passed: 1, failed: 0, skipped: 0 };
const bad = { passed: 0, failed: 1, skipped: 0 };
const skip = (reason) => ({ passed: 0, failed: 0, skipped: 1, reason });
const fromCode = (code) => (code === 0 ? ok : bad);

/** Tests that try both transports by themselves, or are about who starts ranks. */
const choosesItsTransport =
  /\/(fault-launcher|fault-start|logs|mpi-transport|mpirun|run|status|two-names|without-launcher)\.test\.js$/;

export const stages = [
  { name: 'packages', about: 'system packages: hosts in a box, MPI, Gloo, Slurm', run: systemPackages },
  {
    name: 'lint',
    about: 'biome: format, lint, import cycles, floating promises',
    run: async () =>
      fromCode(
        await runTool('@biomejs/biome', 'biome', [
          'ci',
          `--colors=${process.stdout.isTTY ? 'force' : 'off'}`,
          '.',
        ]),
      ),
  },
  { name: 'build', about: 'TypeScript and the native addon', isRequired: true, run: build },
  ...Object.keys(flavours).map((flavour) => ({
    name: `native-${flavour}`,
    about:
      flavour === 'plain'
        ? 'C++ tests, no sanitizer; when asked for only: those with sanitizers are the same'
        : `C++ tests, ${flavour} sanitizer`,
    whenAsked: flavour === 'plain',
    takesFilter: true,
    run: ({ filter }) => nativeTests(flavour, filter),
  })),
  {
    name: 'unit',
    about: 'tests beside the code, in one process each',
    takesFilter: true,
    run: ({ filter }) => nodeTests(testFiles().unit, { filter, concurrency: unitConcurrency }),
  },
  {
    name: 'processes',
    about: 'tests that start ranks, launchers and signals',
    takesFilter: true,
    run: ({ filter }) => withSecondAttempt(testFiles().processes, { filter, concurrency: 1 }),
  },
  {
    name: 'processes-portable',
    about: 'those of them that move bytes, with HOROVOD_NATIVE=0',
    takesFilter: true,
    run: ({ filter }) =>
      withSecondAttempt(
        testFiles().processes.filter(
          (path) => path.startsWith('.dist-test/test/multiprocess/') && !choosesItsTransport.test(path),
        ),
        { filter, concurrency: 1, env: { HOROVOD_NATIVE: '0' } },
      ),
  },
  {
    name: 'cluster',
    about: 'ranks on several hosts in a box: ssh, engines, faults',
    takesFilter: true,
    run: ({ filter }) => onBoxHosts(testFiles().cluster, filter),
  },
  { name: 'types', about: 'the public types, and the examples as their users', run: typeTests },
  {
    name: 'api',
    about: 'docs/reference/api.d.ts is the public surface',
    run: async () => fromCode(await runTool(null, inRepository('scripts/api-report.mjs'), ['--check'])),
  },
  { name: 'reference', about: 'docs/reference/*.md come from the tables', run: referencePages },
  {
    name: 'package',
    about: 'the packed tarball in a project of its own',
    takesFilter: true,
    run: ({ filter }) => nodeTests(['test/package/consumer.test.mjs'], { filter, concurrency: 1 }),
  },
  {
    name: 'example',
    about: 'every example for a short while on two ranks',
    takesFilter: true,
    run: runExamples,
  },
  {
    name: 'node24',
    about: 'the unit tests once more on Node 24',
    takesFilter: true,
    fetch: fetchNode24,
    run: onNode24,
  },
  {
    name: 'tfjs-node',
    about: 'TensorFlow.js on tfjs-node: its memory, and training on two ranks',
    takesFilter: true,
    fetch: () => setupTfjsNode('--no-link'),
    run: onTfjsNode,
  },
];

/** Runs a stage; a thrown error becomes a failure with its text on screen. */
export async function runStage(stage, context) {
  try {
    return await stage.run(context);
  } catch (error) {
    console.log(`✖ ${stage.name}: ${error.stack ?? error}`);
    return bad;
  }
}

async function build() {
  await ensureCompiler();
  removeStaleOutputs();
  for (const project of ['tsconfig.json', 'test/tsconfig.json']) {
    const code = await runTool('typescript', 'tsc', ['-p', project]);
    if (code !== 0) return bad;
  }
  return fromCode(await runTool(null, inRepository('scripts/build-native.mjs'), []));
}

// Before the build, which links with MPI and Gloo where they are.
async function systemPackages() {
  const { installed, reason } = await ensureClusterPackages();
  if (reason !== undefined) return skip(reason);
  return installed.length === 0 ? ok : { ...ok, reason: `installed ${installed.join(' ')}` };
}

async function onBoxHosts(files, filter) {
  const { reason: incomplete } = await ensureClusterPackages();
  const { canUseBox } = await import(inRepository('.dist-test/test/support/box.js'));
  const reason = canUseBox();
  if (reason !== undefined) return skip(incomplete === undefined ? reason : `${reason}; ${incomplete}`);
  return await withSecondAttempt(files, { filter, concurrency: 1 });
}

async function nativeTests(flavour, filter) {
  const { reason } = await ensureCompiler();
  if (reason !== undefined) return skip(reason);
  if (!filesBelow('native/test').some((path) => path.endsWith('.test.cc')))
    return skip('there are no C++ tests');
  const counts = await testNative(flavour, filter === '' ? {} : { filter });
  return { ...counts, skipped: 0 };
}

/** Sources decide what is run, so that a compiled test whose source is gone is not. */
function testFiles() {
  const everySource = [...filesBelow('src'), ...filesBelow('test')].filter((path) =>
    path.endsWith('.test.ts'),
  );
  const needsTfjsNode = (path) => path.endsWith('.tfjs-node.test.ts');
  const needsBox = (path) => path.startsWith('test/cluster/');
  const onThisMachine = everySource.filter((path) => !needsTfjsNode(path) && !needsBox(path));
  const benchTests = filesBelow('bench').filter((path) => path.endsWith('.test.mjs'));
  const starts = (path) =>
    path.startsWith('test/multiprocess/') || startsProcesses.test(readFileSync(inRepository(path), 'utf8'));
  const compiled = (path) => `.dist-test/${path.replace(/\.ts$/, '.js')}`;
  return {
    cluster: everySource.filter(needsBox).map(compiled),
    tfjsNode: everySource.filter(needsTfjsNode).map(compiled),
    unit: [...onThisMachine.filter((path) => !starts(path)).map(compiled), ...benchTests],
    processes: onThisMachine.filter(starts).map(compiled),
  };
}

const startsProcesses = /from 'node:child_process'|\bspawnRanks\b|\bstartHorovodrun\b|\bstartFaultJob\b/;

/**
 * For tests with real processes and real time: files in which something failed run once more, by themselves. What passes
 * then has not failed, but is shown with its first error at the end of the run: something is to be repaired.
 */
async function withSecondAttempt(files, options) {
  const first = await nodeTests(files, options);
  const failed = first.failures ?? [];
  const again = [...new Set(failed.map(({ file }) => file))].filter((file) => file !== undefined);
  if (again.length === 0 || again.length > filesAgain || failed.some(({ file }) => file === undefined)) {
    return first;
  }
  console.log(`\n── once more: ${again.map((file) => relative(inRepository(), file)).join(', ')}`);
  const second = await nodeTests(
    again.map((file) => relative(inRepository(), file)),
    options,
  );
  return {
    passed: first.passed + Math.max(first.failed - second.failed, 0),
    failed: second.failed,
    skipped: first.skipped,
    failures: second.failures ?? [],
    unsteady: failed.filter(({ title }) => !second.failures?.some((other) => other.title === title)),
  };
}

/** Runs test files in a runner process of their own; see node-test-runner.mjs. */
function nodeTests(files, { filter, concurrency, env = {}, execPath = process.execPath }) {
  if (files.length === 0) return skip('there are no such tests');
  const runner = fileURLToPath(new URL('./node-test-runner.mjs', import.meta.url));
  const args = [
    String(concurrency),
    String(fileTimeoutMs),
    filter,
    ...files.map((path) => inRepository(path)),
  ];
  // Ranks that fail in tests leave their flight records here, and not in the user's temporary directory.
  const records = mkdtempSync(join(tmpdir(), 'horovod-test-flight-'));
  const environment = { HOROVOD_FLIGHT_DIR: records, ...process.env, ...env };
  return new Promise((resolve, reject) => {
    const child = fork(runner, args, { cwd: inRepository(), env: environment, execPath });
    let counts = bad; // what a runner that dies without a word amounts to
    child.on('message', (message) => {
      counts = message;
    });
    child.on('error', reject);
    child.on('close', () => {
      rmSync(records, { recursive: true, force: true });
      resolve(counts);
    });
  });
}

async function typeTests() {
  const counts = { passed: 0, failed: 0, skipped: 0 };
  for (const folder of ['test/types', 'test/types/frameworks', 'examples']) {
    const code = await runTool('typescript', 'tsc', ['-p', `${folder}/tsconfig.json`]);
    const files = filesBelow(folder).filter((path) => path.endsWith('.ts')).length;
    counts.passed += code === 0 ? files : 0;
    counts.failed += code === 0 ? 0 : 1;
  }
  return counts;
}

async function referencePages() {
  const { errorsReference, settingsReference } = await import(inRepository('dist/settings/reference.js'));
  const stale = Object.entries({ 'errors.md': errorsReference, 'settings.md': settingsReference }).filter(
    ([name, write]) => readFileSync(inRepository('docs/reference', name), 'utf8') !== write(),
  );
  for (const [name] of stale)
    console.log(`✖ docs/reference/${name}: run node scripts/generate-reference.mjs`);
  return { passed: 2 - stale.length, failed: stale.length, skipped: 0 };
}

// Node's own binaries are published as npm packages. About 200 MB, hence fetched here and not a dependency.
async function fetchNode24() {
  const folder = mkdtempSync(join(tmpdir(), 'hvd-node24-'));
  const wanted = `node24@npm:node-${process.platform}-${process.arch}@24`;
  const flags = ['--no-save', '--no-audit', '--no-fund', '--loglevel=error', '--prefix', folder];
  const { code, text } = await capture('npm', ['install', ...flags, wanted], {
    cwd: folder,
    timeoutMs: 300_000,
  });
  const execPath = join(folder, 'node_modules/node24/bin/node');
  if (code === 0 && existsSync(execPath)) return { folder, execPath };
  return { folder, reason: `npm could not install ${wanted}: ${text.trim().split('\n')[0] ?? ''}` };
}

async function onNode24({ filter, fetched }) {
  const { folder, execPath, reason } = await fetched;
  try {
    if (reason !== undefined) return skip(reason);
    await run(execPath, ['--version']);
    // What takes long and has little to do with Node: transports between hosts, kernels, searches.
    const isAside =
      /(hierarchical|cluster)-transport|cluster-processes|\/(tensorflow\/backend|tensor|autotune)\//;
    const files = testFiles().unit.filter((path) => !isAside.test(path));
    return await nodeTests(files, { filter, concurrency: unitConcurrency, execPath });
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function setupTfjsNode(...args) {
  const script = inRepository('scripts/setup-tfjs-node.mjs');
  return capture(process.execPath, [script, ...args], { timeoutMs: 600_000 });
}

// Last of all: other stages are to see what a fresh checkout has. 850 MB, hence not a dependency.
async function onTfjsNode({ filter, fetched }) {
  const link = inRepository('node_modules/@tensorflow/tfjs-node');
  const wasThere = lstatSync(link, { throwIfNoEntry: false }) !== undefined;
  try {
    const early = await fetched;
    process.stdout.write(early.text);
    const { code, text } = early.code === 0 ? await setupTfjsNode() : early;
    if (early.code === 0) process.stdout.write(text);
    if (code === cannotInstallHere) return skip(text.trim().split('\n').at(-1) ?? '');
    if (code !== 0) return bad;
    return await nodeTests(testFiles().tfjsNode, { filter, concurrency: 1 });
  } finally {
    if (!wasThere) rmSync(link, { force: true }); // what it links to stays in .cache
  }
}
