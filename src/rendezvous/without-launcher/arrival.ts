// What a process says when it comes to the rank that serves the store, and the reply. Both travel as values of the store
// and are checked: where no secret was given, anybody may have written them.

import { isCount } from '../../net/frames.ts';

export interface Arrival {
  /** Undefined: the server assigns one. */
  readonly rank: number | undefined;
  readonly size: number;
  /** The name of the job, where one was given: keeps two jobs at one address apart. */
  readonly job: string | undefined;
  readonly host: string;
  readonly machine: string;
  readonly pid: number;
}

export type Reply =
  | { readonly kind: 'welcome'; readonly rank: number; readonly jobId: string }
  /** The job there has all its ranks: perhaps an earlier one that is about to end. */
  | { readonly kind: 'full'; readonly reason: string }
  | { readonly kind: 'rejected'; readonly reason: string };

export function arrivalKey(ticket: number): string {
  return `arrival/${ticket}`;
}

/** Written when an arrival is accepted: from then on the end of the server is the end of the job. */
export function notedKey(ticket: number): string {
  return `noted/${ticket}`;
}

export function replyKey(ticket: number): string {
  return `reply/${ticket}`;
}

export function nameComer({ rank, host, pid }: Arrival): string {
  return rank === undefined ? `the process ${pid} on ${host}` : `rank ${rank} (${host}, pid ${pid})`;
}

/** Undefined if it is none. */
export function parseArrival(text: string): Arrival | undefined {
  const { rank, size, job, host, machine, pid } = parseObject(text);
  if (!isCount(size) || !isCount(pid) || !isName(host) || !isName(machine)) return undefined;
  if (rank !== undefined && (!isCount(rank) || rank >= size)) return undefined;
  if (job !== undefined && !isName(job)) return undefined;
  return { rank, size, job, host, machine, pid };
}

/** Undefined if it is none. */
export function parseReply(text: string): Reply | undefined {
  const { kind, rank, jobId, reason } = parseObject(text);
  if (kind === 'welcome' && isCount(rank) && isName(jobId)) return { kind, rank, jobId };
  if ((kind === 'full' || kind === 'rejected') && typeof reason === 'string') return { kind, reason };
  return undefined;
}

function parseObject(text: string): Record<string, unknown> & Partial<Record<keyof Arrival, unknown>> {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}

/** Short enough to be printed. */
function isName(value: unknown): value is string {
  return typeof value === 'string' && value.length <= 1024;
}
