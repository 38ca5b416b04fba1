// The one thing that does not come from npm: a C++ compiler. On a CI machine (CI=true) it is installed with
// apt-get when missing; elsewhere we only look for it and say what to install.

import { findCommand, run } from './tools.mjs';

/** The compiler to use, or undefined. CXX wins, as everywhere. */
export function findCompiler() {
  const chosen = process.env['CXX'];
  if (chosen !== undefined && chosen !== '') return chosen;
  return ['g++', 'clang++', 'c++'].find((name) => findCommand(name) !== undefined);
}

/** Finds a compiler, on CI after installing one; resolves to { compiler } or { reason }. */
export async function ensureCompiler() {
  if (findCompiler() === undefined && process.env['CI'] === 'true' && findCommand('apt-get') !== undefined) {
    const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' };
    await run('apt-get', ['update', '-qq'], { env, output: 'stderr' });
    await run('apt-get', ['install', '-y', '-qq', '--no-install-recommends', 'g++', 'libc6-dev'], {
      env,
      output: 'stderr',
    });
  }
  const compiler = findCompiler();
  return compiler === undefined
    ? { reason: 'no C++ compiler on PATH (Debian, Ubuntu: apt-get install g++)' }
    : { compiler };
}
