// How many processors of a host are busy, between two looks: all programs of the machine, or those of the cgroup where it has a quota.

import { join } from 'node:path';
import { cgroupsOf, namedNumber, type Places, readNumber, readText, toNumber } from './cgroups.ts';

export interface ProcessorUse {
  /** How many there are; a quota of 1.5 counts as such. */
  readonly cores: number;
  /** Undefined at the first look. */
  readonly busyCores?: number | undefined;
}

interface Look extends ProcessorUse {
  readonly atMs: number;
  readonly busyMs: number;
}

/** Linux counts in these, whatever the kernel was built with. */
const msPerTick = 10;
/** Less is no time to compare. */
const minMs = 50;

export class ProcessorMeter {
  readonly #places: Places;
  readonly #nowMs: () => number;
  #last: Look | undefined;
  #busyCores: number | undefined;

  constructor(places: Places, nowMs: () => number = () => performance.now()) {
    this.#places = places;
    this.#nowMs = nowMs;
  }

  /** Since the last look. Undefined where there is no /proc. */
  look(pid: number | 'self'): ProcessorUse | undefined {
    const now = this.#read(pid);
    if (now === undefined) return undefined;
    const { cores } = now;
    const last = this.#last?.cores === cores ? this.#last : undefined;
    if (last === undefined) this.#busyCores = undefined;
    else if (now.atMs - last.atMs < minMs) return { cores, busyCores: this.#busyCores };
    else this.#busyCores = share((now.busyMs - last.busyMs) / (now.atMs - last.atMs), cores);
    this.#last = now;
    return { cores, busyCores: this.#busyCores };
  }

  #read(pid: number | 'self'): Look | undefined {
    const machine = this.#machine();
    return machine === undefined ? undefined : (this.#quota(pid, machine.cores) ?? machine);
  }

  #machine(): Look | undefined {
    const lines = (readText(join(this.#places.proc, 'stat')) ?? '').split('\n');
    const cores = lines.filter((line) => /^cpu\d/.test(line)).length;
    // user nice system idle iowait irq softirq steal; time of guests is part of the first two.
    const ticks = lines[0]?.split(/\s+/).slice(1, 9).map(Number) ?? [];
    if (cores === 0 || ticks.length < 4 || !ticks.every(Number.isFinite)) return undefined;
    const busy = ticks.reduce((sum, each, at) => (at === 3 || at === 4 ? sum : sum + each), 0);
    return { cores, busyMs: busy * msPerTick, atMs: this.#nowMs() };
  }

  /** The smallest quota that is less than the machine. */
  #quota(pid: number | 'self', machineCores: number): Look | undefined {
    const { version, folders } = cgroupsOf(this.#places, pid, 'cpu');
    let least: Look | undefined;
    for (const folder of folders) {
      const cores = version === 2 ? quota2(folder) : quota1(folder);
      if (cores === undefined || cores >= (least?.cores ?? machineCores)) continue;
      const busyMs = version === 2 ? busy2(folder) : busy1(folder);
      if (busyMs !== undefined) least = { cores, busyMs, atMs: this.#nowMs() };
    }
    return least;
  }
}

function quota2(folder: string): number | undefined {
  const [quota, period] = (readText(join(folder, 'cpu.max')) ?? '').split(' ').map(toNumber);
  return quota === undefined || period === undefined ? undefined : quota / period;
}

function quota1(folder: string): number | undefined {
  const quota = readNumber(join(folder, 'cpu.cfs_quota_us'));
  const period = readNumber(join(folder, 'cpu.cfs_period_us'));
  return quota === undefined || quota <= 0 || period === undefined ? undefined : quota / period;
}

function busy2(folder: string): number | undefined {
  const us = namedNumber(readText(join(folder, 'cpu.stat')) ?? '', 'usage_usec');
  return us === undefined ? undefined : us / 1000;
}

/** Mounted together with the controller of the quota. */
function busy1(folder: string): number | undefined {
  const ns = readNumber(join(folder, 'cpuacct.usage'));
  return ns === undefined ? undefined : ns / 1e6;
}

function share(value: number, cores: number): number {
  return Number(Math.min(Math.max(value, 0), cores).toFixed(2));
}
