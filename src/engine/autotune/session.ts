// What rank 0 decides after each sample: the state machine of tuning. Pure: times in, settings out. States:
//
//   warming     samples that count for nothing: caches, compilers and connections get warm; shows that the ranks keep step
//   searching   one setting a sample, by search.ts
//   comparing   the default setting and the best one found, in turns, to tell a gain from chance
//   over        the setting stays

import { Search } from './search.ts';
import { type Comparison, compare, leastGain } from './statistics.ts';
import { defaultValues, sameValues, type Tunable, type TunableValues } from './tunables.ts';

export interface SessionOptions {
  readonly warmupSamples: number;
  readonly maxSamples: number;
  readonly noise: number | undefined;
  /** How often the two settings take turns at the end. */
  readonly pairs?: number;
  readonly seed?: number;
}

export type Phase = 'warming' | 'searching' | 'comparing' | 'over';

/** What a sample was taken of. */
export interface Sample {
  readonly phase: Phase;
  readonly values: TunableValues;
  readonly ms: number;
  /** From 1, within the phase. */
  readonly number: number;
  readonly of: number;
}

export interface Outcome {
  readonly defaults: TunableValues;
  readonly chosen: TunableValues;
  /** Undefined: nothing looked better than the default setting, so there was nothing to compare. */
  readonly comparison: Comparison | undefined;
  readonly samples: number;
}

/** Enough for a standard error that means something, few enough to be over soon. */
const defaultPairs = 4;
/** So many times as many turns where the first ones do not tell. */
const moreTimes = 3;

export class Session {
  readonly #options: SessionOptions;
  readonly #tunables: () => readonly Tunable[];
  #pairs: number;
  #hasMore = false;
  #phase: Phase = 'warming';
  #taken = 0;
  #search: Search | undefined;
  #values: TunableValues = {};
  #defaults: TunableValues = {};
  #best: TunableValues = {};
  readonly #before: number[] = [];
  readonly #after: number[] = [];
  #comparison: Comparison | undefined;

  /** `tunables` is asked once, after warming: by then it is known what the program uses. */
  constructor(tunables: () => readonly Tunable[], options: SessionOptions) {
    this.#tunables = tunables;
    this.#options = options;
    this.#pairs = options.pairs ?? defaultPairs;
  }

  get phase(): Phase {
    return this.#phase;
  }

  /** The setting the next sample is to be taken of; of tunables that are tuned only. Empty while warming. */
  get values(): TunableValues {
    return this.#values;
  }

  get tunables(): readonly Tunable[] {
    return this.#search?.tunables ?? [];
  }

  get outcome(): Outcome | undefined {
    if (this.#phase !== 'over') return undefined;
    const { trials = [] } = this.#search ?? {};
    return {
      defaults: this.#defaults,
      chosen: this.#values,
      comparison: this.#comparison,
      samples: trials.length,
    };
  }

  /** A sample of `values` has been taken: `ms` for a step. */
  tell(ms: number): Sample {
    const phase = this.#phase;
    const values = this.#values;
    this.#taken++;
    const of = this.#lengthOf(phase);
    const sample = { phase, values, ms, number: this.#taken, of };
    if (phase === 'warming') this.#warm();
    else if (phase === 'searching') this.#seek(ms);
    else if (phase === 'comparing') this.#weigh(ms);
    return sample;
  }

  /** Ends with the setting that is known to be good: the default one. */
  abandon(): void {
    this.#values = this.#defaults;
    this.#phase = 'over';
  }

  #lengthOf(phase: Phase): number {
    if (phase === 'warming') return this.#warmup;
    return phase === 'searching' ? this.#options.maxSamples : 2 * this.#pairs;
  }

  /** At least one: ranks that do not keep step are to be found out before anything has been changed. */
  get #warmup(): number {
    return Math.max(this.#options.warmupSamples, 1);
  }

  #warm(): void {
    if (this.#taken < this.#warmup) return;
    const tunables = this.#tunables();
    this.#defaults = defaultValues(tunables);
    this.#search = new Search(tunables, { noise: this.#options.noise, seed: this.#options.seed });
    this.#enter(tunables.length === 0 ? 'over' : 'searching', this.#defaults);
    if (this.#phase === 'searching') this.#values = this.#search.next();
  }

  #seek(ms: number): void {
    const search = this.#search as Search;
    search.tell(this.#values, ms);
    if (this.#taken < this.#options.maxSamples && !search.isExhausted) {
      this.#values = search.next();
      return;
    }
    this.#best = search.best().values;
    this.#enter(sameValues(this.#best, this.#defaults) ? 'over' : 'comparing', this.#defaults);
  }

  #weigh(ms: number): void {
    const isBest = this.#taken % 2 === 0;
    (isBest ? this.#after : this.#before).push(ms);
    if (this.#taken < 2 * this.#pairs) {
      this.#values = isBest ? this.#defaults : this.#best;
      return;
    }
    this.#comparison = compare(this.#before, this.#after);
    const { gain, isBetter } = this.#comparison;
    if (!isBetter && gain > leastGain && !this.#hasMore) {
      // It may be a gain that drowns in noise. Asked once more only: who asks until the answer is yes, gets a yes.
      this.#hasMore = true;
      this.#pairs *= moreTimes;
      this.#values = this.#defaults;
      return;
    }
    this.#enter('over', this.#comparison.isBetter ? this.#best : this.#defaults);
  }

  #enter(phase: Phase, values: TunableValues): void {
    this.#phase = phase;
    this.#values = values;
    this.#taken = 0;
  }
}
