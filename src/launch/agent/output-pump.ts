// Sends one output stream of a rank to horovodrun. If a whole window of it is unread there, the rank has to wait, as for a
// slow terminal.

import type { Readable } from 'node:stream';
import { maxOutputBytes, outputWindowBytes, quietOutputMs } from './protocol.ts';

export interface OutputTarget {
  send(bytes: Buffer): void;
  end(): void;
}

const turns = 5;

export class OutputPump {
  readonly #source: Readable;
  #underWay = 0;
  #quietTurns = 0;
  #isOver = false;

  constructor(source: Readable, target: OutputTarget) {
    this.#source = source;
    source.on('data', (bytes: Buffer) => {
      this.#quietTurns = 0;
      this.#underWay += bytes.length;
      for (let at = 0; at < bytes.length; at += maxOutputBytes) {
        target.send(bytes.subarray(at, at + maxOutputBytes));
      }
      if (this.#underWay >= outputWindowBytes) source.pause();
    });
    source.on('error', () => undefined);
    source.once('close', () => {
      this.#isOver = true;
      target.end();
    });
  }

  /** The other side has read this many bytes. */
  credit(bytes: number): void {
    this.#underWay -= bytes;
    if (this.#underWay < outputWindowBytes) this.#source.resume();
  }

  /** The rank has ended. Closes the stream when a process that keeps it open has been silent for a while. */
  endWhenQuiet(quietMs: number = quietOutputMs): void {
    const watch = setInterval(() => {
      // While the window is full, silence means nothing.
      this.#quietTurns = this.#underWay >= outputWindowBytes ? 0 : this.#quietTurns + 1;
      if (this.#quietTurns > turns) this.#source.destroy();
      if (this.#isOver) clearInterval(watch);
    }, quietMs / turns);
  }
}
