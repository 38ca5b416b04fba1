// horovod_ray.py as a process of the launcher. It ends by itself when all agents have ended, and is ended when it does not; if the launcher
// dies, the guardian ends it, and Ray ends its actors.

import { type ChildProcess, spawn } from 'node:child_process';
import { join } from 'node:path';
import { packageRoot } from '../../settings/package.ts';
import { within } from '../job-parts/within.ts';
import { LineReader } from '../output/line-reader.ts';
import { Guardian } from '../spawn/guardian.ts';
import { parseEvent, type RayEvent, type RayOrder } from './ray-messages.ts';
import type { RayLink } from './ray-places.ts';

export interface RayProcessOptions {
  readonly python: string;
  readonly environment: NodeJS.ProcessEnv;
  /** Gets what Ray prints. */
  readonly explain: (text: string) => void;
}

/** `ps` does not show it, as it would an argument; the program takes it out of its environment before anything else. */
const orderVariable = 'HOROVOD_RAY_ORDER';
const eventPrefix = 'horovod-ray ';
/** How long it may take to end by itself, and then after SIGTERM. */
const endMs = 10_000;
const termMs = 8000;
const lastLines = 5;

export class RayProcess implements RayLink {
  readonly #options: RayProcessOptions;
  readonly #said: string[] = [];
  #child: ChildProcess | undefined;
  #guardian: Guardian | undefined;
  #exited: Promise<void> = Promise.resolve();

  constructor(options: RayProcessOptions) {
    this.#options = options;
  }

  begin(order: RayOrder, onEvent: (event: RayEvent) => void, onEnd: (how: string) => void): void {
    const { python, environment } = this.#options;
    const guardian = Guardian.start(order.jobId, environment['PATH']);
    this.#guardian = guardian;
    const child = spawn(python, ['-u', join(packageRoot(), 'python/ray/horovod_ray.py')], {
      // In a group of its own, which has the processes of a cluster that was started for this job.
      detached: true,
      env: { RAY_USAGE_STATS_ENABLED: '0', ...environment, [orderVariable]: JSON.stringify(order) },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    this.#child = child;
    if (child.pid !== undefined) guardian.add(child.pid);
    for (const stream of [child.stdout, child.stderr]) {
      const lines = new LineReader();
      stream.on('data', (piece: Buffer) => this.#hear(lines.push(piece), onEvent));
      stream.on('error', () => undefined);
    }
    this.#exited = new Promise((resolve) => {
      child.once('error', (error) => {
        if (child.pid !== undefined) return;
        onEnd(
          `${python} could not be started: ${error.message}. Give pythonExecutable: the Python that has Ray`,
        );
        resolve();
      });
      child.once('exit', (code, signal) => {
        if (child.pid !== undefined) guardian.remove(child.pid);
        // The last lines may still be in the pipes.
        setImmediate(() => {
          const how = signal === null ? `ended with code ${code}` : `was killed by ${signal}`;
          const said = this.#said.length === 0 ? '' : `. It said:\n  ${this.#said.join('\n  ')}`;
          onEnd(`horovod_ray.py ${how}${said}`);
          resolve();
        });
      });
    });
  }

  async close(isEnding: boolean): Promise<void> {
    if (isEnding) await within(this.#exited, endMs);
    if (this.#signal('SIGTERM')) await within(this.#exited, termMs);
    // Also what a cluster of this job has left.
    if (this.#signal('SIGKILL')) await within(this.#exited, termMs);
    await this.#guardian?.dismiss();
  }

  #hear(lines: readonly string[], onEvent: (event: RayEvent) => void): void {
    for (const line of lines) {
      if (line.startsWith(eventPrefix)) {
        const event = parseEvent(line.slice(eventPrefix.length));
        if (event !== undefined) onEvent(event);
      } else if (line.trim() !== '') {
        this.#said.push(line);
        if (this.#said.length > lastLines) this.#said.shift();
        this.#options.explain(`Ray: ${line}`);
      }
    }
  }

  /** False: it has ended. */
  #signal(signal: NodeJS.Signals): boolean {
    const { pid, exitCode, signalCode } = this.#child ?? {};
    if (pid === undefined || exitCode !== null || signalCode !== null) return false;
    try {
      return signal === 'SIGTERM' ? process.kill(pid, signal) : process.kill(-pid, signal);
    } catch {
      return false;
    }
  }
}
