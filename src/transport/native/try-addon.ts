// Whether an addon loads, tried in a process of its own. The addons of two MPI families bring two libraries that export the same
// symbols; a process that loads both may crash, as late as in its next garbage collection. So a process that only asks loads neither.

import { spawnSync } from 'node:child_process';

/** Loading takes milliseconds. A library on a network file system may take longer. */
const timeoutMs = 30_000;

const script = `
try {
  process.stdout.write(JSON.stringify({ version: require(process.argv[1]).interfaceVersion }));
} catch (error) {
  process.stdout.write(JSON.stringify({ error: error.message }));
}`;

/** The version of the interface that the addon has; or why it does not load. */
export function tryAddon(file: string): { readonly version: unknown } | { readonly error: string } {
  const { stdout, status, signal, error } = spawnSync(process.execPath, ['-e', script, file], {
    encoding: 'utf8',
    timeout: timeoutMs,
    killSignal: 'SIGKILL',
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  if (error !== undefined) return { error: error.message };
  if (status !== 0)
    return { error: `a process that loads it ends with ${signal ?? `exit code ${String(status)}`}` };
  return JSON.parse(stdout) as { version: unknown } | { error: string };
}
