// A real Spark for tests: one context (spark-harness.py) for many jobs, each with a link of its own.

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { LineReader } from '../../src/launch/output/line-reader.ts';
import type { PlaceGiver } from '../../src/launch/places/place-giver.ts';
import {
  parseEvent,
  type SparkEvent,
  type SparkLink,
  type SparkOrder,
} from '../../src/launch/spark/spark-messages.ts';
import { sparkPlaces } from '../../src/launch/spark/spark-places.ts';
import { repository } from './repository.ts';

/** spark-submit, or why there is none. */
export function sparkSubmit():
  | { readonly program: string; readonly python: string }
  | { readonly reason: string } {
  const program = process.env['HVD_TEST_SPARK'];
  if (program === undefined)
    return {
      reason: "no Spark: set HVD_TEST_SPARK to spark-submit (pip install 'pyspark==3.5.*'; it needs Java)",
    };
  return { program, python: join(dirname(program), 'python') };
}

export function sparkEnvironment(python: string): NodeJS.ProcessEnv {
  return {
    ...process.env,
    PYSPARK_PYTHON: python,
    PYSPARK_DRIVER_PYTHON: python,
    SPARK_LOCAL_IP: '127.0.0.1',
  };
}

const endMs = 20_000;

export class SparkHarness {
  readonly #child: ChildProcess;
  readonly #work: string;
  readonly #onEvents = new Map<
    number,
    { event(event: SparkEvent): void; over(): void; end(how: string): void }
  >();
  #said = '';
  #next = 1;
  readonly #ended: Promise<unknown>;

  constructor(master: string, conf: Readonly<Record<string, string>> = {}) {
    const found = sparkSubmit();
    if ('reason' in found) throw new Error(found.reason);
    this.#work = mkdtempSync(join(tmpdir(), 'horovod-spark-'));
    const properties = {
      'spark.ui.enabled': 'false',
      'spark.local.dir': this.#work,
      // Of elastic jobs; the context is made by the first job, which is none.
      'spark.task.maxFailures': '100',
      ...conf,
    };
    const arguments_ = Object.entries(properties).map(([name, value]) => `--conf ${name}=${value}`);
    const harness = join(repository, 'test/support/spark-harness.py');
    this.#child = spawn(found.python, [harness, join(repository, 'python/spark/horovod_spark.py')], {
      detached: true,
      cwd: this.#work,
      env: {
        ...sparkEnvironment(found.python),
        SPARK_WORKER_DIR: this.#work,
        PYSPARK_SUBMIT_ARGS: `--master ${master} ${arguments_.join(' ')} pyspark-shell`,
      },
      stdio: ['pipe', 'pipe', 'pipe'],
    });
    this.#child.stdin?.on('error', () => undefined);
    this.#child.stderr?.on('data', (piece: Buffer) => {
      this.#said = (this.#said + piece.toString()).slice(-4000);
    });
    const lines = new LineReader();
    this.#child.stdout?.on('data', (piece: Buffer) => {
      for (const line of lines.push(piece)) this.#hear(line);
    });
    this.#ended = once(this.#child, 'exit').then(() => {
      for (const { end } of this.#onEvents.values()) end(`the harness has ended: ${this.#said}`);
    });
  }

  get give(): PlaceGiver {
    return sparkPlaces(() => this.#link());
  }

  /** Processes of executors and of their Python, and of agents. */
  get pid(): number {
    return this.#child.pid as number;
  }

  async close(): Promise<void> {
    this.#child.stdin?.end();
    const timer = setTimeout(() => this.kill(), endMs);
    await this.#ended;
    clearTimeout(timer);
    rmSync(this.#work, { recursive: true, force: true });
  }

  /** The driver: its Python, and its JVM with all executors. */
  kill(): void {
    try {
      process.kill(-this.pid, 'SIGKILL');
    } catch {
      // It has ended.
    }
  }

  #link(): SparkLink {
    const id = this.#next++;
    let over: () => void = () => undefined;
    const isOver = new Promise<void>((resolve) => {
      over = resolve;
    });
    return {
      begin: (order: SparkOrder, event, end) => {
        this.#onEvents.set(id, { event, over, end });
        this.#child.stdin?.write(`${JSON.stringify({ ...order, id })}\n`);
      },
      close: async (isEnding) => {
        if (!isEnding) this.#child.stdin?.write(`${JSON.stringify({ op: 'end', id })}\n`);
        await Promise.race([isOver, this.#ended]);
      },
    };
  }

  #hear(line: string): void {
    const { id, ...event } = JSON.parse(line) as { id: number; event: string };
    const job = this.#onEvents.get(id);
    if (event.event === 'over') job?.over();
    const known = event.event === 'over' ? undefined : parseEvent(JSON.stringify(event));
    if (known !== undefined) job?.event(known);
  }
}
