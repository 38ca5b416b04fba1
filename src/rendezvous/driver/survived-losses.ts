// What an elastic job has been through: counts its resets, puts them into words at its end, and tells `horovod status` about the last.

import { describeChange, describeReset, stepsText } from './describe-reset.ts';
import type { DriverState, Reset } from './driver-state.ts';
import { type JobNews, notedResets, type ResetNote } from './job-news.ts';
import { isMember } from './transitions.ts';

export class SurvivedLosses {
  readonly #lines: string[] = [];
  readonly #notes: ResetNote[] = [];
  #lost = 0;
  #tookMs = 0;
  #repeatedSteps = 0;

  /** Returns the line about this reset. */
  add(reset: Reset): string {
    const line = describeReset(reset);
    this.#lines.push(line);
    this.#lost += reset.lost.filter(({ isWanted }) => !isWanted).length;
    this.#tookMs += reset.tookMs;
    this.#repeatedSteps += reset.repeatedSteps;
    const { generation, size, tookMs, repeatedSteps } = reset;
    const what = describeChange(reset);
    this.#notes.push({
      generation,
      at: Date.now(),
      what,
      size,
      tookMs: Math.round(tookMs),
      repeatedSteps,
    });
    if (this.#notes.length > notedResets) this.#notes.shift();
    return line;
  }

  /** What `horovod status` shows. */
  news(state: DriverState): Omit<JobNews, 'pid'> {
    const { lastFormed, resets, workers } = state;
    const standbys = [...workers.values()].filter(
      ({ number, report, leavingSince }) =>
        report !== undefined && leavingSince === undefined && !isMember(state, number),
    );
    const pause = pauseOf(state);
    return {
      generation: lastFormed?.number ?? 0,
      resets,
      standbys: standbys.length,
      lastResets: [...this.#notes],
      ...(pause === undefined ? {} : { pause }),
    };
  }

  /** Of a job that has finished; undefined if it has lost nobody. */
  summary(): string | undefined {
    if (this.#lost === 0) return undefined;
    const losses = `${this.#lost} lost rank${this.#lost === 1 ? '' : 's'}`;
    const resets = `${this.#lines.length} reset${this.#lines.length === 1 ? '' : 's'}`;
    const cost = `${Math.round(this.#tookMs)} ms altogether, ${stepsText(this.#repeatedSteps)}`;
    const head = `the job has finished in spite of ${losses}: ${resets}, ${cost}.`;
    return [head, ...this.#lines.map((line) => `  ${line}`)].join('\n');
  }

  /** Of a job that has failed: nothing, or a heading and a line for each reset. */
  before(): string[] {
    if (this.#lines.length === 0) return [];
    return ['Resets before that:', ...this.#lines.map((line) => `  ${line}`)];
  }
}

/** Why no rank trains; undefined: they do, or have not begun. */
function pauseOf({ lastFormed, phase, limits: { min } }: DriverState): string | undefined {
  if (lastFormed === undefined || phase === 'running') return undefined;
  if (phase === 'waiting') return `waiting for at least ${min} rank${min === 1 ? '' : 's'}`;
  return phase === 'collecting' || phase === 'forming' ? 'in a reset' : 'ending';
}
