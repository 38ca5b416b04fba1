// A spark-submit that the launcher has started. It ends by itself when all agents have ended, and is ended when it does not; if the
// launcher dies, the guardian ends it.

import { type ChildProcess, spawn } from 'node:child_process';
import { join } from 'node:path';
import { packageRoot } from '../../settings/package.ts';
import { within } from '../job-parts/within.ts';
import { LineReader } from '../output/line-reader.ts';
import { Guardian } from '../spawn/guardian.ts';
import { parseEvent, type SparkEvent, type SparkLink, type SparkOrder } from './spark-messages.ts';

export interface SparkSubmitOptions {
  readonly program: string;
  /** What comes before the Python file. */
  readonly args: readonly string[];
  readonly environment: NodeJS.ProcessEnv;
  /** Gets what Spark prints. */
  readonly explain: (text: string) => void;
}

/** The variable that horovod_spark.py takes from its environment before anything else. `ps` does not show it, as it would an argument. */
const orderVariable = 'HOROVOD_SPARK_ORDER';
const eventPrefix = 'horovod-spark ';
/** How long Spark may take to end by itself, and then after SIGTERM. */
const endMs = 15_000;
const termMs = 5000;
const lastLines = 5;

export class SparkSubmit implements SparkLink {
  readonly #options: SparkSubmitOptions;
  readonly #said: string[] = [];
  #child: ChildProcess | undefined;
  #guardian: Guardian | undefined;
  #exited: Promise<void> = Promise.resolve();

  constructor(options: SparkSubmitOptions) {
    this.#options = options;
  }

  begin(order: SparkOrder, onEvent: (event: SparkEvent) => void, onEnd: (how: string) => void): void {
    const { program, args, environment } = this.#options;
    const guardian = Guardian.start(order.jobId, environment['PATH']);
    this.#guardian = guardian;
    const child = spawn(program, [...args, join(packageRoot(), 'python/spark/horovod_spark.py')], {
      // In a group of its own, which has all processes of a Spark that is on this machine alone.
      detached: true,
      env: { ...environment, [orderVariable]: JSON.stringify(order) },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    this.#child = child;
    if (child.pid !== undefined) guardian.add(child.pid);
    const outputs = [child.stdout, child.stderr].map(
      (stream) =>
        new Promise<void>((resolve) => {
          const lines = new LineReader();
          const hear = (complete: readonly string[]) => {
            for (const line of complete) this.#hear(line, onEvent);
          };
          stream.on('data', (piece: Buffer) => hear(lines.push(piece)));
          stream.on('error', () => undefined);
          stream.once('close', () => {
            hear(lines.flush());
            resolve();
          });
        }),
    );
    this.#exited = new Promise((resolve) => {
      child.once('error', (error) => {
        if (child.pid !== undefined) return;
        onEnd(`spark-submit could not be started: ${error.message}`);
        resolve();
      });
      child.once('exit', (code, signal) => {
        if (child.pid !== undefined) guardian.remove(child.pid);
        void within(Promise.all(outputs), 1000).then(() => {
          const how = signal === null ? `ended with code ${code}` : `was killed by ${signal}`;
          const said = this.#said.length === 0 ? '' : `. It said:\n  ${this.#said.join('\n  ')}`;
          onEnd(`spark-submit ${how}${said}`);
          resolve();
        });
      });
    });
  }

  async close(isEnding: boolean): Promise<void> {
    if (isEnding) await within(this.#exited, endMs);
    for (const [signal, ms] of [
      ['SIGTERM', termMs],
      ['SIGKILL', termMs],
    ] as const) {
      if (!this.#signalGroup(signal)) break;
      await within(this.#exited, ms);
    }
    await this.#guardian?.dismiss();
  }

  #hear(line: string, onEvent: (event: SparkEvent) => void): void {
    if (line.startsWith(eventPrefix)) {
      const event = parseEvent(line.slice(eventPrefix.length));
      if (event !== undefined) onEvent(event);
      return;
    }
    if (line.trim() === '') return;
    this.#said.push(line);
    if (this.#said.length > lastLines) this.#said.shift();
    this.#options.explain(`Spark: ${line}`);
  }

  /** False: it has ended. */
  #signalGroup(signal: NodeJS.Signals): boolean {
    const { pid, exitCode, signalCode } = this.#child ?? {};
    if (pid === undefined || exitCode !== null || signalCode !== null) return false;
    try {
      return process.kill(-pid, signal);
    } catch {
      return false;
    }
  }
}
