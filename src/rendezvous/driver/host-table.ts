// The hosts of an elastic job, in the order in which they were first seen: which are listed, which can start workers, and
// what they and their slots have done. Functions that change a table in place; the driver gives them a copy.

import {
  type CooldownRange,
  isBlocked,
  noPenalty,
  type Penalty,
  punishHost,
  punishSlot,
} from './blacklist.ts';
import type { PlanHost } from './plan.ts';

/** 'closed': nothing was done yet, or it was lost. 'closing': it is to be given up when its workers have ended. */
export type HostPhase = 'closed' | 'opening' | 'open' | 'closing';

export interface SlotRecord {
  penalty: Penalty;
  /** Workers in a row that ended before they were ready. */
  failedStarts: number;
}

export interface HostRecord {
  readonly name: string;
  /** 0: not listed any more. */
  slots: number;
  phase: HostPhase;
  penalty: Penalty;
  readonly slotRecords: SlotRecord[];
}

/** How many starts may fail in a row on every slot before the host counts as unusable. */
const maxFailedStarts = 3;

/** The hosts as just listed. Those that are missing have no slots; nothing else changes. */
export function listHosts(table: HostRecord[], listed: readonly PlanHost[]): void {
  const slots = new Map(listed.map((host) => [host.name, host.slots]));
  for (const host of table) host.slots = slots.get(host.name) ?? 0;
  const known = new Set(table.map(({ name }) => name));
  for (const { name, slots } of listed) {
    if (known.has(name)) continue;
    known.add(name);
    table.push({ name, slots, phase: 'closed', penalty: noPenalty, slotRecords: [] });
  }
}

/** Hosts whose workers may be in a generation. */
export function usableHosts(table: readonly HostRecord[]): PlanHost[] {
  return table.filter(({ slots, phase }) => slots > 0 && phase === 'open');
}

export function slotsOf(table: readonly HostRecord[]): number {
  return table.reduce((sum, { slots }) => sum + slots, 0);
}

export function findHost(table: readonly HostRecord[], name: string): HostRecord | undefined {
  return table.find((host) => host.name === name);
}

export function slotRecord({ slotRecords }: HostRecord, slot: number): SlotRecord {
  slotRecords[slot] ??= { penalty: noPenalty, failedStarts: 0 };
  return slotRecords[slot];
}

/** The lowest slot in which a worker may be started now. `taken`: the slots that have one. */
export function freeSlot(host: HostRecord, taken: readonly number[], now: number): number | undefined {
  if (host.phase !== 'open' || taken.length >= host.slots) return undefined;
  for (let slot = 0; slot < host.slots; slot++) {
    if (!taken.includes(slot) && !isBlocked(slotRecord(host, slot).penalty, now)) return slot;
  }
  return undefined;
}

export interface Failure {
  readonly now: number;
  readonly range: CooldownRange;
  readonly random: number;
}

/** A worker has died. True if the host has become unusable with that: no worker comes up on any of its slots. */
export function slotFailed(
  host: HostRecord,
  slot: number,
  hadBeenReady: boolean,
  { now, range, random }: Failure,
): boolean {
  const record = slotRecord(host, slot);
  record.penalty = punishSlot(record.penalty, now, range, random);
  record.failedStarts = hadBeenReady ? 0 : record.failedStarts + 1;
  const slots = Array.from({ length: host.slots }, (_, index) => slotRecord(host, index));
  return slots.length > 0 && slots.every(({ failedStarts }) => failedStarts >= maxFailedStarts);
}

export function hostFailed(host: HostRecord, { now, range, random }: Failure): void {
  host.phase = 'closed';
  host.penalty = punishHost(host.penalty, now, range, random);
  for (const record of host.slotRecords) if (record !== undefined) record.failedStarts = 0;
}

/** Hosts to open now: listed, closed, and not left alone for a while. */
export function hostsToOpen(table: readonly HostRecord[], now: number): HostRecord[] {
  return table.filter(
    ({ slots, phase, penalty }) => slots > 0 && phase === 'closed' && !isBlocked(penalty, now),
  );
}
