// horovod_spark.py has started this process: events come on stdin, and the order goes into the pipe whose descriptor is the first
// argument. When stdin ends, Spark's driver has.

import { closeSync, writeSync } from 'node:fs';
import { LineReader } from '../output/line-reader.ts';
import { parseEvent, type SparkEvent, type SparkLink, type SparkOrder } from './spark-messages.ts';

export class SparkParent implements SparkLink {
  readonly #descriptor: number;

  constructor(descriptor: number) {
    this.#descriptor = descriptor;
  }

  begin(order: SparkOrder, onEvent: (event: SparkEvent) => void, onEnd: (how: string) => void): void {
    const lines = new LineReader();
    process.stdin.on('data', (piece: Buffer) => {
      for (const line of lines.push(piece)) {
        const event = parseEvent(line);
        if (event !== undefined) onEvent(event);
      }
    });
    process.stdin.on('error', () => undefined);
    process.stdin.once('end', () => onEnd('the Spark driver has ended'));
    writeSync(this.#descriptor, `${JSON.stringify(order)}\n`);
    closeSync(this.#descriptor);
  }

  /** It sees the end of this process. */
  async close(): Promise<void> {
    process.stdin.destroy();
  }
}
