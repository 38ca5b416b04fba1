// What is going on, in one sentence: the worst first, then what makes the job slow, then that all is well. Pure.

import { listRanks } from '../../console/list-ranks.ts';
import type { JobView, RankView } from '../status/job-view.ts';
import { countText, freshRate, secondsText, starvedText, stateText } from '../status/rank-words.ts';
import { findStraggler, isTooLate, type Straggler } from '../stragglers/straggler.ts';
import type { Headline, Tone } from './messages.ts';
import { awaitedSince, badWaitMs, lostRanks, slowWaitMs, stepRate } from './rank-sample.ts';

/** A straggler that costs less of a step is not worth a headline. */
const stragglerPercent = 10;
/** Communication that is not hidden, as a share of a step, that is worth one. */
const exposedShareShown = 0.25;

export interface HeadlineFacts {
  /** Date.now() */
  readonly now: number;
  /** Of the job so far, for the time left; undefined: not known. */
  readonly stepsPerSecond?: number | undefined;
}

export function headlineOf(view: JobView, { now, stepsPerSecond }: HeadlineFacts): Headline {
  const here = view.ranks.filter(({ presence }) => presence === 'here');
  const rates = here.map((rank) => stepRate(rank, now)).filter((rate) => rate > 0);
  const rate = rates.length === 0 ? 0 : Math.min(...rates);
  const stepMs = rate === 0 ? undefined : 1000 / rate;
  const first = view.ranks.find(({ status }) => status !== undefined)?.status;
  const steps = first?.stepOf;
  const step = first?.step ?? 0;
  const exposed = worstExposed(here, stepMs);
  const data = here.flatMap(({ status }) => status?.data?.share ?? []);
  const paces = [stepsPerSecond, rate].filter((pace) => pace !== undefined && pace > 0);
  const [pace] = paces;
  return {
    ...said(view, { now, stepMs, exposed }),
    step,
    samplesPerSecond: Number(
      view.ranks.reduce((sum, rank) => sum + freshRate(rank, now, 'samplesPerSecond'), 0).toPrecision(5),
    ),
    ...(steps === undefined ? {} : { steps }),
    ...(first?.epoch === undefined ? {} : { epoch: first.epoch }),
    ...(first?.epochs === undefined ? {} : { epochs: first.epochs }),
    ...(steps === undefined || pace === undefined
      ? {}
      : { secondsLeft: Math.round(Math.max(steps - step, 0) / pace) }),
    ...(exposed === undefined ? {} : { exposedShare: Number(exposed.toPrecision(3)) }),
    ...(data.length === 0 ? {} : { dataShare: Math.max(...data) }),
  };
}

/** Who arrives last in each step, if that costs something. */
export function stragglerOf({ ranks }: JobView, now: number): Straggler | undefined {
  const here = ranks.filter(({ presence }) => presence === 'here');
  const rates = here.map((rank) => stepRate(rank, now)).filter((rate) => rate > 0);
  if (rates.length === 0) return undefined;
  const found = findStraggler(
    here.map(({ status }) => status),
    1000 / Math.min(...rates),
  );
  return found !== undefined && isTooLate(found, stragglerPercent) ? found : undefined;
}

interface Findings {
  readonly now: number;
  readonly stepMs: number | undefined;
  readonly exposed: number | undefined;
}

/** In the order of importance. */
function said(view: JobView, findings: Findings): { tone: Tone; text: string } {
  for (const find of [
    lost,
    paused,
    absent,
    stopped,
    stalled,
    lowMemory,
    starving,
    straggling,
    communicating,
  ]) {
    const found = find(view, findings);
    if (found !== undefined) return found;
  }
  const isTraining = view.ranks.some(({ status }) => (status?.step ?? 0) > 0);
  const count = countText(view.ranks.filter(({ presence }) => presence === 'here').length, 'rank');
  if (!isTraining) return { tone: 'idle', text: `${count} at work; no training step has ended yet` };
  return findings.stepMs === undefined
    ? { tone: 'idle', text: 'no training step has ended in the last seconds' }
    : {
        tone: 'good',
        text: `${count} ${count.startsWith('1 ') ? 'trains' : 'train'}; nothing holds them up`,
      };
}

type Find = (view: JobView, findings: Findings) => { tone: Tone; text: string } | undefined;

const lost: Find = (view) => {
  const [first, ...others] = lostRanks(view);
  if (first === undefined) return undefined;
  const more = others.length === 0 ? '' : `, and ${countText(others.length, 'other rank')} as well`;
  const host = first.status === undefined ? '' : ` on ${first.status.host}`;
  const text = `rank ${first.rank}${host} ${first.end ?? 'has ended'}${more}`;
  return { tone: 'bad', text: view.generation === undefined ? text : `${text}; the others go on without it` };
};

const paused: Find = ({ news }) =>
  news?.pause === undefined ? undefined : { tone: 'slow', text: `no rank trains: ${news.pause}` };

const absent: Find = ({ ranks }) => {
  const missing = ranks.filter(({ presence }) => presence === 'starting').map(({ rank }) => rank);
  if (missing.length === 0) {
    const isOver = ranks.length > 0 && ranks.every(({ presence }) => presence === 'left');
    return isOver ? { tone: 'idle', text: 'all ranks have shut down' } : undefined;
  }
  const who = missing.length === ranks.length ? 'the ranks' : shortList(missing);
  return { tone: 'idle', text: `${who} ${missing.length === 1 ? 'is' : 'are'} starting` };
};

const stopped: Find = (view, { now }) => {
  const found = view.ranks.find(({ activity, presence }) => presence === 'here' && activity === 'stopped');
  return found && { tone: 'bad', text: `rank ${found.rank} is ${stateText(found, now)}` };
};

const stalled: Find = ({ ranks }, { now }) => {
  const awaited = [...awaitedSince(ranks, now)].filter(([, ms]) => ms >= slowWaitMs);
  if (awaited.length === 0) return undefined;
  const longest = Math.max(...awaited.map(([, ms]) => ms));
  const who = awaited.map(([rank]) => rank).sort((a, b) => a - b);
  const waiting = ranks.flatMap(({ status }) => status?.pending ?? []);
  const [oldest] = waiting.sort((a, b) => b.waitedMs - a.waitedMs);
  const where = oldest === undefined ? '' : ` in ${oldest.label}`;
  const verb = who.length === 1 ? 'has' : 'have';
  return {
    tone: longest >= badWaitMs ? 'bad' : 'slow',
    text: `${shortList(who)} ${verb} kept the others waiting for ${secondsText(longest)}${where}`,
  };
};

const lowMemory: Find = ({ hosts }) => {
  const low = hosts.find(({ warning }) => warning !== undefined);
  return low && { tone: 'bad', text: `the memory of ${low.host} runs low` };
};

const starving: Find = ({ ranks }, { now }) => {
  const text = starvedText(ranks, now);
  return text === undefined ? undefined : { tone: 'slow', text };
};

const straggling: Find = (view, { now }) => {
  const found = stragglerOf(view, now);
  return (
    found && {
      tone: 'slow',
      text: `rank ${found.rank} keeps the others waiting, ${Math.round(100 * found.share)} % of a step`,
    }
  );
};

const communicating: Find = (_view, { exposed }) =>
  exposed === undefined || exposed < exposedShareShown
    ? undefined
    : {
        tone: 'slow',
        text: `communication that nothing hides takes ${Math.round(100 * exposed)} % of a step`,
      };

function worstExposed(here: readonly RankView[], stepMs: number | undefined): number | undefined {
  const exposed = here.flatMap(({ status }) => status?.exposedMsPerStep ?? []);
  // The rank that arrives last waits for nobody: its share is that of communication alone.
  return stepMs === undefined || exposed.length === 0
    ? undefined
    : Math.min(1, Math.min(...exposed) / stepMs);
}

/** 'ranks 0, 1, 2 and 61 more' */
function shortList(ranks: readonly number[]): string {
  return ranks.length <= 8
    ? listRanks(ranks)
    : `${listRanks(ranks.slice(0, 3))} and ${ranks.length - 3} more`;
}
