// zig as a C++ compiler for other platforms. It comes from PyPI (package `ziglang`) into a virtual environment in .cache, unless HVD_ZIG
// names one. Resolves to a command for CXX, because build-native.mjs takes one word.

import { existsSync, mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ensurePip, installOnCi } from './system-packages.mjs';
import { capture, inRepository } from './tools.mjs';

const zigVersion = '0.17.0';
const timeoutMs = 600_000;

/** Resolves to { zig } (the words of the command) or { reason }. */
export async function ensureZig() {
  const given = process.env['HVD_ZIG'];
  if (given !== undefined) return { zig: [given] };
  const folder = inRepository('.cache', `zig-${zigVersion}`);
  const python = join(folder, 'bin/python');
  const zig = [python, '-m', 'ziglang'];
  if (existsSync(join(folder, 'installed'))) return { zig };
  rmSync(folder, { recursive: true, force: true });
  const { python: system, reason } = await ensurePip();
  if (reason !== undefined) return { reason };
  let made = await capture(system, ['-m', 'venv', folder], { timeoutMs });
  if (made.code !== 0) {
    await installOnCi(['python3-venv']);
    made = await capture(system, ['-m', 'venv', folder], { timeoutMs });
  }
  if (made.code !== 0) return { reason: `no virtual environment of Python: ${lastLine(made.text)}` };
  const install = ['-m', 'pip', 'install', '-q', '--disable-pip-version-check', `ziglang==${zigVersion}`];
  const { code, text } = await capture(python, install, { timeoutMs });
  if (code !== 0) return { reason: `pip could not install ziglang: ${lastLine(text)}` };
  writeFileSync(join(folder, 'installed'), '');
  return { zig };
}

/** A script that compiles C++ for a target, as one command. */
export function zigCompiler(zig, target) {
  const folder = inRepository('.cache/zig-commands');
  mkdirSync(folder, { recursive: true });
  const file = join(folder, `c++-${target}`);
  const words = [...zig, 'c++', '-target', target].map(
    (word) => `'${word.replaceAll("'", String.raw`'\''`)}'`,
  );
  writeFileSync(`${file}.${process.pid}`, `#!/bin/sh\nexec ${words.join(' ')} "$@"\n`, { mode: 0o755 });
  renameSync(`${file}.${process.pid}`, file);
  return file;
}

function lastLine(text) {
  return (text.trim().split('\n').at(-1) ?? '').slice(0, 200);
}
