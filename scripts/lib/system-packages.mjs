// System packages, which npm cannot install: a C++ compiler, pip for tfjs-node, and sshd, MPI, Gloo and Slurm for tests on hosts in
// a box, a browser for tests of pages. On CI (CI=true) apt-get installs compiler and pip; as root on Debian or Ubuntu it installs the packages of these
// tests. Elsewhere we only look for them and say what to install.

import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { capture, findCommand, run } from './tools.mjs';

/** Exit code of a script that cannot install something here: no network, no tool, no space. */
export const cannotInstallHere = 3;

/** The compiler to use, or undefined. CXX takes precedence, as in other build tools. */
export function findCompiler() {
  const chosen = process.env['CXX'];
  if (chosen !== undefined && chosen !== '') return chosen;
  return ['g++', 'clang++', 'c++'].find((name) => findCommand(name) !== undefined);
}

/** Finds a compiler, on CI after installing one; resolves to { compiler } or { reason }. */
export async function ensureCompiler() {
  if (findCompiler() === undefined) await installOnCi(['g++', 'libc6-dev']);
  // Its libcrypto takes the place of Node's in the C++ tests of encryption.
  if (findCommand('openssl') === undefined) await installOnCi(['openssl']);
  const compiler = findCompiler();
  return compiler === undefined
    ? { reason: 'no C++ compiler on PATH (Debian, Ubuntu: apt-get install g++)' }
    : { compiler };
}

/** Finds a Python with pip, on CI after installing it; resolves to { python } or { reason }. */
export async function ensurePip() {
  const find = async () => {
    if (findCommand('python3') === undefined) return undefined;
    const { code } = await capture('python3', ['-m', 'pip', '--version'], { timeoutMs: 60_000 });
    return code === 0 ? 'python3' : undefined;
  };
  let python = await find();
  if (python === undefined) {
    await installOnCi(['python3', 'python3-pip']);
    python = await find();
  }
  return python === undefined
    ? { reason: 'no python3 with pip on PATH (Debian, Ubuntu: apt-get install python3-pip)' }
    : { python };
}

/** Only where CI=true, with apt-get. */
export async function installOnCi(packages) {
  if (process.env['CI'] !== 'true' || findCommand('apt-get') === undefined) return;
  const options = { env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' }, output: 'stderr' };
  await run('apt-get', ['update', '-qq'], options);
  await run('apt-get', ['install', '-y', '-qq', '--no-install-recommends', ...packages], options);
}

/** Packages by purpose. A missing package disables only the tests that need its line. */
const testPackages = {
  'hosts in a box': ['iproute2', 'procps', 'openssh-server', 'openssh-client', 'nftables', 'python3'],
  'Open MPI': ['openmpi-bin', 'libopenmpi-dev'],
  MPICH: ['mpich', 'libmpich-dev'],
  Gloo: ['libgloo-dev'],
  containers: ['bubblewrap', 'patchelf', 'squashfs-tools'],
  Slurm: ['slurmctld', 'slurmd', 'slurm-client', 'slurm-wlm-basic-plugins', 'munge'],
  'a browser': ['chromium', 'fonts-dejavu-core'],
};

/**
 * Installs the missing packages for tests on hosts in a box and in a browser, and for the MPI and Gloo addons. Resolves to
 * { installed: names } or { missing: names, reason }.
 */
export async function ensureTestPackages() {
  const wanted = Object.values(testPackages).flat();
  if (findCommand('dpkg-query') === undefined || findCommand('apt-get') === undefined) {
    return { missing: wanted, reason: 'packages are installed on Debian and Ubuntu only' };
  }
  const missing = await missingPackages(wanted);
  if (missing.length === 0) return { installed: [] };
  if (process.getuid?.() !== 0) {
    return { missing, reason: `not root; to install: apt-get install ${missing.join(' ')}` };
  }
  console.log(`installing ${missing.join(' ')}`);
  const lines = await withoutStartingServices(() => installByGroup(missing));
  const stillMissing = await missingPackages(missing);
  return stillMissing.length === 0
    ? { installed: missing }
    : { missing: stillMissing, reason: `apt-get could not install ${stillMissing.join(' ')}: ${lines}` };
}

async function missingPackages(names) {
  // biome-ignore lint/suspicious/noTemplateCurlyInString: dpkg-query's own placeholders
  const { text } = await capture('dpkg-query', ['-W', '-f=${Package} ${db:Status-Status}\\n', ...names]);
  const there = new Set(
    text
      .split('\n')
      .filter((line) => line.endsWith(' installed'))
      .map((line) => line.split(' ')[0]),
  );
  return names.filter((name) => !there.has(name));
}

/** Installs all at once; if that fails, with new package lists; then line by line. Resolves to the last error. */
async function installByGroup(missing) {
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' };
  const install = async (names) => {
    const args = ['install', '-y', '-qq', '--no-install-recommends', ...names];
    return await capture('apt-get', args, { env, timeoutMs: 600_000 });
  };
  let { code, text } = await install(missing);
  if (code === 0) return '';
  await capture('apt-get', ['update', '-qq'], { env, timeoutMs: 300_000 });
  ({ code, text } = await install(missing));
  if (code === 0) return '';
  for (const names of Object.values(testPackages)) {
    const some = names.filter((name) => missing.includes(name));
    if (some.length > 0) ({ text } = await install(some));
  }
  return text.trim().split('\n').at(-1) ?? '';
}

// Tests start daemons on their own hosts. Installing a package must not start any on this machine.
async function withoutStartingServices(work) {
  const policy = '/usr/sbin/policy-rc.d';
  if (existsSync(policy)) return await work();
  const ours = '#!/bin/sh\n# while the tests of horovod install packages\nexit 101\n';
  writeFileSync(policy, ours, { mode: 0o755 });
  try {
    return await work();
  } finally {
    if (existsSync(policy) && readFileSync(policy, 'utf8') === ours) rmSync(policy);
  }
}
