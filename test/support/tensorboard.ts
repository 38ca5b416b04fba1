// The real TensorBoard, and what its HTTP API says.

import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';

/** The program, or why there is none. */
export function tensorBoardSkip(): string | false {
  return (
    process.env['HVD_TEST_TENSORBOARD'] === undefined &&
    'no HVD_TEST_TENSORBOARD (npm test -- --only integrations sets it)'
  );
}

export class TensorBoardServer implements AsyncDisposable {
  readonly url: string;
  readonly #child: ChildProcess;

  private constructor(url: string, child: ChildProcess) {
    this.url = url;
    this.#child = child;
  }

  static async start(logdir: string): Promise<TensorBoardServer> {
    const args = ['--logdir', logdir, '--port', '0', '--host', '127.0.0.1', '--reload_interval', '1'];
    const child = spawn(process.env['HVD_TEST_TENSORBOARD'] as string, args, {
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let text = '';
    const url = await new Promise<string>((resolve, reject) => {
      const look = (part: string) => {
        text += part;
        const found = /at (http:\S+:\d+\/)/.exec(text)?.[1];
        if (found !== undefined) resolve(found);
      };
      for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', look);
      child.on('close', () => reject(new Error(`TensorBoard ended: ${text}`)));
    });
    return new TensorBoardServer(url, child);
  }

  /** The JSON at a path of the API, as soon as `isThere` accepts it. */
  get<T>(path: string, isThere: (value: T) => boolean): Promise<T> {
    return getJson(this.url, path, isThere);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const gone = once(this.#child, 'exit');
    this.#child.kill();
    await gone;
  }
}

/** As get(), of a TensorBoard at this URL. */
export async function getJson<T>(url: string, path: string, isThere: (value: T) => boolean): Promise<T> {
  const deadline = Date.now() + 60_000;
  for (;;) {
    const response = await fetch(new URL(path, url));
    const text = await response.text();
    const value = response.ok ? (JSON.parse(text) as T) : undefined;
    if (value !== undefined && isThere(value)) return value;
    assert.ok(Date.now() < deadline, `${path}: ${response.status} ${text.slice(0, 500)}`);
    await sleep(200);
  }
}
