// What does not come from npm: a C++ compiler, and for tfjs-node Python's pip. On a CI machine (CI=true) they are installed
// with apt-get when missing; elsewhere we only look for them and say what to install.

import { capture, findCommand, run } from './tools.mjs';

/** Exit code of a script that installs something: not the script's fault (no network, no tool, no space). */
export const cannotInstallHere = 3;

/** The compiler to use, or undefined. CXX wins, as everywhere. */
export function findCompiler() {
  const chosen = process.env['CXX'];
  if (chosen !== undefined && chosen !== '') return chosen;
  return ['g++', 'clang++', 'c++'].find((name) => findCommand(name) !== undefined);
}

/** Finds a compiler, on CI after installing one; resolves to { compiler } or { reason }. */
export async function ensureCompiler() {
  if (findCompiler() === undefined) await installOnCi(['g++', 'libc6-dev']);
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

async function installOnCi(packages) {
  if (process.env['CI'] !== 'true' || findCommand('apt-get') === undefined) return;
  const options = { env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' }, output: 'stderr' };
  await run('apt-get', ['update', '-qq'], options);
  await run('apt-get', ['install', '-y', '-qq', '--no-install-recommends', ...packages], options);
}
