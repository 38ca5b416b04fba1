// An output stream of the launcher, written by many ranks. Ranks that write faster than the reader reads have to wait. If
// the reader has gone (`horovodrun … | head`), `onBroken` is called once, and output is discarded.

import { createWriteStream, fstatSync } from 'node:fs';
import type { Writable } from 'node:stream';

/**
 * An output stream of this process that a thread writes. Node writes to terminals and files in the event loop, so a stopped
 * terminal (Ctrl-S) would also stop the heartbeats, and the agents of other hosts would conclude that horovodrun is dead.
 */
export function ownOutput(name: 'stdout' | 'stderr'): Writable {
  const stream = process[name];
  // Its descriptors cannot always be asked.
  if (process.platform === 'win32') return stream;
  const kind = fstatSync(stream.fd);
  if (kind.isFIFO() || kind.isSocket()) return stream;
  return createWriteStream('', { fd: stream.fd, autoClose: false });
}

export class ConsoleWriter {
  readonly #stream: Writable;
  #drained: Promise<void> | undefined;
  #isBroken = false;

  constructor(stream: Writable, onBroken: (error: Error) => void) {
    this.#stream = stream;
    stream.on('error', (error) => {
      if (this.#isBroken) return;
      this.#isBroken = true;
      onBroken(error);
    });
  }

  /** Resolves when there is room for more. */
  async write(bytes: Buffer | string): Promise<void> {
    if (this.#isBroken || bytes.length === 0) return;
    if (this.#stream.write(bytes)) return;
    this.#drained ??= new Promise((resolve) => {
      const settle = () => {
        this.#drained = undefined;
        for (const event of ['drain', 'error', 'close'] as const) this.#stream.off(event, settle);
        resolve();
      };
      for (const event of ['drain', 'error', 'close'] as const) this.#stream.on(event, settle);
    });
    await this.#drained;
  }

  /** Resolves when everything was written, or the stream is broken. */
  async flush(): Promise<void> {
    if (this.#isBroken) return;
    await new Promise<void>((resolve) => {
      this.#stream.once('error', () => resolve());
      this.#stream.write('', () => resolve());
    });
  }
}
