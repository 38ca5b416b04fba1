// The search: which setting to try next. First the default one, then a few that are spread over the cube, then where a
// Gaussian process over the logarithms of the times expects the largest improvement. Pure, and the same in every run.

import { expectedImprovement, GaussianProcess } from './gaussian-process.ts';
import { mulberry32 } from './random.ts';
import {
  decode,
  defaultValues,
  dimensionsOf,
  encode,
  sameValues,
  type Tunable,
  type TunableValues,
} from './tunables.ts';

export interface Trial {
  readonly values: TunableValues;
  /** Time of a step. */
  readonly ms: number;
}

export interface SearchOptions {
  /** Of the Gaussian process; undefined: found with the rest. */
  readonly noise?: number | undefined;
  readonly seed?: number | undefined;
}

const candidatesPerTrial = 512;
/** How often each setting is tried where there are only choices, a few altogether. */
const timesEach = 2;

export class Search {
  readonly tunables: readonly Tunable[];
  readonly #noise: number | undefined;
  readonly #random: () => number;
  readonly #first: TunableValues[];
  readonly #trials: Trial[] = [];

  constructor(tunables: readonly Tunable[], options: SearchOptions = {}) {
    this.tunables = tunables;
    this.#noise = options.noise;
    this.#random = mulberry32(options.seed ?? 5);
    this.#first = firstSettings(tunables);
  }

  get trials(): readonly Trial[] {
    return this.#trials;
  }

  /** There are few settings, and each has been tried often enough. */
  get isExhausted(): boolean {
    return this.#hasOnlyChoices && this.#all().every((values) => this.#countOf(values) >= timesEach);
  }

  next(): TunableValues {
    const fresh = this.#untried(this.#first)[0];
    if (fresh !== undefined) return fresh;
    if (this.#hasOnlyChoices) {
      return this.#all().reduce((least, each) => (this.#countOf(each) < this.#countOf(least) ? each : least));
    }
    const process = this.#model();
    const best = Math.min(...this.#trials.map(({ values }) => process.predict(this.#pointOf(values)).mean));
    let chosen: { values: TunableValues; merit: number } | undefined;
    for (const values of this.#untried(this.#candidates())) {
      const merit = expectedImprovement(process.predict(this.#pointOf(values)), best);
      if (chosen === undefined || merit > chosen.merit) chosen = { values, merit };
    }
    return chosen?.values ?? this.best().values;
  }

  tell(values: TunableValues, ms: number): void {
    this.#trials.push({ values, ms });
  }

  /** The best of those tried, by what the model makes of their noisy times. At least one has been told. */
  best(): Trial {
    const process = this.#model();
    const judged = this.#trials.map((trial) => ({
      trial,
      mean: process.predict(this.#pointOf(trial.values)).mean,
    }));
    const [best] = judged.sort((a, b) => a.mean - b.mean);
    return best?.trial as Trial;
  }

  get #hasOnlyChoices(): boolean {
    return this.tunables.every(({ kind }) => kind === 'choice');
  }

  #countOf(values: TunableValues): number {
    return this.#trials.filter((trial) => sameValues(trial.values, values)).length;
  }

  #model(): GaussianProcess {
    const points = this.#trials.map(({ values }) => this.#pointOf(values));
    // In logarithms 10 % are 10 %, and one terrible setting does not hide the differences of the good ones.
    const times = this.#trials.map(({ ms }) => Math.log(ms));
    const middle = [...times].sort((a, b) => a - b)[times.length >> 1] as number;
    const bounded = times.map((time) => Math.min(time, middle + Math.LN2));
    return GaussianProcess.fit(points, bounded, { noise: this.#noise, seed: this.#trials.length });
  }

  #pointOf(values: TunableValues): number[] {
    return encode(this.tunables, values);
  }

  #untried(list: readonly TunableValues[]): TunableValues[] {
    return list.filter((values) => !this.#trials.some((trial) => sameValues(trial.values, values)));
  }

  /** Anywhere, and near the best. */
  #candidates(): TunableValues[] {
    const dimensions = this.tunables.reduce((sum, tunable) => sum + dimensionsOf(tunable), 0);
    const near = this.#pointOf(this.best().values);
    return Array.from({ length: candidatesPerTrial }, (_, i) => {
      const point = Array.from({ length: dimensions }, (_, d) =>
        i % 2 === 0
          ? this.#random()
          : Math.min(Math.max((near[d] as number) + (this.#random() - 0.5) * 0.5, 0), 1),
      );
      return decode(this.tunables, point);
    });
  }

  /** All combinations of choices. */
  #all(): TunableValues[] {
    let combinations: TunableValues[] = [{}];
    for (const tunable of this.tunables) {
      if (tunable.kind !== 'choice') continue;
      combinations = combinations.flatMap((values) =>
        tunable.choices.map((choice) => ({ ...values, [tunable.name]: choice })),
      );
    }
    return combinations;
  }
}

/**
 * The default setting, each other choice alone, and points of a low-discrepancy sequence (Halton's): so many that each
 * dimension has been seen low, high and in between.
 */
function firstSettings(tunables: readonly Tunable[]): TunableValues[] {
  const defaults = defaultValues(tunables);
  const turned = tunables.flatMap((tunable) =>
    tunable.kind === 'size'
      ? []
      : tunable.choices
          .filter((choice) => choice !== tunable.defaultValue)
          .map((choice) => ({ ...defaults, [tunable.name]: choice })),
  );
  const sizes = tunables.filter(({ kind }) => kind === 'size');
  const spread = Array.from({ length: sizes.length === 0 ? 0 : sizes.length + 3 }, (_, i) => {
    const point = sizes.map((_, d) => halton(i + 1, primes[d % primes.length] as number));
    return decode(tunables, encode(tunables, { ...defaults, ...decode(sizes, point) }));
  });
  return [defaults, ...turned, ...spread];
}

const primes = [2, 3, 5, 7, 11, 13];

function halton(index: number, base: number): number {
  let [share, result] = [1, 0];
  for (let rest = index; rest > 0; rest = Math.floor(rest / base)) {
    share /= base;
    result += share * (rest % base);
  }
  return result;
}
