// What the tests in test/integrations need beside npm's packages: Hadoop, Spark, Ray, Apptainer, TensorBoard, schemas of Kubernetes, and the kernels of
// notebooks. Each is fetched by name into .cache, once, and handed to the tests in a variable; a variable that is set already is left as it is. Tests whose part is
// missing are skipped.

import { existsSync, mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { installApptainer } from './apptainer.mjs';
import { ensureHadoop } from './hadoop.mjs';
import { ensurePip, installOnCi } from './system-packages.mjs';
import { capture, findCommand, inRepository } from './tools.mjs';

/** nbclient runs notebooks without a browser; kubernetes-validate has the schemas of Kubernetes. */
const pythonPackages = ['tensorboard==2.21.0', 'nbclient==0.11.0', 'kubernetes-validate==1.37.0'];
const sparkPackage = 'pyspark==3.5.9';
const rayPackage = 'ray==2.60.0';
const denoVersion = '2.9.6';
const tslabVersion = '1.0.22';
const timeoutMs = 600_000;

/** Resolves to { env, missing }: variables for the tests, and why others are not set. */
export async function ensureIntegrationTools() {
  const env = {};
  const missing = [];
  for (const part of await Promise.all([hadoop(), spark(), ray(), apptainer(), python(), deno(), tslab()])) {
    Object.assign(env, part.env);
    if (part.reason !== undefined) missing.push(part.reason);
  }
  return { env, missing };
}

async function hadoop() {
  const { lib, reason } = await ensureHadoop();
  return reason === undefined ? { env: { HVD_TEST_HADOOP_LIB: lib } } : { reason };
}

/** A virtual environment. */
async function python() {
  const given = ['HVD_TEST_TENSORBOARD', 'HVD_TEST_PYTHON'];
  if (given.every((name) => process.env[name] !== undefined)) return { env: {} };
  return once(
    'python',
    pythonPackages.join(' '),
    virtualEnvironment('TensorBoard', pythonPackages),
    (folder) => ({
      HVD_TEST_TENSORBOARD: join(folder, 'bin/tensorboard'),
      HVD_TEST_PYTHON: join(folder, 'bin/python'),
    }),
  );
}

/** `install` of once(): a virtual environment with these packages. */
const virtualEnvironment = (what, packages) => async (folder) => {
  const { python: system, reason } = await ensurePip();
  if (reason !== undefined) return reason;
  let made = await capture(system, ['-m', 'venv', folder], { timeoutMs });
  if (made.code !== 0) {
    await installOnCi(['python3-venv']);
    made = await capture(system, ['-m', 'venv', folder], { timeoutMs });
  }
  if (made.code !== 0) return `no virtual environment of Python: ${lastLine(made.text)}`;
  const install = ['-m', 'pip', 'install', '-q', '--disable-pip-version-check', ...packages];
  const { code, text } = await capture(join(folder, 'bin/python'), install, { timeoutMs });
  return code === 0 ? undefined : `pip could not install ${what}: ${lastLine(text)}`;
};

/** It needs Java as Hadoop does. */
async function spark() {
  if (process.env['HVD_TEST_SPARK'] !== undefined) return { env: {} };
  if (findCommand('java') === undefined) await installOnCi(['openjdk-17-jre-headless']);
  if (findCommand('java') === undefined)
    return { reason: 'no Java for Spark (Debian, Ubuntu: apt-get install openjdk-17-jre-headless)' };
  return once('spark', sparkPackage, virtualEnvironment('Spark', [sparkPackage]), (folder) => ({
    HVD_TEST_SPARK: join(folder, 'bin/spark-submit'),
  }));
}

async function ray() {
  if (process.env['HVD_TEST_RAY'] !== undefined) return { env: {} };
  return once('ray', rayPackage, virtualEnvironment('Ray', [rayPackage]), (folder) => ({
    HVD_TEST_RAY: join(folder, 'bin/python'),
  }));
}

async function apptainer() {
  if (process.env['HVD_TEST_SINGULARITY'] !== undefined) return { env: {} };
  return once('apptainer', 'unstable', installApptainer, (folder) => ({
    HVD_TEST_SINGULARITY: join(folder, 'bin/singularity'),
  }));
}

async function deno() {
  if (process.env['HVD_TEST_DENO'] !== undefined) return { env: {} };
  // The command of the package `deno` would look for this one.
  const platform = { 'linux x64': 'linux-x64-glibc', 'linux arm64': 'linux-arm64-glibc' };
  const name = platform[`${process.platform} ${process.arch}`];
  if (name === undefined) return { reason: `Deno is not tested on ${process.platform} ${process.arch}` };
  return once('deno', denoVersion, npm(`@deno/${name}@${denoVersion}`), (folder) => ({
    HVD_TEST_DENO: join(folder, 'node_modules/@deno', name, 'deno'),
  }));
}

async function tslab() {
  if (process.env['HVD_TEST_TSLAB'] !== undefined) return { env: {} };
  return once('tslab', tslabVersion, npm(`tslab@${tslabVersion}`), (folder) => ({
    HVD_TEST_TSLAB: join(folder, 'node_modules/tslab/bin/tslab'),
  }));
}

const npm = (what) => async (folder) => {
  writeFileSync(join(folder, 'package.json'), '{ "private": true }\n');
  const args = ['install', '--no-audit', '--no-fund', '--ignore-scripts', '--prefix', folder, what];
  const { code, text } = await capture('npm', args, { timeoutMs, cwd: folder });
  return code === 0 ? undefined : `npm could not install ${what}: ${lastLine(text)}`;
};

/** `install` fills a folder and resolves to why it could not. The mark is written last, so a folder without it is begun again. */
async function once(name, version, install, envOf) {
  const folder = inRepository('.cache', name);
  const mark = join(folder, `installed-${version.replaceAll(/[^\w.-]+/g, '-')}`);
  if (!existsSync(mark)) {
    rmSync(folder, { recursive: true, force: true });
    mkdirSync(folder, { recursive: true });
    const reason = await install(folder);
    if (reason !== undefined) return { reason };
    writeFileSync(`${mark}.new`, '');
    renameSync(`${mark}.new`, mark);
  }
  const env = envOf(folder);
  const absent = Object.values(env).find((path) => !existsSync(path));
  return absent === undefined
    ? { env }
    : { reason: `${name} was installed without ${absent.slice(dirname(folder).length + 1)}` };
}

function lastLine(text) {
  return (text.trim().split('\n').at(-1) ?? '').slice(0, 200);
}
