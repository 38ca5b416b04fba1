// Puts autotune on a context: the settings of an earlier job, or a tuner that listens to the steps.

import type { JobShape, SavedResult } from '../engine/autotune/files.ts';
import type { GroupTunables } from '../engine/autotune/group-tunables.ts';
import { jobTunables } from '../engine/autotune/job-tunables.ts';
import { Reporter } from '../engine/autotune/reporter.ts';
import type { SettledResults } from '../engine/autotune/settled-results.ts';
import type { TunableValues } from '../engine/autotune/tunables.ts';
import { exchangeKey, Tuner, type TunerHost } from '../engine/autotune/tuner.ts';
import { type AutotuneWord, savedValues, settledValues } from '../engine/autotune/word.ts';
import { nowMs } from '../engine/clock.ts';
import type { Settings } from '../settings/table.ts';
import type { HorovodContext } from './context.ts';
import { exchangeOptional, exchangeOptionalSync } from './optional-exchange.ts';

export interface Autotune {
  /** Rank 0's. */
  readonly word: AutotuneWord;
  readonly settings: Pick<
    Settings,
    'autotuneLog' | 'autotuneFile' | 'autotuneWarmupSamples' | 'autotuneMaxSamples' | 'autotuneNoise'
  >;
  readonly shape: JobShape;
  /** Undefined: there are none. */
  readonly groupTunables?: GroupTunables | undefined;
  /** Of a worker of an elastic job, in all its memberships. */
  readonly settled?: SettledResults | undefined;
  /** Whether the job has had other memberships before. */
  readonly isContinued?: boolean | undefined;
  /** A line that is shown whatever the log's level is. */
  say(text: string): void;
}

/** All ranks call it at the same place, before anything else. Undefined where there is nothing left to tune. */
export function attachAutotune(context: HorovodContext, autotune: Autotune): Tuner | undefined {
  const { rank, size } = context.world;
  const { word, settings, shape, groupTunables, settled } = autotune;
  const say = rank === 0 ? autotune.say : () => {};
  if (size === 1) {
    say('has nothing to do in a job of one rank.');
    return undefined;
  }
  const found = settledValues(word, shape);
  const values = found ?? savedValues(word, shape, say);
  if (values !== undefined) {
    context.tuned.apply(values);
    groupTunables?.apply(values);
    // A worker that has just joined may be rank 0 of another membership.
    settled?.add(shape, values);
    say(
      found === undefined
        ? `uses the result in ${settings.autotuneFile}: ${describeSaved(values, word.saved as SavedResult)}.`
        : `goes on with what it has found for ranks on hosts like these: ${describeValues(values)}.`,
    );
    return undefined;
  }
  const tunables = () =>
    jobTunables({
      tuned: context.tuned,
      given: new Set(word.given),
      background: context.transport.background,
      more: groupTunables?.tunables ?? [],
    });
  const warn = (text: string) => context.log.write('warning', text);
  const decider =
    rank === 0
      ? new Reporter(tunables, {
          warmupSamples: settings.autotuneWarmupSamples,
          maxSamples: settings.autotuneMaxSamples,
          noise: settings.autotuneNoise,
          logFile: settings.autotuneLog,
          continuesLog: autotune.isContinued,
          resultFile: settings.autotuneFile,
          shape,
          say,
          warn,
        })
      : undefined;
  const host = {
    rank,
    nowMs,
    warn,
    isIdle: () => context.isIdle,
    apply: (decided: TunableValues) => {
      context.tuned.apply(decided);
      groupTunables?.apply(decided);
    },
    settled: (decided: TunableValues) => settled?.add(shape, decided),
    exchange: (key: string, text: string) => exchangeSettings(context, key, text),
  };
  const tuner = new Tuner(host, decider, word.stepsPerSample);
  context.tuned.onGivenUp = (key) => {
    if (key.startsWith(exchangeKey)) tuner.onGivenUp();
  };
  const stop = context.steps.subscribe((mark) => {
    tuner.onStep(mark);
    if (tuner.isOver) stop();
  });
  return tuner;
}

/** Blocking, where the transport can. */
export function exchangeSettings(
  context: HorovodContext,
  key: string,
  text: string,
): ReturnType<TunerHost['exchange']> {
  const exchange = context.transport.canBlock ? exchangeOptionalSync : exchangeOptional;
  return exchange(context, 'autotune', key, text);
}

function describeSaved(values: TunableValues, { comparison }: SavedResult): string {
  const names = Object.keys(values);
  if (comparison?.isBetter !== true || names.length === 0) return 'the default settings were the best';
  return `${describeValues(values)} (it saved ${(100 * comparison.gain).toFixed(1)} % of a step)`;
}

function describeValues(values: TunableValues): string {
  const names = Object.keys(values);
  return names.length === 0
    ? 'the default settings'
    : names.map((name) => `${name} ${values[name]}`).join(', ');
}
