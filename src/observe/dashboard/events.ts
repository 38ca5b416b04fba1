// What happens to a job, as lines with a time: derived from two looks at it, one after the other. Each event is told once: a stall again
// only when it has ended in between. Pure but for what it remembers.

import { listRanks } from '../../console/list-ranks.ts';
import type { JobView } from '../status/job-view.ts';
import { countText, secondsText, starvedText } from '../status/rank-words.ts';
import { stragglerOf } from './headline.ts';
import type { JobEvent, Tone } from './messages.ts';
import { awaitedSince, lostRanks } from './rank-sample.ts';

export type NewEvent = Omit<JobEvent, 'id' | 'at'>;

/** Others that have waited for so long: it is a stall. */
const stallMs = 10_000;
/** A straggler is named again after so long. */
const stragglerAgainMs = 10 * 60_000;

export class EventFinder {
  readonly #told = new Set<string>();
  #stalled: ReadonlySet<number> = new Set();
  #straggler: { readonly rank: number; readonly at: number } | undefined;
  #isStarving = false;
  #lowHosts: ReadonlySet<string> = new Set();
  #lastResetAt = 0;
  #generation: number | undefined;
  /** Lost, but how is not known: the launcher may say it before the next look. */
  #unclear: ReadonlySet<number> = new Set();

  /** `now`: Date.now(). */
  look(view: JobView, now: number): NewEvent[] {
    if (view.generation !== this.#generation) {
      // Ranks have other numbers now.
      this.#generation = view.generation;
      for (const key of this.#told) if (/^(lost|left)/.test(key)) this.#told.delete(key);
      this.#stalled = new Set();
      this.#straggler = undefined;
    }
    return [
      ...this.#lost(view),
      ...this.#resets(view),
      ...this.#stalls(view, now),
      ...this.#stragglers(view, now),
      ...this.#checkpoints(view),
      ...this.#memory(view),
      ...this.#data(view, now),
    ];
  }

  #lost(view: JobView): NewEvent[] {
    const gone = lostRanks(view).filter(({ rank }) => !this.#told.has(`lost ${rank}`));
    const clear = gone.filter(({ rank, end = '' }) => !/not known/.test(end) || this.#unclear.has(rank));
    this.#unclear = new Set(gone.map(({ rank }) => rank));
    return clear.map(({ rank, status, end = 'has ended' }) => {
      this.#told.add(`lost ${rank}`);
      const where = status === undefined ? '' : ` (${status.host}, pid ${status.pid})`;
      const step = status === undefined ? '' : `, in step ${status.step + 1}`;
      return { kind: 'lost', tone: 'bad', rank, text: `rank ${rank}${where} ${end}${step}` };
    });
  }

  #resets({ news }: JobView): NewEvent[] {
    const notes = (news?.lastResets ?? []).filter(({ at }) => at > this.#lastResetAt);
    this.#lastResetAt = Math.max(this.#lastResetAt, ...notes.map(({ at }) => at));
    return notes.map(({ what, size, tookMs, repeatedSteps, generation }) => {
      const repeated = repeatedSteps === 0 ? '' : `, ${countText(repeatedSteps, 'step')} repeated`;
      return {
        kind: 'reset',
        tone: 'slow',
        text: `${what}; generation ${generation} has ${countText(size, 'rank')}, after ${tookMs} ms${repeated}`,
      };
    });
  }

  #stalls({ ranks }: JobView, now: number): NewEvent[] {
    const awaited = awaitedSince(ranks, now);
    const stalled = new Set([...awaited].filter(([, ms]) => ms >= stallMs).map(([rank]) => rank));
    const fresh = [...stalled].filter((rank) => !this.#stalled.has(rank));
    const over = [...this.#stalled].filter((rank) => !awaited.has(rank));
    this.#stalled = new Set([...stalled, ...[...this.#stalled].filter((rank) => awaited.has(rank))]);
    const ended: NewEvent[] =
      over.length === 0
        ? []
        : [{ kind: 'stall', tone: 'good', text: `the others no longer wait for ${listRanks(over)}` }];
    if (fresh.length === 0) return ended;
    const waits = ranks.flatMap(({ rank, status }) =>
      (status?.pending ?? []).map(
        ({ label, waitedMs, missing }) =>
          `rank ${rank} has waited ${secondsText(waitedMs)} for ${listRanks(missing)}: ${label}`,
      ),
    );
    const longest = Math.max(...fresh.map((rank) => awaited.get(rank) ?? 0));
    const who = listRanks(fresh.sort((a, b) => a - b));
    const verb = fresh.length === 1 ? 'has' : 'have';
    const text = `${who} ${verb} kept the others waiting for ${secondsText(longest)}`;
    return [...ended, { kind: 'stall', tone: 'bad', ...one(fresh), text, report: waits.join('\n') }];
  }

  #stragglers(view: JobView, now: number): NewEvent[] {
    const found = stragglerOf(view, now);
    if (found === undefined) return [];
    const { rank, host, lateMs, share } = found;
    const known = this.#straggler;
    if (known?.rank === rank && now - known.at < stragglerAgainMs) return [];
    this.#straggler = { rank, at: now };
    const text = `rank ${rank} (${host}) arrives last: the others wait ${lateMs.toFixed(lateMs < 10 ? 1 : 0)} ms for it in each step, ${Math.round(100 * share)} %`;
    return [{ kind: 'straggler', tone: 'slow', rank, text }];
  }

  #checkpoints({ ranks }: JobView): NewEvent[] {
    return ranks.flatMap(({ rank, status }): NewEvent[] => {
      const note = status?.checkpoint;
      if (note === undefined || this.#hasTold(`checkpoint ${note.at} ${note.path}`)) return [];
      return [{ kind: 'checkpoint', tone: 'good', rank, text: `rank ${rank} has saved ${note.path}` }];
    });
  }

  #memory({ hosts }: JobView): NewEvent[] {
    const low = hosts.filter(({ warning }) => warning !== undefined);
    const fresh = low.filter(({ host }) => !this.#lowHosts.has(host));
    this.#lowHosts = new Set(low.map(({ host }) => host));
    return fresh.map(({ host, warning = '' }) => ({
      kind: 'memory',
      tone: 'bad',
      text: `${host}: ${warning}`,
    }));
  }

  #data({ ranks }: JobView, now: number): NewEvent[] {
    const text = starvedText(ranks, now);
    const wasStarving = this.#isStarving;
    this.#isStarving = text !== undefined;
    if (text !== undefined) return wasStarving ? [] : [event('data', 'slow', text)];
    return wasStarving ? [event('data', 'good', 'training no longer waits for data')] : [];
  }

  #hasTold(key: string): boolean {
    if (this.#told.has(key)) return true;
    this.#told.add(key);
    return false;
  }
}

function event(kind: JobEvent['kind'], tone: Tone, text: string): NewEvent {
  return { kind, tone, text };
}

function one(ranks: readonly number[]): { rank?: number } {
  const [rank] = ranks;
  return rank === undefined || ranks.length > 1 ? {} : { rank };
}
