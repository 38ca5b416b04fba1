// Which rank runs where: hosts are filled in their order. A pure function. *Local* counts the ranks of one host, *cross*
// the hosts that have a given local rank.

import { HorovodError } from '../../errors.ts';
import type { Host } from './host-list.ts';

export interface Slot {
  readonly hostname: string;
  readonly rank: number;
  readonly size: number;
  readonly localRank: number;
  readonly localSize: number;
  readonly crossRank: number;
  readonly crossSize: number;
  /** Of an elastic job: the number of the process. Ranks are then those that are planned for it. */
  readonly worker?: number | undefined;
}

/** By which the launcher, the store and control blocks know the process of a slot. */
export function numberOf({ worker, rank }: Slot): number {
  return worker ?? rank;
}

export function planSlots(processes: number, hosts: readonly Host[]): Slot[] {
  const available = hosts.reduce((sum, { slots }) => sum + slots, 0);
  if (processes > available) {
    throw new HorovodError(
      'ERR_HVD_SETTING',
      `-np ${processes} is more than the ${available} slots on ` +
        `${hosts.map(({ name, slots }) => `${name}:${slots}`).join(', ')}.`,
    );
  }
  const used: { name: string; count: number }[] = [];
  let left = processes;
  for (const { name, slots } of hosts) {
    if (left === 0) break;
    used.push({ name, count: Math.min(slots, left) });
    left -= Math.min(slots, left);
  }
  const plan: Slot[] = [];
  for (const [hostIndex, { name, count }] of used.entries()) {
    for (let localRank = 0; localRank < count; localRank++) {
      const hasLocalRank = (host: { count: number }) => host.count > localRank;
      plan.push({
        hostname: name,
        rank: plan.length,
        size: processes,
        localRank,
        localSize: count,
        crossRank: used.slice(0, hostIndex).filter(hasLocalRank).length,
        crossSize: used.filter(hasLocalRank).length,
      });
    }
  }
  return plan;
}
