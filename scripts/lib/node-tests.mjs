// Tests that run with node:test: finds the files of each stage, runs them, and gives tests with real processes and real time a
// second attempt.

import { fork } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { filesBelow, inRepository } from './tools.mjs';

// Only for tests that hang. A file of multi-process tests may start a hundred ranks, on a machine that has other things to do.
const fileTimeoutMs = 600_000;
/** If more files than this fail, it is not by chance, and none is tried again. */
const maxFilesAgain = 3;
/** Files whose ranks compute all the time. Two of them at once take longer than one after the other, because ranks then wait for cores. */
const keepsCoresBusy = /support\/case-jobs\.ts'|\/(flatness|training)[-.]/;
const startsProcesses = /from 'node:child_process'|\bspawnRanks\b|\bstartHorovodrun\b|\bstartFaultJob\b/;

/** Test files by stage. Based on the sources, so that a compiled test whose source was deleted does not run. */
export function testFiles() {
  const sources = [...filesBelow('src'), ...filesBelow('test')].filter((path) => path.endsWith('.test.ts'));
  const scripts = [...filesBelow('bench'), ...filesBelow('scripts')].filter((path) =>
    path.endsWith('.test.mjs'),
  );
  const needsTfjsNode = (path) => path.endsWith('.tfjs-node.test.ts');
  const needsServers = (path) => path.startsWith('test/integrations/');
  const needsBox = (path) => path.startsWith('test/cluster/');
  const starts = (path) =>
    path.startsWith('test/multiprocess/') || startsProcesses.test(readFileSync(inRepository(path), 'utf8'));
  const onThisMachine = sources.filter(
    (path) => !needsTfjsNode(path) && !needsBox(path) && !needsServers(path),
  );
  return {
    cluster: sources.filter(needsBox),
    integrations: sources.filter(needsServers),
    tfjsNode: sources.filter(needsTfjsNode),
    unit: [...onThisMachine.filter((path) => !starts(path)), ...scripts],
    processes: onThisMachine.filter(starts),
  };
}

/** Runs test files and adds up their results: { passed, failed, skipped, failures, flaky, files }. */
export async function runTests(paths, options) {
  return addUp(await runFiles(paths, options));
}

/**
 * For tests with real processes and real time: files with a failure run a second time. A test that passes then is flaky. It is
 * shown with its first error at the end of the run, and fails the run on CI.
 */
export async function runTestsTwice(paths, options) {
  const first = await runFiles(paths, options);
  const again = first.filter(({ failed }) => failed > 0).map(({ file }) => file);
  if (again.length === 0 || again.length > maxFilesAgain) return addUp(first);
  console.log(`\n── second attempt: ${again.join(', ')}`);
  const second = await runFiles(again, { ...options, concurrency: 1 });
  const { files, flaky } = mergeAttempts(first, second, { flakyFails: process.env['CI'] === 'true' });
  return { ...addUp(files), flaky };
}

/**
 * One result per file: that of the second attempt, if there was one, so that no test counts twice. `flaky` contains failures of
 * the first attempt that did not happen again; with `flakyFails` they count as failed.
 */
export function mergeAttempts(first, second, { flakyFails }) {
  const flaky = [];
  const files = first.map((before) => {
    const after = second.find(({ file }) => file === before.file);
    if (after === undefined) return before;
    const isBack = ({ title }) => after.failures.some((failure) => failure.title === title);
    const unsteady = before.failures.filter((failure) => !isBack(failure));
    flaky.push(...unsteady);
    const seconds = before.seconds + after.seconds;
    if (!flakyFails) return { ...after, seconds };
    return {
      ...after,
      seconds,
      passed: Math.max(after.passed - unsteady.length, 0),
      failed: after.failed + unsteady.length,
    };
  });
  return { files, flaky };
}

function addUp(files) {
  const total = { passed: 0, failed: 0, skipped: 0 };
  for (const each of files) for (const key of Object.keys(total)) total[key] += each[key];
  return { ...total, failures: files.flatMap(({ failures }) => failures), files };
}

function compiledPath(path) {
  return path.endsWith('.ts') ? `.dist-test/${path.replace(/\.ts$/, '.js')}` : path;
}

function isBusy(path) {
  return path.endsWith('.ts') && keepsCoresBusy.test(`${path}\n${readFileSync(inRepository(path), 'utf8')}`);
}

/** Runs test files in a separate process (see node-test-runner.mjs) and resolves to the result of each. */
function runFiles(paths, { filter, concurrency, env = {}, execPath = process.execPath }) {
  const runner = fileURLToPath(new URL('./node-test-runner.mjs', import.meta.url));
  const busy = paths.filter(isBusy);
  const others = paths.filter((path) => !busy.includes(path));
  const lanes = JSON.stringify(
    [busy, others].map((lane) => lane.map((path) => inRepository(compiledPath(path)))),
  );
  // Ranks that fail in tests leave their flight records here instead of in the user's temporary directory.
  const records = mkdtempSync(join(tmpdir(), 'horovod-test-flight-'));
  const environment = { HOROVOD_FLIGHT_DIR: records, ...process.env, ...env };
  return new Promise((resolve, reject) => {
    const args = [String(concurrency), String(fileTimeoutMs), filter, lanes];
    const child = fork(runner, args, { cwd: inRepository(), env: environment, execPath });
    let results;
    child.on('message', (message) => {
      results = message;
    });
    child.on('error', reject);
    child.on('close', (code, signal) => {
      rmSync(records, { recursive: true, force: true });
      if (results !== undefined) resolve(results);
      else reject(new Error(`the test runner ended without results (${signal ?? `exit code ${code}`})`));
    });
  });
}
