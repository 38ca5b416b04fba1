// The stages of `npm test`, in order. A stage resolves to { passed, failed, skipped, reason? }; one that throws has failed. A stage
// that is patient (`isPatient`) runs beside those after it. What a stage downloads first (`fetch`) is downloaded while others run. For `npm test -- --changed` a stage says what it depends on:
// `tests` are its test files, `inputs` matches other files; a stage with neither always runs.

import { existsSync, lstatSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buildPage } from '../build-page.mjs';
import { flavours, testNative } from '../test-native.mjs';
import { runExamples } from './example-runs.mjs';
import { ensureIntegrationTools } from './integration-tools.mjs';
import { runTests, runTestsTwice, testFiles } from './node-tests.mjs';
import { cannotInstallHere, ensureCompiler, ensureTestPackages } from './system-packages.mjs';
import { capture, inRepository, removeStaleOutputs, run, runTool } from './tools.mjs';

// CI has two cores. Tests that start processes share them with more ranks than cores, but wait for much of their time.
const concurrency = 2;

const ok = { passed: 1, failed: 0, skipped: 0 };
const bad = { passed: 0, failed: 1, skipped: 0 };
const skip = (reason) => ({ passed: 0, failed: 0, skipped: 1, reason });
const fromCode = (code) => (code === 0 ? ok : bad);

/** Tests that choose their transports themselves, or are about starting ranks. */
const choosesItsTransport =
  /\/(divergence|elastic-(fault-points|flatness|training)|fault-(late-writer|launcher|limits|start|versions)|logs|mpi-transport|mpirun|one-mistake|resume-recipe|run|status|two-names|without-launcher)\.test\.ts$/;
/** Slow tests that hardly depend on the version of Node: transports between hosts, kernels, searches. */
const isIndependentOfNode =
  /\/transport\/hierarchical\/|\/(tensorflow\/backend|tensor|autotune)\/|\/(opening|portable-cluster-\w+)\.test/;
/** The modules that users import, and the commands. They are affected by all their dependencies. */
const publicFaces = /^(src\/(\w+|testing\/index)\.ts|bin\/.*)$/;

const unitTests = () => testFiles().unit;
const processTests = () => testFiles().processes;

export const stages = [
  {
    name: 'packages',
    about: 'system packages: hosts in a box, MPI, Gloo, Slurm, a browser',
    run: systemPackages,
  },
  { name: 'lint', about: 'biome: format, lint, import cycles, floating promises', run: lint },
  { name: 'build', about: 'TypeScript and the native addon', isRequired: true, run: build },
  ...Object.keys(flavours).map((flavour) => ({
    name: `native-${flavour}`,
    about:
      flavour === 'plain'
        ? 'C++ tests without sanitizer; only on request, since the next two stages run the same tests'
        : `C++ tests, ${flavour} sanitizer`,
    onRequest: flavour === 'plain',
    repeats: flavour === 'thread' ? 'native-address' : undefined,
    takesFilter: true,
    // Compilers use every core, while the tests of processes and hosts mostly wait.
    isPatient: flavour !== 'plain',
    inputs: /^native\//,
    run: (context) => nativeTests(flavour, context),
  })),
  {
    name: 'unit',
    about: 'tests beside the code, in one process each',
    takesFilter: true,
    tests: unitTests,
    run: ({ filter, tests }) => runTests(tests, { filter, concurrency }),
  },
  {
    name: 'processes',
    about: 'tests that start ranks, launchers and signals',
    takesFilter: true,
    tests: processTests,
    run: ({ filter, tests }) => runTestsTwice(tests, { filter, concurrency }),
  },
  {
    name: 'processes-portable',
    about: 'the same tests without the native addon (HOROVOD_NATIVE=0), if they move bytes',
    takesFilter: true,
    repeats: 'processes',
    tests: () =>
      processTests().filter(
        (path) => path.startsWith('test/multiprocess/') && !choosesItsTransport.test(path),
      ),
    run: ({ filter, tests }) => runTestsTwice(tests, { filter, concurrency, env: { HOROVOD_NATIVE: '0' } }),
  },
  {
    name: 'cluster',
    about: 'ranks on several hosts in a box: ssh, transports, faults',
    takesFilter: true,
    tests: () => testFiles().cluster,
    run: onBoxHosts,
  },
  {
    name: 'integrations',
    about: 'a real HDFS (namenode and datanodes), TensorBoard, notebooks, and pages in a browser',
    takesFilter: true,
    tests: () => testFiles().integrations,
    fetch: ensureIntegrationTools,
    run: withTools,
  },
  {
    name: 'types',
    about: 'the public types and the examples',
    inputs: /^(test\/types|examples)\/.*\.ts$/,
    run: typeTests,
  },
  {
    name: 'api',
    about: 'docs/reference/api.d.ts is up to date',
    inputs: /^(src\/(\w+|testing\/index)\.ts|docs\/reference\/api\.d\.ts)$/,
    run: async () => fromCode(await runTool(null, inRepository('scripts/api-report.mjs'), ['--check'])),
  },
  {
    name: 'reference',
    about: 'docs/reference/*.md are up to date',
    inputs: /^(src\/settings\/(?!.*\.test\.ts$)|src\/errors\.ts$|docs\/)/,
    run: referencePages,
  },
  {
    name: 'site',
    about: 'the documentation as a web site: dead links, requests to other hosts',
    inputs: /^(site|docs|examples)\/|^[A-Z]+\.md$|^src\/(\w+|testing\/index)\.ts$/,
    fetch: fetchSiteTools,
    run: site,
  },
  {
    name: 'package',
    about: 'the packed tarball, and a release with packages for platforms, in separate projects',
    takesFilter: true,
    inputs: new RegExp(`${publicFaces.source}|^(test/package|native/src)/`),
    run: ({ filter }) =>
      runTests(
        ['consumer', 'release'].map((name) => `test/package/${name}.test.mjs`),
        { filter, concurrency: 1 },
      ),
  },
  {
    name: 'example',
    about: 'a short run of every example on two ranks',
    takesFilter: true,
    inputs: /^(examples\/.*\.(ts|ipynb)|bin\/.*)$/,
    run: runExamples,
  },
  {
    name: 'node24',
    about: 'the unit tests on Node 24',
    takesFilter: true,
    repeats: 'unit',
    tests: () => unitTests().filter((path) => !isIndependentOfNode.test(path)),
    fetch: fetchNode24,
    run: onNode24,
  },
  {
    name: 'tfjs-node',
    about: 'TensorFlow.js on tfjs-node: its memory, and training on two ranks',
    takesFilter: true,
    tests: () => testFiles().tfjsNode,
    fetch: () => setupTfjsNode('--no-link'),
    run: onTfjsNode,
  },
];

/**
 * What a stage has to do after a change: { tests } lists its test files that `change.files` affects; { reason } says why it can be
 * skipped. Without `change`, it runs everything. The tests in test/house read all files, so they always run.
 */
export function planStage(stage, change) {
  const tests = stage.tests?.();
  if (change?.files === undefined || (tests ?? stage.inputs) === undefined) return { tests };
  if (tests !== undefined) {
    const affected = tests.filter((path) => change.files.has(path) || path.startsWith('test/house/'));
    return affected.length > 0 ? { tests: affected } : { reason: 'the change affects none of its tests' };
  }
  const isAffected = [...change.files].some((path) => stage.inputs.test(path));
  return isAffected ? {} : { reason: 'the change affects nothing that it checks' };
}

async function lint() {
  const colors = `--colors=${process.stdout.isTTY ? 'force' : 'off'}`;
  return fromCode(await runTool('@biomejs/biome', 'biome', ['ci', colors, '.']));
}

async function build() {
  await ensureCompiler();
  removeStaleOutputs();
  for (const project of ['tsconfig.json', 'test/tsconfig.json']) {
    const code = await runTool('typescript', 'tsc', ['-p', project]);
    if (code !== 0) return bad;
  }
  if ((await buildPage()) !== 0) return bad;
  return fromCode(await runTool(null, inRepository('scripts/build-native.mjs'), []));
}

// Before the build, which uses MPI and Gloo if they are installed.
async function systemPackages() {
  const { installed, reason } = await ensureTestPackages();
  if (reason !== undefined) return skip(reason);
  return installed.length === 0 ? ok : { ...ok, reason: `installed ${installed.join(' ')}` };
}

async function onBoxHosts({ filter, tests }) {
  const { reason: incomplete } = await ensureTestPackages();
  const { canUseBox } = await import(inRepository('.dist-test/test/support/box.js'));
  const reason = canUseBox();
  if (reason !== undefined) return skip(incomplete === undefined ? reason : `${reason}; ${incomplete}`);
  return await runTestsTwice(tests, { filter, concurrency });
}

// Tests of what is missing here skip themselves.
async function withTools({ filter, tests, fetched }) {
  const { env, missing } = await fetched;
  const counts = await runTestsTwice(tests, { filter, concurrency: 1, env });
  return missing.length === 0 ? counts : { ...counts, reason: missing.join('; ') };
}

async function nativeTests(flavour, { filter, print }) {
  const { reason } = await ensureCompiler();
  if (reason !== undefined) return skip(reason);
  const counts = await testNative(flavour, {
    ...(filter === '' ? {} : { filter }),
    // Beside other stages, which come first.
    ...(print === undefined ? {} : { print, isPatient: true }),
  });
  return { ...counts, skipped: 0 };
}

/** One check per project. */
async function typeTests() {
  const counts = { passed: 0, failed: 0, skipped: 0 };
  for (const folder of ['test/types', 'test/types/frameworks', 'examples']) {
    const code = await runTool('typescript', 'tsc', ['-p', `${folder}/tsconfig.json`]);
    counts[code === 0 ? 'passed' : 'failed'] += 1;
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

/** What the site is built with is in a package of its own. */
async function fetchSiteTools() {
  // Not `npm ci`: it rejects lock files that lack packages for other platforms, as npm itself writes them.
  const flags = ['--no-save', '--no-audit', '--no-fund', '--ignore-scripts', '--loglevel=error'];
  const { code, text } = await capture('npm', ['install', ...flags], {
    cwd: inRepository('site'),
    timeoutMs: 300_000,
  });
  return code === 0
    ? {}
    : { reason: `npm could not install the tools of the site: ${text.trim().split('\n')[0] ?? ''}` };
}

async function site({ fetched }) {
  const { reason } = await fetched;
  if (reason !== undefined) return skip(reason);
  return fromCode(await runTool(null, inRepository('site/build.mjs'), []));
}

// The binaries of Node are published as npm packages. Not a dependency, because they take about 200 MB.
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

async function onNode24({ filter, tests, fetched }) {
  const { folder, execPath, reason } = await fetched;
  try {
    if (reason !== undefined) return skip(reason);
    await run(execPath, ['--version']);
    return await runTests(tests, { filter, concurrency, execPath });
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function setupTfjsNode(...args) {
  const script = inRepository('scripts/setup-tfjs-node.mjs');
  return capture(process.execPath, [script, ...args], { timeoutMs: 600_000 });
}

// The last stage, so that all others run as in a fresh checkout. Not a dependency, because it takes 850 MB.
async function onTfjsNode({ filter, tests, fetched }) {
  const link = inRepository('node_modules/@tensorflow/tfjs-node');
  const wasThere = lstatSync(link, { throwIfNoEntry: false }) !== undefined;
  try {
    const early = await fetched;
    process.stdout.write(early.text);
    const { code, text } = early.code === 0 ? await setupTfjsNode() : early;
    if (early.code === 0) process.stdout.write(text);
    if (code === cannotInstallHere) return skip(text.trim().split('\n').at(-1) ?? '');
    if (code !== 0) return bad;
    return await runTests(tests, { filter, concurrency: 1 });
  } finally {
    if (!wasThere) rmSync(link, { force: true }); // what it links to stays in .cache
  }
}
