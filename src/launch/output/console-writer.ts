// One of the launcher's own output streams, written by many ranks. Who writes faster than the reader reads is
// made to wait; a reader that has gone (`horovodrun … | head`) is told once, and then nobody waits.

import { createWriteStream, fstatSync } from 'node:fs';
import type { Writable } from 'node:stream';

/**
 * An output stream of this process. Node writes to terminals and files in the event loop: a terminal that stands still (Ctrl-S) would
 * stop the heartbeats as well, and the agents of other hosts would take horovodrun for dead. This one is written by a thread.
 */
export function ownOutput(name: 'stdout' | 'stderr'): Writable {
  const usual = process[name];
  const kind = fstatSync(usual.fd);
  if (kind.isFIFO() || kind.isSocket() || process.platform === 'win32') return usual;
  return createWriteStream('', { fd: usual.fd, autoClose: false });
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

  /** Resolves when everything written has reached the reader, or never will. */
  async flush(): Promise<void> {
    if (this.#isBroken) return;
    await new Promise<void>((resolve) => {
      this.#stream.once('error', () => resolve());
      this.#stream.write('', () => resolve());
    });
  }
}
