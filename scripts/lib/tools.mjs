// Shared by the scripts: paths of the repository, and running a tool of node_modules or of the system.

import { spawn } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { delimiter, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';

export const repositoryRoot = fileURLToPath(new URL('../..', import.meta.url)).replace(/\/$/, '');

/** Absolute path of a file of the repository. */
export const inRepository = (...parts) => join(repositoryRoot, ...parts);

/** The script of a package's command. Without npx, which would download missing packages. */
export function toolPath(packageName, command) {
  const folder = inRepository('node_modules', packageName);
  if (!existsSync(join(folder, 'package.json'))) return undefined;
  const { bin } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
  const path = typeof bin === 'string' ? bin : bin?.[command];
  return path === undefined ? undefined : join(folder, path);
}

/** The path of a command on PATH, or undefined. */
export function findCommand(name) {
  return (process.env['PATH'] ?? '')
    .split(delimiter)
    .map((folder) => join(folder, name))
    .find((path) => existsSync(path));
}

/**
 * Runs a command to its end and resolves to its exit code (128 + n for a signal). `output`: 'inherit' passes
 * stdout on, 'stderr' sends it to stderr, 'pipe' collects both into `onOutput(text)`.
 */
export function run(
  command,
  args,
  { cwd = repositoryRoot, env = process.env, output = 'inherit', onOutput, timeoutMs } = {},
) {
  const stdio = {
    inherit: ['ignore', 'inherit', 'inherit'],
    stderr: ['ignore', 2, 2],
    pipe: ['ignore', 'pipe', 'pipe'],
  };
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { cwd, env, stdio: stdio[output] });
    let timedOut = false;
    const timer =
      timeoutMs === undefined
        ? undefined
        : setTimeout(() => {
            timedOut = true;
            child.kill('SIGTERM');
            setTimeout(() => child.kill('SIGKILL'), 5_000).unref();
          }, timeoutMs);
    child.stdout?.setEncoding('utf8').on('data', onOutput);
    child.stderr?.setEncoding('utf8').on('data', onOutput);
    child.on('error', reject);
    child.on('close', (code, signal) => {
      clearTimeout(timer);
      if (timedOut) onOutput?.(`\n${command} was killed after ${timeoutMs / 1000} s\n`);
      resolve(code ?? (signal === 'SIGKILL' ? 137 : 143));
    });
  });
}

/** Runs a Node script: a command of a package in node_modules, or (package null) a file. */
export function runTool(packageName, command, args, options) {
  const script = packageName === null ? command : toolPath(packageName, command);
  if (script === undefined) throw new Error(`${packageName} is not installed; run npm install`);
  return run(process.execPath, [script, ...args], options);
}

/** Runs a command and resolves to { code, text }; `text` is stdout and stderr in the order of their arrival. */
export async function capture(command, args, options = {}) {
  let text = '';
  const code = await run(command, args, { ...options, output: 'pipe', onOutput: (part) => (text += part) });
  return { code, text };
}

/** Every file below a folder, as paths relative to the repository, sorted. */
export function filesBelow(folder) {
  const root = inRepository(folder);
  if (!existsSync(root)) return [];
  return readdirSync(root, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => relative(repositoryRoot, join(entry.parentPath, entry.name)))
    .sort();
}

/** The source of a compiled file: .dist-test/test/a.js → test/a.ts. */
export function sourceOf(path) {
  if (!/^(dist|\.dist-test)\//.test(path)) return path;
  return path
    .replace(/^dist\//, 'src/')
    .replace(/^\.dist-test\//, '')
    .replace(/(\.d\.ts|\.js|\.js\.map)$/, '.ts');
}

/** Deletes compiled files whose source was deleted. tsc keeps them, and they would be packed. */
export function removeStaleOutputs() {
  for (const path of [...filesBelow('dist'), ...filesBelow('.dist-test')]) {
    const source = sourceOf(path);
    const isStale =
      !existsSync(inRepository(source)) || (path.startsWith('dist/') && source.endsWith('.test.ts'));
    if (source !== path && isStale) rmSync(inRepository(path));
  }
}
