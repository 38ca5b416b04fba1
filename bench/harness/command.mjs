// Runs one program with a deadline and hands back its output, exit and JSON lines. A program that does not end is
// asked (SIGTERM) and then made (SIGKILL) to: nothing may spin on after the bench, the next figures would be wrong.
import { spawn } from 'node:child_process';

const GRACE_MS = 5000;
const KEPT_CHARACTERS = 1 << 20;

/** Resolves always: a program that cannot start or fails is a result (`failure` says why), not an exception. */
export function runCommand(command, args, { env, cwd, signal, deadlineMs = 300_000 } = {}) {
  return new Promise((resolve) => {
    const startedAt = performance.now();
    const child = spawn(command, args, { env, cwd, stdio: ['ignore', 'pipe', 'pipe'] });
    let [stdout, stderr, failure] = ['', '', undefined];
    let hardKill;
    const end = (why) => {
      if (failure !== undefined) return;
      failure = why;
      child.kill('SIGTERM');
      hardKill = setTimeout(() => child.kill('SIGKILL'), GRACE_MS);
    };
    const onAbort = () => end('interrupted');
    const deadline = setTimeout(
      () => end(`did not end within ${Math.round(deadlineMs / 1000)} s`),
      deadlineMs,
    );
    signal?.addEventListener('abort', onAbort);
    if (signal?.aborted) onAbort();
    child.stdout.setEncoding('utf8').on('data', (text) => {
      stdout = (stdout + text).slice(-KEPT_CHARACTERS);
    });
    child.stderr.setEncoding('utf8').on('data', (text) => {
      stderr = (stderr + text).slice(-KEPT_CHARACTERS);
    });
    const finish = (code, endSignal, error) => {
      clearTimeout(deadline);
      clearTimeout(hardKill);
      signal?.removeEventListener('abort', onAbort);
      const seconds = (performance.now() - startedAt) / 1000;
      const how =
        error?.message ?? (endSignal ? `ended by ${endSignal}` : code ? `exit code ${code}` : undefined);
      resolve({ stdout, stderr, seconds, failure: failure ?? how });
    };
    child.once('error', (error) => finish(null, null, error));
    child.once('close', (code, endSignal) => finish(code, endSignal));
  });
}

/** The JSON objects a program printed, one a line; a launcher's "[0]<stdout>:" before them is skipped. */
export function jsonLines(text) {
  const objects = [];
  for (const line of text.split('\n')) {
    const match = /^(?:\[\d+\]<stdout>:)?\s*(\{.*\})\s*$/.exec(line);
    if (!match) continue;
    try {
      objects.push(JSON.parse(match[1]));
    } catch {
      // Not one of ours: programs may print what they like besides.
    }
  }
  return objects;
}

/** Why a program failed, with the last lines of its complaint, as one sentence; undefined when it did not. */
export function explainFailure({ failure, stderr }) {
  if (failure === undefined) return undefined;
  return [failure, lastWords(stderr)].filter((part) => part !== '').join(': ');
}

/** The last lines of a program's complaint. */
function lastWords(text, lines = 3) {
  const kept = text
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '');
  return kept.slice(-lines).join(' / ').slice(-400);
}
