// The log: lines on stderr, at or above a level. Kept small; what programs want to know comes as errors.

import type { LogLevel } from '../settings/table.ts';

const order: readonly LogLevel[] = ['trace', 'debug', 'info', 'warning', 'error', 'fatal'];

export interface Log {
  write(level: LogLevel, message: string): void;
}

export function createLog(threshold: LogLevel, rank: number, sink: (line: string) => void = toStderr): Log {
  const least = order.indexOf(threshold);
  return {
    write(level, message) {
      if (order.indexOf(level) >= least) sink(`[horovod ${level}] rank ${rank}: ${message}`);
    },
  };
}

function toStderr(line: string): void {
  process.stderr.write(`${line}\n`);
}
