// Compiles and runs the C++ tests (native/test/*.test.cc) with all files of native/src that include no headers of Node, MPI or
// Gloo: plain, with AddressSanitizer and UndefinedBehaviorSanitizer, and with ThreadSanitizer.
//
//   node scripts/test-native.mjs [--flavour plain|address|thread] [--filter words]

import { mkdirSync } from 'node:fs';
import { basename, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { ownFlagsFor } from './lib/compute-flags.mjs';
import { findCompiler } from './lib/system-packages.mjs';
import { capture, filesBelow, findCommand, inRepository } from './lib/tools.mjs';

export const flavours = {
  plain: [],
  address: ['-fsanitize=address,undefined', '-fno-sanitize-recover=all', '-fno-omit-frame-pointer'],
  thread: ['-fsanitize=thread'],
};

// The last two as in build-native.mjs, because they affect the bits that a kernel computes.
const commonFlags = ['-std=c++20', '-Wall', '-Wextra', '-Werror', '-O1', '-g1', '-pthread'];
commonFlags.push('-ffp-contract=off', '-fno-math-errno');

// A small CI machine has cores and memory for two compilers with sanitizers at a time.
const parallelCompilers = 2;
const testTimeoutMs = 300_000;

/** Runs one flavour, prints its progress and resolves to { passed, failed }. `isPatient`: the compiler has low priority. */
export async function testNative(
  flavour,
  { filter, print = (text) => process.stdout.write(text), isPatient = false } = {},
) {
  const compiler = findCompiler();
  if (compiler === undefined) throw new Error('no C++ compiler (g++ or clang++) on PATH');
  const sources = filesBelow('native/src').filter(
    (path) => path.endsWith('.cc') && !/\/(node|mpi|gloo)\//.test(path),
  );
  const testFiles = filesBelow('native/test').filter((path) => path.endsWith('.test.cc'));
  const folder = inRepository('native/build/test', flavour);
  mkdirSync(folder, { recursive: true });

  const flags = [...commonFlags, ...flavours[flavour], '-I', 'native/src', '-I', 'native/test'];
  const flagsOf = ownFlagsFor(compiler);
  const runCompiler = (args) =>
    isPatient ? capture('nice', ['-n', '10', compiler, ...args]) : capture(compiler, args);
  const objectOf = (path) => join(folder, `${path.replaceAll('/', '-')}.o`);
  const counts = { passed: 0, failed: 0 };

  const everything = [...sources, 'native/test/check-main.cc', ...testFiles];
  const broken = new Set();
  const compile = async (path) => {
    const { code, text } = await runCompiler([...flags, ...flagsOf(path), '-c', path, '-o', objectOf(path)]);
    if (code === 0) return;
    broken.add(path);
    print(`  FAIL ${path} does not compile (${flavour})\n${text}`);
  };
  await inParallel(everything, parallelCompilers, compile);
  counts.failed += broken.size;
  if ([...broken].some((path) => !testFiles.includes(path))) return counts;

  for (const testFile of testFiles.filter((path) => !broken.has(path))) {
    print(`${testFile} (${flavour})\n`);
    const program = join(folder, basename(testFile, '.cc'));
    const objects = [...sources, 'native/test/check-main.cc', testFile].map(objectOf);
    const linked = await runCompiler([...flags, ...objects, '-o', program]);
    if (linked.code !== 0) {
      counts.failed += 1;
      print(`  FAIL ${testFile} does not link\n${linked.text}`);
      continue;
    }
    const [command, ...args] = [...launcher(flavour), program, ...(filter === undefined ? [] : [filter])];
    const { code, text } = await capture(command, args, { timeoutMs: testTimeoutMs });
    print(text);
    const summary = /(\d+) passed, (\d+) failed\s*$/.exec(text);
    counts.passed += Number(summary?.[1] ?? 0);
    // After a crash or a report of a sanitizer, the exit code is different and the summary may be missing.
    counts.failed += code !== 0 && !(Number(summary?.[2]) > 0) ? 1 : Number(summary?.[2] ?? 0);
    if (code !== 0) print(`  FAIL ${testFile} ended with code ${code}\n`);
  }
  return counts;
}

// ThreadSanitizer of GCC 12 does not support the address randomisation of newer kernels; setarch turns it off.
function launcher(flavour) {
  const setarch = flavour === 'thread' ? findCommand('setarch') : undefined;
  return setarch === undefined ? [] : [setarch, '-R'];
}

async function inParallel(items, limit, work) {
  const queue = [...items];
  const worker = async () => {
    for (let item = queue.shift(); item !== undefined; item = queue.shift()) await work(item);
  };
  await Promise.all(Array.from({ length: limit }, worker));
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  const { values } = parseArgs({ options: { flavour: { type: 'string' }, filter: { type: 'string' } } });
  const chosen = values.flavour === undefined ? Object.keys(flavours) : [values.flavour];
  const total = { passed: 0, failed: 0 };
  for (const flavour of chosen) {
    if (!(flavour in flavours)) throw new Error(`--flavour is one of ${Object.keys(flavours).join(', ')}`);
    const counts = await testNative(flavour, { filter: values.filter });
    total.passed += counts.passed;
    total.failed += counts.failed;
  }
  console.log(`${total.passed} passed, ${total.failed} failed`);
  process.exitCode = total.failed === 0 ? 0 : 1;
}
