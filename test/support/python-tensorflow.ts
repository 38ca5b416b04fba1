// Python TensorFlow, the other side of tests that exchange files with it. HVD_TENSORFLOW_PYTHON names a Python that has it; else
// .cache/tensorflow-venv is used, where bench:data looks too, else python3.

import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { repository } from './repository.ts';

const own = join(repository, '.cache/tensorflow-venv/bin/python');
const python: string = process.env['HVD_TENSORFLOW_PYTHON'] ?? (existsSync(own) ? own : 'python3');

/** Why tests with Python TensorFlow cannot run; false if they can. */
export const noTensorflow: string | false =
  spawnSync(python, ['-c', 'import importlib.util as u; exit(u.find_spec("tensorflow") is None)']).status ===
  0
    ? false
    : `${python} has no TensorFlow; HVD_TENSORFLOW_PYTHON names another Python`;

/** Runs a program with `import tensorflow as tf` before it, and returns what it prints as JSON. */
export function runTensorflow<T>(program: string, args: readonly string[]): T {
  const code = `import json, sys\nimport tensorflow as tf\nfolder = sys.argv[1]\n${program}`;
  const { status, stdout, stderr } = spawnSync(python, ['-c', code, ...args], {
    encoding: 'utf8',
    maxBuffer: 1 << 26,
    timeout: 300_000,
    env: { ...process.env, TF_CPP_MIN_LOG_LEVEL: '3' },
  });
  if (status !== 0) throw new Error(`Python TensorFlow failed: ${stderr}`);
  return JSON.parse(stdout) as T;
}
