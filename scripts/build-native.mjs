// Builds native/build/horovod.node with the system's C++ compiler and the header package from npm: no gyp, no
// download. Without a compiler, or off Linux, it says so in one line and exits 0: the portable plane serves.
//
//   node scripts/build-native.mjs [--debug]
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, renameSync, statSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';

const root = path.resolve(import.meta.dirname, '..');
const source = path.join(root, 'native/src');
const output = path.join(root, 'native/build/horovod.node');

function filesUnder(folder, ending) {
  return readdirSync(folder, { recursive: true })
    .map((name) => path.join(folder, String(name)))
    .filter((name) => ending.test(name));
}

function skip(reason) {
  console.log(`horovod: native addon not built (${reason}); the portable plane will be used.`);
  process.exit(0);
}

if (process.platform !== 'linux') skip(`the shared-memory plane is for Linux, this is ${process.platform}`);
const compiler = process.env.CXX ?? 'g++';
if (spawnSync(compiler, ['--version']).status !== 0) skip(`no C++ compiler: ${compiler} does not run`);
let headers;
try {
  headers = createRequire(path.join(root, 'package.json'))('node-api-headers').include_dir;
} catch {
  skip('the package node-api-headers is not installed; run npm install with devDependencies');
}

const sources = filesUnder(source, /\.cc$/);
const inputs = [...filesUnder(source, /\.(cc|h|inc)$/), path.join(root, 'scripts/build-native.mjs')];
if (existsSync(output) && inputs.every((file) => statSync(file).mtimeMs < statSync(output).mtimeMs))
  process.exit(0);

mkdirSync(path.dirname(output), { recursive: true });
const temporary = `${output}.${process.pid}`;
const flags = ['-std=c++20', '-O3', '-fPIC', '-shared', '-Wall', '-Wextra', '-Werror', '-ffp-contract=off'];
flags.push(
  '-fno-math-errno',
  '-fvisibility=hidden',
  '-static-libstdc++',
  '-static-libgcc',
  '-DNAPI_VERSION=8',
  '-pthread',
);
if (!process.argv.includes('--debug')) flags.push('-DNDEBUG', '-s');
const began = performance.now();
try {
  execFileSync(compiler, [...flags, `-I${headers}`, ...sources, '-o', temporary], {
    stdio: ['ignore', 'inherit', 'pipe'],
  });
} catch (error) {
  console.error(`${error.stderr ?? error}`);
  console.error(`horovod: ${compiler} could not build the native addon; the portable plane would be used.`);
  process.exit(1);
}
renameSync(temporary, output);
console.log(`horovod: native addon built in ${((performance.now() - began) / 1000).toFixed(1)} s`);
