// Describes what a missing rank is doing, from its status page and from what the kernel knows about its process.

import { listRanks } from '../../console/list-ranks.ts';
import type { Activity } from '../../control/process-activity.ts';
import type { RankStatus } from './rank-status.ts';

export interface Peer {
  readonly rank: number;
  /** Undefined if it has never written a page. */
  readonly status: RankStatus | undefined;
  /** 'unknown' for ranks of other hosts. */
  readonly activity: Activity;
}

/** `rank 3 (b, pid 812) finished allreduce "grad.7" (number 4711) 61 s ago, at step 120, and has been computing since (CPU busy)` */
export function describePeer({ rank, status, activity }: Peer, nowMs: number): string {
  if (status === undefined) {
    const what = activities[activity];
    return `rank ${rank} ${what === undefined ? 'has not reported what it is doing' : what.alone}`;
  }
  const who = `rank ${rank} (${status.host}, pid ${status.pid})`;
  if (status.hasLeft === true) return `${who} has shut down`;
  const step = status.step > 0 ? `, at step ${status.step}` : '';
  const halted = activity === 'stopped' || activity === 'ended' ? ` and ${activities[activity].since}` : '';
  const [waiting] = status.pending;
  if (waiting !== undefined) {
    const waitedMs = waiting.waitedMs + Math.max(nowMs - status.updatedAt, 0);
    const missing = waiting.missing.length === 0 ? '' : `, waiting for ${listRanks(waiting.missing)}`;
    return `${who} has been in ${waiting.label} for ${seconds(waitedMs)}${missing}${step}${halted}`;
  }
  const what = activities[activity];
  const since = what === undefined ? '' : `, and ${what.since}`;
  const { last } = status;
  const sinceMs = nowMs - status.updatedAt;
  // A page shows the state when it was written. A rank whose timers run keeps it up to date; the page of another may be old.
  const isOld = sinceMs > (activity === 'unknown' ? freshMs.elsewhere : freshMs.here);
  if (last === undefined) {
    return isOld
      ? `${who} had called no collective${step} when it last reported, ${seconds(sinceMs)} ago${since}`
      : `${who} has called no collective yet${step}${since}`;
  }
  const label = /\.noname\.\d+$/.test(last.name) ? last.kind : `${last.kind} "${last.name}"`;
  if (last.state === 'pending' || last.state === 'running') {
    return `${who} was in ${label} (number ${last.sequence})${step} when it last reported, ${seconds(nowMs - status.updatedAt)} ago${since}`;
  }
  const verb = last.state === 'failed' ? 'failed in' : 'finished';
  if (isOld) {
    const had = last.state === 'failed' ? 'had failed in' : 'had finished';
    return `${who} ${had} ${label} (number ${last.sequence})${step} when it last reported, ${seconds(sinceMs)} ago${since}`;
  }
  const ago = last.atMs === 0 ? '' : ` ${seconds(nowMs - last.atMs)} ago`;
  return `${who} ${verb} ${label} (number ${last.sequence})${ago}${step}${since}`;
}

/** Pages are written twice a second; those of other hosts arrive a second later. */
const freshMs = { here: 800, elsewhere: 2500 } as const;

const activities: Record<Exclude<Activity, 'unknown'>, { alone: string; since: string }> & {
  unknown?: undefined;
} = {
  busy: { alone: 'is computing (CPU busy)', since: 'has been computing since (CPU busy)' },
  idle: {
    alone: 'is sleeping (uses no CPU)',
    since: 'has been sleeping since (uses no CPU: it waits for a timer, input or a lock)',
  },
  stopped: {
    alone: 'is stopped by a signal (kill -CONT continues it)',
    since: 'is stopped by a signal (SIGSTOP or a debugger; kill -CONT continues it)',
  },
  ended: { alone: 'has ended', since: 'has ended' },
};

function seconds(ms: number): string {
  return `${Math.max(Math.round(ms / 1000), 0)} s`;
}
