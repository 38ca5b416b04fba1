// What a process of this host is doing, as the kernel sees it: stopped, asleep, or using a processor.

import { readFileSync } from 'node:fs';

export type Activity = 'busy' | 'idle' | 'stopped' | 'ended' | 'unknown';

/** A look at a process. */
export interface ActivitySample {
  /** The letter of /proc/<pid>/stat: R, S, D, T, t, Z, X. */
  readonly state: string;
  /** Processor time of all its threads so far. */
  readonly cpuMs: number;
  readonly atMs: number;
}

/** Linux counts in these, whatever the kernel was built with. */
const msPerTick = 10;
/** Of the time between two looks: one that sleeps uses less, and one that computes may have to share its core with many. */
export const busyShare = 0.05;

/** Undefined: no such process, or no /proc here. */
export function sampleActivity(pid: number, nowMs: number): ActivitySample | undefined {
  try {
    return parseActivity(readFileSync(`/proc/${pid}/stat`, 'utf8'), nowMs);
  } catch {
    return undefined;
  }
}

/** The second field is the program's name, which may hold spaces and parentheses. */
export function parseActivity(stat: string, nowMs: number): ActivitySample | undefined {
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  const cpuMs = (Number(fields[11]) + Number(fields[12])) * msPerTick;
  return fields[0] && Number.isFinite(cpuMs) ? { state: fields[0], cpuMs, atMs: nowMs } : undefined;
}

/** From two looks; from one alone where there is no other. */
export function activityOf(before: ActivitySample | undefined, now: ActivitySample | undefined): Activity {
  if (now === undefined) return 'unknown';
  if (now.state === 'T' || now.state === 't') return 'stopped';
  if (/[ZXx]/.test(now.state)) return 'ended';
  const spanMs = before === undefined ? 0 : now.atMs - before.atMs;
  // Less than some ticks of the kernel's count say nothing.
  if (before === undefined || spanMs < 5 * msPerTick) return now.state === 'R' ? 'busy' : 'unknown';
  return now.state === 'R' || (now.cpuMs - before.cpuMs) / spanMs >= busyShare ? 'busy' : 'idle';
}
