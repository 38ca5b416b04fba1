// Is a process alive, and if not, what did it die of? Asked of /proc where that exists: it answers while the
// process is still dying and as long as nobody has reaped it. Elsewhere of kill(pid, 0), which knows less.

import { existsSync, readFileSync } from 'node:fs';
import { constants } from 'node:os';

/** How a process ended. */
export type ProcessEnd = { readonly code: number } | { readonly signal: string };

export type ProcessStatus =
  /** `startTicks` tells a process from a later one of the same pid; 0 where unknown. */
  | { readonly state: 'running'; readonly startTicks: number; readonly exitCodeWord: number }
  /** `end` is missing where the process was reaped already. */
  | { readonly state: 'ended'; readonly end?: ProcessEnd };

export function processStatus(pid: number): ProcessStatus {
  let text: string;
  try {
    text = readFileSync(`/proc/${pid}/stat`, 'utf8');
  } catch (error) {
    // Any other error says nothing about the process: this one may have no descriptor left to look.
    const isGone = /^(ENOENT|ESRCH)$/.test((error as NodeJS.ErrnoException).code ?? '');
    return isGone && existsSync('/proc/self/stat') ? { state: 'ended' } : statusBySignal(pid);
  }
  return parseStat(text);
}

/** /proc/<pid>/stat. The second field is the program's name, which may hold spaces and parentheses. */
export function parseStat(text: string): ProcessStatus {
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  const exitCodeWord = Number(fields[49] ?? 0);
  if (/^[ZXx]$/.test(fields[0] ?? '')) return { state: 'ended', end: decodeWaitStatus(exitCodeWord) };
  return { state: 'running', startTicks: Number(fields[19] ?? 0) >>> 0, exitCodeWord };
}

/** The word wait(2) gives: low 7 bits the signal, bits 8-15 the exit code. */
export function decodeWaitStatus(word: number): ProcessEnd {
  const signalNumber = word & 0x7f;
  return signalNumber === 0 ? { code: (word >> 8) & 0xff } : { signal: signalName(signalNumber) };
}

export function signalName(number: number): string {
  for (const [name, value] of Object.entries(constants.signals)) if (value === number) return name;
  return `signal ${number}`;
}

/** 0 for a name this system does not have. */
export function signalNumber(name: string): number {
  return constants.signals[name as NodeJS.Signals] ?? Number(/^signal (\d+)$/.exec(name)?.[1] ?? 0);
}

function statusBySignal(pid: number): ProcessStatus {
  try {
    process.kill(pid, 0);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ESRCH') return { state: 'ended' };
  }
  return { state: 'running', startTicks: 0, exitCodeWord: 0 };
}
