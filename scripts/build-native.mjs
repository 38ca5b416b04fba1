// Builds the native addons with the system's C++ compiler and the header package from npm: no gyp, no download.
//
//   native/build/horovod.node               always, on Linux with a compiler
//   native/build/horovod-mpi-<family>.node  if there is an MPI compiler (mpicxx, or HOROVOD_MPICXX): openmpi, mpich
//   native/build/horovod-gloo.node          if libgloo is installed
//
// They share their object files. --without-mpi (HOROVOD_WITHOUT_MPI=1, HOROVOD_WITH_MPI=0) and the same for Gloo leave an addon out. If
// an addon cannot be built, the script prints a message; with --mpi (HOROVOD_WITH_MPI=1) or --gloo it fails. Without a compiler, or
// on a system other than Linux, the script prints a message and exits with 0, and the portable transport is used; with --required
// it exits with 1. It is part of the package: `horovod build` runs it.
//
//   node scripts/build-native.mjs [--debug] [--required] [--mpi] [--gloo] [--without-mpi] [--without-gloo] [--out folder]

import { spawn, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import os from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { ownFlagsFor } from './lib/compute-flags.mjs';
import { findCommand } from './lib/tools.mjs';

const { values: options } = parseArgs({
  options: {
    debug: { type: 'boolean' },
    required: { type: 'boolean' },
    mpi: { type: 'boolean' },
    gloo: { type: 'boolean' },
    'without-mpi': { type: 'boolean' },
    'without-gloo': { type: 'boolean' },
    out: { type: 'string' },
  },
});
const root = path.resolve(import.meta.dirname, '..');
const source = path.join(root, 'native/src');
const output = path.resolve(options.out ?? path.join(root, 'native/build'));

function skip(reason) {
  if (options.required) {
    console.error(`horovod: the native addon cannot be built: ${reason}.`);
    process.exit(1);
  }
  console.log(`horovod: native addon not built (${reason}); the portable transport will be used.`);
  process.exit(0);
}

if (process.platform !== 'linux')
  skip(`the shared-memory transport is for Linux, this is ${process.platform}`);
const compiler = process.env.CXX ?? 'g++';
const version = spawnSync(compiler, ['--version'], { encoding: 'utf8' });
if (version.status !== 0)
  skip(`no C++ compiler: ${compiler} does not run (Debian, Ubuntu: apt-get install g++; or set CXX)`);
const [compilerVersion] = version.stdout.split('\n');
let headers;
try {
  headers = createRequire(path.join(root, 'package.json'))('node-api-headers').include_dir;
} catch {
  skip('the package node-api-headers is not installed; run npm install with devDependencies');
}

const compileFlags = ['-std=c++20', '-O3', '-fPIC', '-Wall', '-Wextra', '-Werror', '-ffp-contract=off'];
compileFlags.push('-fno-math-errno', '-fvisibility=hidden', '-DNAPI_VERSION=8', '-pthread', `-I${headers}`);
if (!options.debug) compileFlags.push('-DNDEBUG');
const flagsOf = ownFlagsFor(compiler);
const linkFlags = ['-shared', '-pthread', '-Wl,--as-needed', ...(options.debug ? [] : ['-s'])];
const staticRuntime = ['-static-libstdc++', '-static-libgcc'];

const began = performance.now();
const ownFiles = readdirSync(source, { recursive: true })
  .map(String)
  .filter((name) => /\.(cc|h|inc)$/.test(name))
  .sort();
const sources = ownFiles.filter((name) => name.endsWith('.cc'));
const contentsAtStart = new Map(
  ownFiles.map((name) => path.join(source, name)).map((file) => [file, contentOf(file)]),
);
const transportFolders = ['mpi', 'gloo'];
const transportGlue = path.join('node', 'cross-transport-object.cc');
const folderOf = (name) => name.split(path.sep)[0];
const commonSources = sources.filter(
  (name) => !transportFolders.includes(folderOf(name)) && name !== transportGlue,
);

try {
  const objects = await compileAll(compiler, commonSources, 'common', []);
  if (await link(compiler, objects, 'horovod.node', staticRuntime)) say('native addon built');
  for (const transport of transports()) await buildTransport(transport, objects);
} catch (error) {
  console.error(error.message);
  console.error(
    `horovod: ${compiler} could not build the native addon; the portable transport would be used.`,
  );
  process.exit(1);
}

function say(what) {
  console.log(`horovod: ${what} in ${((performance.now() - began) / 1000).toFixed(1)} s`);
}

/** The other addons: { name, tool, file, flags, env } if it can be built here, else { name, reason }. */
function transports() {
  const list = [];
  if (!isLeftOut('mpi')) list.push(...mpiTransports());
  if (!isLeftOut('gloo')) list.push(glooTransport());
  return list;
}

function isLeftOut(transport) {
  const name = transport.toUpperCase();
  const { [`HOROVOD_WITH_${name}`]: wanted, [`HOROVOD_WITHOUT_${name}`]: unwanted } = process.env;
  if (options[transport]) return false;
  return options[`without-${transport}`] === true || wanted === '0' || unwanted === '1';
}

function isDemanded(transport) {
  return options[transport] === true || process.env[`HOROVOD_WITH_${transport.toUpperCase()}`] === '1';
}

function mpiTransports() {
  const given = process.env.HOROVOD_MPICXX;
  const wrappers = given ? [given] : ['mpicxx', 'mpicxx.openmpi', 'mpicxx.mpich', 'mpic++'];
  const found = wrappers.filter((name) => name.includes('/') || findCommand(name) !== undefined);
  if (found.length === 0)
    return [
      {
        name: 'MPI',
        setting: 'mpi',
        reason: 'no mpicxx on PATH (Debian, Ubuntu: libopenmpi-dev or libmpich-dev)',
      },
    ];
  const families = new Map();
  const env = { ...process.env, OMPI_CXX: compiler, MPICH_CXX: compiler };
  let reason;
  for (const tool of found) {
    const macros = spawnSync(tool, ['-E', '-dM', '-x', 'c++', '-'], {
      input: '#include <mpi.h>\n',
      maxBuffer: 64 * 1024 * 1024,
      encoding: 'utf8',
      env,
    });
    if (macros.status !== 0) {
      reason = `${tool} finds no mpi.h`;
      continue;
    }
    const family = /^#define OPEN_MPI 1/m.test(macros.stdout) ? 'openmpi' : 'mpich';
    if (!families.has(family)) families.set(family, tool);
  }
  if (families.size === 0) return [{ name: 'MPI', setting: 'mpi', reason }];
  return [...families].map(([family, tool]) => ({
    name: `MPI (${family})`,
    setting: 'mpi',
    folder: 'mpi',
    file: `horovod-mpi-${family}.node`,
    objects: `mpi-${family}`,
    tool,
    env,
    compile: ['-DOMPI_SKIP_MPICXX', '-DMPICH_SKIP_MPICXX'],
    link: staticRuntime,
  }));
}

function glooTransport() {
  const found = spawnSync(compiler, ['-M', '-x', 'c++', '-'], { input: '#include <gloo/context.h>\n' });
  if (found.status !== 0) {
    return {
      name: 'Gloo',
      setting: 'gloo',
      reason: 'libgloo is not installed (Debian, Ubuntu: libgloo-dev)',
    };
  }
  // libgloo throws exceptions into our code, so both must use the same C++ runtime.
  return {
    name: 'Gloo',
    setting: 'gloo',
    folder: 'gloo',
    file: 'horovod-gloo.node',
    objects: 'gloo',
    tool: compiler,
    env: process.env,
    compile: [],
    link: ['-lgloo'],
  };
}

async function buildTransport(transport, objects) {
  let reason = transport.reason;
  if (reason === undefined) {
    try {
      const own = sources.filter((name) => folderOf(name) === transport.folder || name === transportGlue);
      const compiled = await compileAll(
        transport.tool,
        own,
        transport.objects,
        transport.compile,
        transport.env,
      );
      if (
        await link(transport.tool, [...objects, ...compiled], transport.file, transport.link, transport.env)
      ) {
        say(`addon for ${transport.name} built`);
      }
      return;
    } catch (error) {
      console.error(error.message);
      reason = `${transport.tool} failed; see above`;
    }
  }
  const isWanted = isDemanded(transport.setting);
  if (isWanted) process.exitCode = 1;
  if (isWanted || transport.reason === undefined) {
    console.error(`horovod: addon for ${transport.name} not built: ${reason}`);
  }
}

/** Compiles these sources if their object files are not up to date. Resolves to the object files. */
async function compileAll(tool, names, folder, flags, env = process.env) {
  const objects = path.join(output, 'objects', options.debug ? 'debug' : 'release', folder);
  mkdirSync(objects, { recursive: true });
  const work = names.map((name) => {
    const ownFlags = [...compileFlags, ...flags, ...flagsOf(name)];
    return {
      input: path.join(source, name),
      object: path.join(objects, `${name.replaceAll(path.sep, '-')}.o`),
      ownFlags,
      command: [tool, compilerVersion, ...ownFlags],
    };
  });
  const queue = work.filter(({ object, command }) => !isFresh(object, recordOf(object), command));
  const next = async () => {
    for (let item = queue.shift(); item !== undefined; item = queue.shift()) {
      const part = `${item.object}.${process.pid}`;
      const files = ['-MMD', '-MF', `${part}.d`, '-c', item.input, '-o', part];
      await run(tool, [...item.ownFlags, ...files], env);
      const inputs = contentsOf(dependenciesIn(`${part}.d`));
      keep(part, item.object, recordOf(item.object), item.command, inputs);
      rmSync(`${part}.d`);
    }
  };
  await Promise.all(Array.from({ length: os.availableParallelism() }, next));
  return work.map(({ object }) => object);
}

/** Resolves to false if there was nothing to do. */
async function link(tool, objects, name, flags, env = process.env) {
  const file = path.join(output, name);
  const record = recordOf(path.join(output, 'objects', name));
  const command = [tool, compilerVersion, ...linkFlags, ...flags];
  if (isFresh(file, record, command, objects)) return false;
  const part = `${file}.${process.pid}`;
  const inputs = contentsOf(objects);
  await run(tool, [...linkFlags, ...objects, ...flags, '-o', part], env);
  keep(part, file, record, command, inputs);
  return true;
}

// NOTE [Records]. Each output has a record beside it: the command, the digests of all its inputs, and its own digest. File times
// would not be enough: a header that changes during compilation is older than the object file, which does not contain the change.
// So the digests are those of the beginning of the build, and if an input has changed since, no record is written. If two builds
// run at once, the output may come from one and the record from the other; the digest of the output detects this.

function recordOf(file) {
  return `${file}.json`;
}

/** `inputs`: the expected inputs, if they are known without asking the compiler. */
function isFresh(file, record, command, inputs) {
  const text = readIfThere(record);
  if (text === undefined) return false;
  const made = JSON.parse(text);
  const isSame = (list, other) => JSON.stringify(list) === JSON.stringify(other);
  return (
    isSame(made.command, command) &&
    (inputs === undefined || isSame(Object.keys(made.inputs), inputs)) &&
    Object.entries(made.inputs).every(([input, content]) => contentAtStart(input) === content) &&
    contentOf(file) === made.output
  );
}

function keep(part, file, record, command, inputs) {
  const hasChanged = Object.entries(inputs).some(([input, content]) => contentOf(input) !== content);
  const made = JSON.stringify({ command, inputs, output: contentOf(part) });
  rmSync(record, { force: true });
  renameSync(part, file);
  if (hasChanged) return;
  writeFileSync(`${record}.${process.pid}`, made);
  renameSync(`${record}.${process.pid}`, record);
}

/** For our own files: as they were at the beginning of the build. Others: as they are now (system headers, new object files). */
function contentAtStart(file) {
  return contentsAtStart.get(file) ?? contentOf(file);
}

function contentsOf(files) {
  return Object.fromEntries(files.map((file) => [file, contentAtStart(file)]));
}

function contentOf(file) {
  return existsSync(file) ? createHash('sha256').update(readFileSync(file)).digest('base64') : undefined;
}

/** The dependencies that a compiler wrote with -MMD. */
function dependenciesIn(file) {
  return readFileSync(file, 'utf8')
    .replace(/^[^:]*:/, '')
    .replaceAll('\\\n', ' ')
    .split(/(?<!\\)\s+/)
    .filter((part) => part !== '')
    .map((part) => path.normalize(part.replaceAll('\\ ', ' ')));
}

function readIfThere(file) {
  return existsSync(file) ? readFileSync(file, 'utf8') : undefined;
}

function run(tool, args, env) {
  return new Promise((resolve, reject) => {
    const child = spawn(tool, args, { env, stdio: ['ignore', 'inherit', 'pipe'] });
    let errors = '';
    child.stderr.setEncoding('utf8').on('data', (text) => (errors += text));
    child.on('error', (error) => reject(error));
    child.on('close', (code) =>
      code === 0 ? resolve() : reject(new Error(errors || `${tool} ended with ${code}`)),
    );
  });
}
