// What a rank is doing, in the words that `horovod status` and the dashboard share. Pure functions. Names that users have chosen come
// through as they are: who prints them on a terminal makes them plain.

import { basename } from 'node:path';
import { amountText } from '../../console/amounts.ts';
import { listRanks } from '../../console/list-ranks.ts';
import type { RankView } from './job-view.ts';
import type { PendingCollective, RankStatus } from './rank-status.ts';

/** Shorter waits are normal. */
export const minWaitMs = 200;
/** Ranks write their pages twice a second; those of other hosts arrive a second later. */
export const staleAfterMs = 3000;
/** A rank that is less late is not shown as late. */
const minLateMs = 1;
/** Training that has waited for data for so long is worth a line. */
const starvedAfterMs = 10_000;

export function stateText(view: RankView, now: number): string {
  const { presence, end, status, activity } = view;
  if (presence === 'left') return 'shut down';
  if (presence === 'lost') return end ?? 'ended';
  if (presence === 'starting') return 'not connected yet';
  if (activity === 'stopped') return 'stopped (SIGSTOP or a debugger)';
  if (status === undefined) return 'starting';
  const age = ageOf(view, now);
  const [oldest] = status.pending;
  if (oldest !== undefined && oldest.waitedMs + age >= minWaitMs) return waitText(oldest, age);
  // A blocking wait writes its page as well, so a rank without news is outside Horovod's code.
  if (age >= staleAfterMs) return silenceText(activity, age);
  const idleMs = status.idleSince === undefined ? 0 : now - status.idleSince;
  return idleMs < staleAfterMs ? '' : silenceText('idle', idleMs);
}

function silenceText(activity: RankView['activity'], ageMs: number): string {
  if (activity === 'busy') return `computing for ${secondsText(ageMs)}`;
  return activity === 'idle' ? `idle in other code for ${secondsText(ageMs)}` : 'no update';
}

function waitText({ label, waitedMs, missing }: PendingCollective, ageMs: number): string {
  const whom = missing.length === 0 ? '' : ` for ${listRanks(missing)}`;
  return `waiting ${secondsText(waitedMs + ageMs)}${whom}: ${label}`;
}

/** Says how long the others have been waiting for a rank of these, or else how late it was in each of the last steps. */
export function latenessIn(all: readonly RankView[]): (view: RankView) => string {
  const awaited = new Map<number, number>();
  for (const { status } of all) {
    for (const { missing, waitedMs } of status?.pending ?? [])
      for (const rank of missing) awaited.set(rank, Math.max(awaited.get(rank) ?? 0, waitedMs));
  }
  const longest = Math.max(...all.flatMap(({ status }) => status?.waitMsPerStep ?? []));
  return ({ rank, presence, status }) => {
    if (presence !== 'here') return '';
    const waitedMs = awaited.get(rank) ?? 0;
    if (waitedMs >= minWaitMs) return secondsText(waitedMs);
    const own = status?.waitMsPerStep;
    // The rank that the others wait for is the one that waits least.
    return own === undefined || longest - own < minLateMs ? '' : `${amountText(longest - own)} ms/step`;
  };
}

export function lateText(view: RankView, all: readonly RankView[]): string {
  return latenessIn(all)(view);
}

export function lastText({ last }: RankStatus): string {
  if (last === undefined) return '';
  // Names given by Horovod start with the kind.
  const name = last.name.startsWith(last.kind) ? last.name : `${last.kind} ${last.name}`;
  return last.state === 'failed' ? `${name} (failed)` : name;
}

/** Options of Node that take the next word as their value. */
const nodeOptionsWithValue: ReadonlySet<string> = new Set([
  '--import',
  '--require',
  '-r',
  '--loader',
  '--experimental-loader',
  '--conditions',
  '-C',
]);

/** The script and its arguments, without Node and its options, which horovodrun adds for TypeScript. */
export function scriptOf(command: string): string {
  const [program = '', ...words] = command.split(' ');
  if (basename(program) !== 'node') return command;
  let at = 0;
  while (words[at]?.startsWith('-')) at += nodeOptionsWithValue.has(words[at] as string) ? 2 : 1;
  const hasCode = words.slice(0, at).some((word) => /^(-[ep]+|--eval|--print)(=|$)/.test(word));
  return hasCode || at >= words.length ? command : words.slice(at).join(' ').replace(/^\.\//, '');
}

/** 'ranks 0, 1 have waited for data for 25 s, rank 0 for 34 % of the time: …' Ranks mostly starve for the same reason. */
export function starvedText(ranks: readonly RankView[], now: number): string | undefined {
  const starved = ranks.flatMap((view) => {
    const { starvedMs, share = 0, advice = '' } = view.status?.data ?? {};
    const isFresh = view.presence === 'here' && ageOf(view, now) < staleAfterMs;
    return isFresh && starvedMs !== undefined && starvedMs >= starvedAfterMs
      ? [{ rank: view.rank, starvedMs, share, advice }]
      : [];
  });
  const [first, ...others] = starved.sort((a, b) => b.share - a.share);
  if (first === undefined) return undefined;
  const who = listRanks(starved.map(({ rank }) => rank).sort((a, b) => a - b));
  const most = others.length === 0 ? '' : `rank ${first.rank} `;
  const share = `${most}${Math.round(100 * first.share)} % of the time`;
  const verb = others.length === 0 ? 'has' : 'have';
  return `${who} ${verb} been waiting for data for ${secondsText(first.starvedMs)}, ${share}: ${first.advice}`;
}

export function freshRate(view: RankView, now: number, name: 'samplesPerSecond' | 'bytesPerSecond'): number {
  const { status, presence } = view;
  if (status === undefined || presence !== 'here' || ageOf(view, now) >= staleAfterMs) return 0;
  return status.rates[name];
}

export function ageOf({ status }: RankView, now: number): number {
  return status === undefined ? 0 : Math.max(now - status.updatedAt, 0);
}

export function secondsText(ms: number): string {
  const value = ms / 1000;
  if (value < 10) return `${value.toFixed(1)} s`;
  if (value < 600) return `${Math.round(value)} s`;
  return value < 36_000 ? `${Math.round(value / 60)} min` : `${Math.round(value / 3600)} h`;
}

export function countText(number: number, what: string): string {
  return `${number} ${what}${number === 1 ? '' : 's'}`;
}
