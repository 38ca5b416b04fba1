// The log: lines on stderr, at or above a level, as text or as JSON. NODE_DEBUG=horovod turns on the debug lines of everything, NODE_DEBUG=horovod:transport those of one topic, as for
// Node's own modules; * stands for any letters.

import { debuglog } from 'node:util';
import type { LogFormat, LogLevel } from '../settings/table.ts';

const order: readonly LogLevel[] = ['trace', 'debug', 'info', 'warning', 'error', 'fatal'];

/** What debug lines are about. */
export type LogTopic = 'rendezvous' | 'transport' | 'engine';

/** Members of a line in JSON; lines of text leave them out. */
export interface LogFacts {
  readonly topic?: LogTopic;
  readonly [name: string]: unknown;
}

export interface Log {
  write(level: LogLevel, message: string, facts?: LogFacts): void;
  /** What users wait for, such as progress: printed at every level but 'error' and 'fatal'. */
  tell(message: string, facts?: LogFacts): void;
}

/** How lines are written; Settings have it. */
export interface LogStyle {
  readonly logLevel: LogLevel;
  /** Default: text. */
  readonly logFormat?: LogFormat;
  /** Whether lines begin with the time. Default: they do. */
  readonly logTime?: boolean;
}

/** For tests. */
export interface LogSurroundings {
  readonly sink?: (line: string) => void;
  readonly now?: () => Date;
  /** Whether NODE_DEBUG names this. */
  readonly isDebugged?: (name: string) => boolean;
}

export function createLog(style: LogStyle, rank: number, surroundings: LogSurroundings = {}): Log {
  const { logLevel, logFormat = 'text', logTime = true } = style;
  const { sink = toStderr, now = () => new Date(), isDebugged = isNamedByNode } = surroundings;
  const minLevel = order.indexOf(logLevel);
  const print = (level: LogLevel, message: string, facts: LogFacts) => {
    const time = logTime ? now().toISOString() : undefined;
    if (logFormat === 'json') sink(JSON.stringify({ time, level, rank, message, ...facts }));
    else sink(`${time === undefined ? '' : `${time} `}[horovod ${level}] rank ${rank}: ${message}`);
  };
  const isWanted = (level: LogLevel, { topic }: LogFacts) => {
    if (order.indexOf(level) >= minLevel) return true;
    if (level !== 'debug') return false;
    return isDebugged('horovod') || (topic !== undefined && isDebugged(`horovod:${topic}`));
  };
  return {
    write(level, message, facts = {}) {
      if (isWanted(level, facts)) print(level, message, facts);
    },
    tell(message, facts = {}) {
      if (minLevel <= order.indexOf('warning')) print('info', message, facts);
    },
  };
}

function isNamedByNode(name: string): boolean {
  return debuglog(name).enabled;
}

function toStderr(line: string): void {
  process.stderr.write(`${line}\n`);
}
