// Runs compiled test files with node:test and prints what happens, file by file. A process of its own, so that
// run-tests.mjs can start it under another Node or another environment: arguments are
// `<concurrency> <timeout in ms> <filter or ''> files…`; the counts and the failures go back over the IPC channel.

import { relative } from 'node:path';
import { run } from 'node:test';
import { inspect } from 'node:util';
import { repositoryRoot } from './tools.mjs';

const [concurrency, timeout, filter, ...files] = process.argv.slice(2);
const counts = { passed: 0, failed: 0, skipped: 0 };
const failures = [];
let currentFile;
let printedDepth = 0;
let ancestors = [];

const events = run({
  files,
  concurrency: Number(concurrency),
  timeout: Number(timeout),
  ...(filter === '' ? {} : { testNamePatterns: [new RegExp(filter, 'i')] }),
});

// A test may be declared by a helper in another file; the test file is the one that was taken up last.
let takenUp;
events.on('test:dequeue', ({ name }) => {
  if (files.includes(name)) takenUp = name;
});
const fileOf = ({ file }) => (files.includes(file) ? file : (takenUp ?? file));

const nameOf = (path) => (path === undefined ? 'tests' : relative(repositoryRoot, path));

function heading(data) {
  if (fileOf(data) !== currentFile) {
    currentFile = fileOf(data);
    ancestors = [];
    printedDepth = 0;
    console.log(nameOf(currentFile));
  }
}

events.on('test:start', (data) => {
  if (files.includes(data.name)) return;
  heading(data);
  ancestors.length = data.nesting;
  ancestors[data.nesting] = data.name;
  printedDepth = Math.min(printedDepth, data.nesting);
});

const isSuite = (data) => data.details?.type === 'suite';

function line(mark, data, note = '') {
  heading(data);
  for (; printedDepth < data.nesting; printedDepth++) {
    console.log(`${'  '.repeat(printedDepth + 1)}${ancestors[printedDepth]}`);
  }
  console.log(`${'  '.repeat(data.nesting + 1)}${mark} ${data.name}${note}`);
}

const took = (data) =>
  data.details.duration_ms < 100 ? '' : ` (${(data.details.duration_ms / 1000).toFixed(1)} s)`;

events.on('test:pass', (data) => {
  if (isSuite(data)) return;
  if (files.includes(data.name)) {
    // A file that ran without reporting a single test proves nothing; with a filter it is what was asked for.
    if (filter !== '') return;
    counts.failed += 1;
    failures.push({ file: data.name, title: nameOf(data.name), error: 'the file contains no test' });
  } else if (data.skip !== undefined || data.todo !== undefined) {
    const reason = data.skip ?? data.todo;
    // A test that the filter left out is not worth a line.
    if (filter !== '' && String(reason).includes('does not match')) return;
    counts.skipped += 1;
    line('-', data, ` # skipped${typeof reason === 'string' && reason !== '' ? `: ${reason}` : ''}`);
  } else {
    counts.passed += 1;
    line('✔', data, took(data));
  }
});

events.on('test:fail', (data) => {
  const error = data.details?.error;
  // A suite or file fails because of a test in it, which has been counted.
  const isAftermath = error?.failureType === 'subtestsFailed';
  if (isAftermath) return;
  counts.failed += 1;
  line('✖', data, took(data));
  failures.push({
    file: fileOf(data),
    title: `${nameOf(fileOf(data))} › ${[...ancestors.slice(0, data.nesting), data.name].join(' › ')}`,
    error,
  });
});

events.on('test:stdout', (data) => process.stdout.write(data.message));
events.on('test:stderr', (data) => {
  process.stderr.write(data.message);
  // House rule: a warning from Node (leaked listeners, unhandled rejections, deprecations) fails the test.
  const warning = /^\(node:\d+\) (?!ExperimentalWarning).*Warning: .*/m.exec(data.message);
  if (warning === null) return;
  counts.failed += 1;
  failures.push({
    file: fileOf(data),
    title: nameOf(fileOf(data)),
    error: `a warning from Node: ${warning[0]}`,
  });
});

events.on('end', () => {
  const told = failures.map(({ file, title, error }) => {
    const cause = error?.cause ?? error;
    const text = typeof cause === 'string' ? cause : inspect(cause, { depth: 4 });
    return { file, title, text: text.replaceAll(/^/gm, '  ') };
  });
  for (const { title, text } of told) console.log(`\n✖ ${title}\n${text}`);
  process.send?.({ ...counts, failures: told });
  process.exitCode = counts.failed === 0 ? 0 : 1;
});
events.resume();
