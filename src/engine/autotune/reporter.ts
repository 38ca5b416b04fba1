// Rank 0's side of tuning: asks the session what to try, and tells the user, the log and the result file what came of it.

import { type JobShape, type SavedResult, TuningLog, writeResult } from './files.ts';
import { type Knob, type KnobValues, sameValues, showValues } from './knobs.ts';
import { type Sample, Session, type SessionOptions } from './session.ts';
import { trimmedMean } from './statistics.ts';
import type { Decider, Decision } from './tuner.ts';

export interface ReporterOptions extends SessionOptions {
  readonly logFile: string | undefined;
  readonly resultFile: string | undefined;
  readonly shape: JobShape;
  /** Always shown while autotune is on. */
  say(text: string): void;
  warn(text: string): void;
}

export class Reporter implements Decider {
  readonly #session: Session;
  readonly #options: ReporterOptions;
  readonly #log: TuningLog;
  #usualMs: number | undefined;

  constructor(knobs: () => readonly Knob[], options: ReporterOptions) {
    this.#session = new Session(knobs, options);
    this.#options = options;
    this.#log = new TuningLog(options.logFile, options.warn);
  }

  decide(stepMs: readonly number[]): Decision {
    const sample = this.#session.tell(trimmedMean(stepMs));
    this.#tell(sample);
    const { phase, values } = this.#session;
    return { values, isOver: phase === 'over' };
  }

  agreed({ isOver }: Decision): void {
    const { outcome, knobs } = this.#session;
    if (!isOver || outcome === undefined) return;
    const { say, resultFile, shape, warn } = this.#options;
    const { chosen, usual, comparison, samples } = outcome;
    const afterMs =
      comparison === undefined
        ? this.#usualMs
        : comparison.isBetter
          ? comparison.afterMs
          : comparison.beforeMs;
    this.#log.write('chosen', namesOf(knobs), chosen, afterMs);
    say(summaryOf(knobs, outcome, this.#usualMs));
    if (resultFile === undefined || samples === 0) return;
    const values: KnobValues = comparison?.isBetter === true ? chosen : usual;
    const result: SavedResult = { format: 1, shape, values, comparison };
    if (writeResult(resultFile, result, warn))
      say(`keeps the result in ${resultFile}, for the next job of this shape.`);
  }

  #tell({ phase, values, ms, number, of }: Sample): void {
    const { knobs, phase: nextPhase } = this.#session;
    const { say } = this.#options;
    if (phase === 'warming') {
      if (nextPhase === 'searching') {
        say(
          `tries ${namesOf(knobs).join(', ')}; at most ${this.#options.maxSamples} samples, then a comparison.`,
        );
      } else if (number === 1) {
        say(`warms up: ${of} ${of === 1 ? 'sample' : 'samples'} that count for nothing; ${show(ms)} a step.`);
      }
      return;
    }
    this.#log.write(phase, namesOf(knobs), values, ms);
    if (number === 1 && phase === 'searching') this.#usualMs = ms;
    say(`${phase} ${number}/${of}: ${show(ms)} a step with ${showValues(knobs, values)}.`);
  }
}

function namesOf(knobs: readonly Knob[]): string[] {
  return knobs.map(({ name }) => name);
}

function summaryOf(
  knobs: readonly Knob[],
  { chosen, usual, comparison, samples }: NonNullable<Session['outcome']>,
  usualMs: number | undefined,
): string {
  if (knobs.length === 0) {
    return 'is over: this program uses nothing that can be tuned, or every setting was given. Nothing was changed.';
  }
  if (comparison === undefined || usualMs === undefined) {
    return `is over: of ${samples} settings none looked better than the usual one (${showValues(knobs, usual)}); it stays.`;
  }
  const { beforeMs, afterMs, gain, noise, isBetter } = comparison;
  const figures = `before ${show(beforeMs)} a step, after ${show(afterMs)}: ${gain < 0 ? `${percent(-gain)} lost` : `${percent(gain)} saved`}, and up to ${percent(noise)} may be chance`;
  return isBetter
    ? `is over: ${figures}. Kept: ${showChanges(knobs, usual, chosen)}.`
    : `is over: ${figures}. That is no gain: the usual settings stay.`;
}

/** Only what differs, with what it was. */
function showChanges(knobs: readonly Knob[], usual: KnobValues, chosen: KnobValues): string {
  const changed = knobs.filter(
    ({ name }) => !sameValues({ x: usual[name] ?? '' }, { x: chosen[name] ?? '' }),
  );
  return changed
    .map(
      (knob) =>
        `${showValues([knob], chosen)} (was ${showValues([knob], usual).slice(knob.name.length + 1)})`,
    )
    .join(', ');
}

function show(ms: number): string {
  return ms < 1 ? `${(ms * 1000).toFixed(0)} µs` : `${ms.toFixed(ms < 100 ? 2 : 0)} ms`;
}

function percent(share: number): string {
  return `${(100 * share).toFixed(1)} %`;
}
