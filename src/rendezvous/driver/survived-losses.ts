// What an elastic job has been through: counts its resets, and puts them into words at its end.

import { describeReset, stepsText } from './describe-reset.ts';
import type { Reset } from './driver-state.ts';

export class SurvivedLosses {
  readonly #lines: string[] = [];
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
    return line;
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
