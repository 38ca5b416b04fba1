// Runs compiled test files with node:test and prints what happens, file by file. It is a separate process, so that
// run-tests.mjs can start it under another Node or another environment. Its arguments are
// `<concurrency> <timeout in ms> <filter or ''> <JSON: [busy files, other files]>`; the result of every file goes back over the IPC
// channel. Files that keep all cores busy run one at a time, beside files that mostly wait.

import { relative } from 'node:path';
import { run } from 'node:test';
import { inspect } from 'node:util';
import { repositoryRoot, sourceOf } from './tools.mjs';

const [concurrency, timeout, filter, lanes] = process.argv.slice(2);
const results = [];
const [busy, others] = JSON.parse(lanes);

await Promise.all(
  Array.from({ length: Number(concurrency) }, async (_, worker) => {
    // Only one worker takes busy files, and it takes them first.
    const next = () => (worker === 0 ? busy.shift() : undefined) ?? others.shift();
    for (let path = next(); path !== undefined; path = next()) results.push(await runFile(path));
  }),
);
for (const { title, text } of results.flatMap(({ failures }) => failures))
  console.log(`\n✖ ${title}\n${text}`);
process.send?.(results);
process.exitCode = results.some(({ failed }) => failed > 0) ? 1 : 0;

/** One run per file, because events do not tell which file they belong to if a helper in another file declares the test. */
async function runFile(path) {
  const file = sourceOf(relative(repositoryRoot, path));
  const result = { file, passed: 0, failed: 0, skipped: 0, seconds: 0, failures: [] };
  const startedAt = performance.now();
  const screen = openScreen(file);
  const fail = (title, error) => {
    result.failed += 1;
    result.failures.push({ file, title, text: describeError(error) });
  };
  const handlers = {
    'test:start': (data) => {
      if (data.name !== path) screen.enter(data);
    },
    'test:pass': (data) => {
      if (data.details?.type === 'suite') return;
      const reason = data.skip ?? data.todo;
      if (data.name === path) {
        // A file without any test proves nothing. With a filter, none of its tests may match.
        if (filter === '') fail(file, 'the file contains no test');
      } else if (reason === undefined) {
        result.passed += 1;
        screen.line('✔', data, took(data));
      } else if (filter === '' || !String(reason).includes('does not match')) {
        result.skipped += 1;
        screen.line(
          '-',
          data,
          ` # skipped${typeof reason === 'string' && reason !== '' ? `: ${reason}` : ''}`,
        );
      }
    },
    'test:fail': (data) => {
      const error = data.details?.error;
      // A suite or file fails because of one of its tests, which has been counted already.
      if (error?.failureType === 'subtestsFailed') return;
      screen.line('✖', data, took(data));
      fail(data.name === path ? file : `${file} › ${screen.titleOf(data)}`, error);
    },
    'test:stdout': (data) => screen.write(data.message),
    'test:stderr': (data) => {
      screen.write(data.message);
      // House rule: a warning from Node (leaked listeners, unhandled rejections, deprecations) fails the test.
      const warning = /^\(node:\d+\) (?!ExperimentalWarning).*Warning: .*/m.exec(data.message);
      if (warning !== null) fail(file, `a warning from Node: ${warning[0]}`);
    },
  };
  const pattern = filter === '' ? {} : { testNamePatterns: [new RegExp(filter, 'i')] };
  for await (const { type, data } of run({ files: [path], timeout: Number(timeout), ...pattern })) {
    handlers[type]?.(data);
  }
  screen.close();
  result.seconds = (performance.now() - startedAt) / 1000;
  return result;
}

/** The output of one file: printed immediately if files run one by one, or at its end if several run at a time. */
function openScreen(file) {
  let text = '';
  let printedDepth = 0;
  let hasHeading = false;
  const ancestors = [];
  const isLive = Number(concurrency) === 1;
  const write = (part) => {
    if (isLive) process.stdout.write(part);
    else text += part;
  };
  return {
    write,
    enter({ name, nesting }) {
      ancestors.length = nesting;
      ancestors[nesting] = name;
      printedDepth = Math.min(printedDepth, nesting);
    },
    line(mark, { name, nesting }, note) {
      if (!hasHeading) write(`${file}\n`);
      hasHeading = true;
      for (; printedDepth < nesting; printedDepth++) {
        write(`${'  '.repeat(printedDepth + 1)}${ancestors[printedDepth]}\n`);
      }
      write(`${'  '.repeat(nesting + 1)}${mark} ${name}${note}\n`);
    },
    titleOf: ({ name, nesting }) => [...ancestors.slice(0, nesting), name].join(' › '),
    close: () => process.stdout.write(text),
  };
}

function took({ details }) {
  return details.duration_ms < 100 ? '' : ` (${(details.duration_ms / 1000).toFixed(1)} s)`;
}

function describeError(error) {
  const cause = error?.cause ?? error;
  const text = typeof cause === 'string' ? cause : inspect(cause, { depth: 4 });
  return text.replaceAll(/^/gm, '  ');
}
