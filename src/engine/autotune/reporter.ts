// Rank 0's side of tuning: asks the session what to try, and tells the user, the log and the result file what came of it.

import { type JobShape, type SavedResult, TuningLog, writeResult } from './files.ts';
import { type Sample, Session, type SessionOptions } from './session.ts';
import { trimmedMean } from './statistics.ts';
import { sameValues, showValues, type Tunable, type TunableValues } from './tunables.ts';
import type { Decider, Decision } from './tuner.ts';

export interface ReporterOptions extends SessionOptions {
  readonly logFile: string | undefined;
  /** The log has rows of earlier memberships of this job. */
  readonly continuesLog?: boolean | undefined;
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
  #defaultMs: number | undefined;

  constructor(tunables: () => readonly Tunable[], options: ReporterOptions) {
    this.#session = new Session(tunables, options);
    this.#options = options;
    this.#log = new TuningLog(options.logFile, options.warn, options.continuesLog);
  }

  decide(stepMs: readonly number[]): Decision {
    const sample = this.#session.tell(trimmedMean(stepMs));
    this.#tell(sample);
    const { phase, values } = this.#session;
    return { values, isOver: phase === 'over' };
  }

  agreed({ isOver }: Decision): void {
    const { outcome, tunables } = this.#session;
    if (!isOver || outcome === undefined) return;
    const { say, resultFile, shape, warn } = this.#options;
    const { chosen, defaults, comparison, samples } = outcome;
    const afterMs =
      comparison === undefined
        ? this.#defaultMs
        : comparison.isBetter
          ? comparison.afterMs
          : comparison.beforeMs;
    this.#log.write('chosen', namesOf(tunables), chosen, afterMs);
    say(summaryOf(tunables, outcome, this.#defaultMs));
    if (resultFile === undefined || samples === 0) return;
    const values: TunableValues = comparison?.isBetter === true ? chosen : defaults;
    const result: SavedResult = { format: 1, shape, values, comparison };
    if (writeResult(resultFile, result, warn))
      say(`keeps the result in ${resultFile}, for the next job of this shape.`);
  }

  #tell({ phase, values, ms, number, of }: Sample): void {
    const { tunables, phase: nextPhase } = this.#session;
    const { say } = this.#options;
    if (phase === 'warming') {
      if (nextPhase === 'searching') {
        say(
          `tries ${namesOf(tunables).join(', ')}; at most ${this.#options.maxSamples} samples, then a comparison.`,
        );
      } else if (number === 1) {
        say(
          `is warming up: ${of} ${of === 1 ? 'sample that does' : 'samples that do'} not count; ${show(ms)} a step.`,
        );
      }
      return;
    }
    this.#log.write(phase, namesOf(tunables), values, ms);
    if (number === 1 && phase === 'searching') this.#defaultMs = ms;
    say(`${phase} ${number}/${of}: ${show(ms)} a step with ${showValues(tunables, values)}.`);
  }
}

function namesOf(tunables: readonly Tunable[]): string[] {
  return tunables.map(({ name }) => name);
}

function summaryOf(
  tunables: readonly Tunable[],
  { chosen, defaults, comparison, samples }: NonNullable<Session['outcome']>,
  defaultMs: number | undefined,
): string {
  if (tunables.length === 0) {
    return 'is over: this program uses nothing that can be tuned, or every setting was given. Nothing was changed.';
  }
  if (comparison === undefined || defaultMs === undefined) {
    return `is over: of ${samples} settings none looked better than the default one (${showValues(tunables, defaults)}); it stays.`;
  }
  const { beforeMs, afterMs, gain, noise, isBetter } = comparison;
  const figures = `before ${show(beforeMs)} a step, after ${show(afterMs)}: ${gain < 0 ? `${percent(-gain)} lost` : `${percent(gain)} saved`}, and up to ${percent(noise)} may be chance`;
  return isBetter
    ? `is over: ${figures}. Kept: ${showChanges(tunables, defaults, chosen)}.`
    : `is over: ${figures}. That is no gain: the default settings stay.`;
}

/** Only what differs, with what it was. */
function showChanges(tunables: readonly Tunable[], defaults: TunableValues, chosen: TunableValues): string {
  const changed = tunables.filter(
    ({ name }) => !sameValues({ x: defaults[name] ?? '' }, { x: chosen[name] ?? '' }),
  );
  return changed
    .map(
      (tunable) =>
        `${showValues([tunable], chosen)} (was ${showValues([tunable], defaults).slice(tunable.name.length + 1)})`,
    )
    .join(', ');
}

function show(ms: number): string {
  return ms < 1 ? `${(ms * 1000).toFixed(0)} µs` : `${ms.toFixed(ms < 100 ? 2 : 0)} ms`;
}

function percent(share: number): string {
  return `${(100 * share).toFixed(1)} %`;
}
