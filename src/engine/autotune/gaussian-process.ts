// A Gaussian process over the unit cube: what is known about a function from a few noisy values of it. Kernel: a
// squared exponential (RBF) with a length for each dimension; mean: that of the values. Lengths and noise are those
// under which the values are likeliest. Cholesky in plain code: a tuner has some dozens of values, not thousands.
//
// Words. `noise` is the variance of the values around the function, as a share of the variance of the function itself.

import { mulberry32 } from './random.ts';

export interface Posterior {
  readonly mean: number;
  /** Of the function, not of another noisy value. */
  readonly variance: number;
}

export interface Kernel {
  /** One for each dimension. */
  readonly lengths: readonly number[];
  readonly noise: number;
}

/** The lower triangle L of a symmetric positive definite matrix A = L Lᵀ; undefined where A is none. Price: n³/3. */
export function cholesky(matrix: readonly (readonly number[])[]): number[][] | undefined {
  const lower: number[][] = matrix.map(() => new Array<number>(matrix.length).fill(0));
  for (let i = 0; i < matrix.length; i++) {
    const row = lower[i] as number[];
    for (let j = 0; j <= i; j++) {
      const other = lower[j] as number[];
      let sum = (matrix[i] as readonly number[])[j] as number;
      for (let k = 0; k < j; k++) sum -= (row[k] as number) * (other[k] as number);
      if (i !== j) row[j] = sum / (other[j] as number);
      else if (sum > 0) row[i] = Math.sqrt(sum);
      else return undefined;
    }
  }
  return lower;
}

/** x of L x = b. */
export function solveLower(lower: readonly (readonly number[])[], b: readonly number[]): number[] {
  const x: number[] = [];
  for (let i = 0; i < b.length; i++) {
    const row = lower[i] as readonly number[];
    let sum = b[i] as number;
    for (let k = 0; k < i; k++) sum -= (row[k] as number) * (x[k] as number);
    x.push(sum / (row[i] as number));
  }
  return x;
}

/** x of Lᵀ x = b. */
export function solveUpper(lower: readonly (readonly number[])[], b: readonly number[]): number[] {
  const x = [...b];
  for (let i = b.length - 1; i >= 0; i--) {
    let sum = x[i] as number;
    for (let k = i + 1; k < b.length; k++) sum -= (lower[k]?.[i] as number) * (x[k] as number);
    x[i] = sum / (lower[i]?.[i] as number);
  }
  return x;
}

/** exp(-½ Σ ((a - b) / length)²) */
export function rbf(a: readonly number[], b: readonly number[], lengths: readonly number[]): number {
  let sum = 0;
  for (let d = 0; d < a.length; d++) {
    const far = ((a[d] as number) - (b[d] as number)) / (lengths[d] as number);
    sum += far * far;
  }
  return Math.exp(-0.5 * sum);
}

export class GaussianProcess {
  readonly kernel: Kernel;
  /** Of the function: the likeliest one for this kernel. */
  readonly signalVariance: number;
  /** Larger is likelier; comparable between kernels for the same values. */
  readonly logLikelihood: number;
  readonly #points: readonly (readonly number[])[];
  readonly #mean: number;
  readonly #lower: readonly (readonly number[])[];
  readonly #weights: readonly number[];

  private constructor(
    points: readonly (readonly number[])[],
    mean: number,
    kernel: Kernel,
    lower: readonly (readonly number[])[],
    centred: readonly number[],
    signalVariance: number | undefined,
  ) {
    this.#points = points;
    this.#mean = mean;
    this.kernel = kernel;
    this.#lower = lower;
    const half = solveLower(lower, centred);
    this.#weights = solveUpper(lower, half);
    const n = points.length;
    const likeliest = half.reduce((sum, each) => sum + each * each, 0) / n;
    this.signalVariance = signalVariance ?? Math.max(likeliest, 1e-12);
    const logDeterminant = 2 * lower.reduce((sum, row, i) => sum + Math.log(row[i] as number), 0);
    this.logLikelihood =
      -0.5 * (n * Math.log(this.signalVariance) + logDeterminant + (n * likeliest) / this.signalVariance);
  }

  /** With a kernel that is known. Undefined where rounding makes the matrix useless. */
  static withKernel(
    points: readonly (readonly number[])[],
    values: readonly number[],
    kernel: Kernel,
    options: { readonly mean?: number; readonly signalVariance?: number } = {},
  ): GaussianProcess | undefined {
    const mean = options.mean ?? values.reduce((sum, value) => sum + value, 0) / values.length;
    const matrix = points.map((a, i) =>
      points.map((b, j) => rbf(a, b, kernel.lengths) + (i === j ? kernel.noise + 1e-9 : 0)),
    );
    const lower = cholesky(matrix);
    if (lower === undefined) return undefined;
    const centred = values.map((value) => value - mean);
    return new GaussianProcess(points, mean, kernel, lower, centred, options.signalVariance);
  }

  /**
   * With the likeliest kernel: random ones first, then steps along each of its numbers around the best. A `noise` that is
   * given stays. At least one value.
   */
  static fit(
    points: readonly (readonly number[])[],
    values: readonly number[],
    options: { readonly noise?: number | undefined; readonly seed?: number } = {},
  ): GaussianProcess {
    const dimensions = points[0]?.length ?? 0;
    const random = mulberry32(options.seed ?? 1);
    // Logarithms: a length of 0.1 and one of 0.2 differ as much as 1 and 2.
    const lowest = [...new Array<number>(dimensions).fill(Math.log(0.12)), Math.log(1e-3)];
    const highest = [...new Array<number>(dimensions).fill(Math.log(4)), Math.log(4)];
    const free = options.noise === undefined ? dimensions + 1 : dimensions;
    const make = (logs: readonly number[]) =>
      GaussianProcess.withKernel(points, values, {
        lengths: logs.slice(0, dimensions).map(Math.exp),
        noise: options.noise ?? Math.exp(logs[dimensions] as number),
      });
    // A weak belief in moderate numbers: few values are explained by almost any kernel.
    const merit = (process: GaussianProcess, logs: readonly number[]) =>
      process.logLikelihood -
      logs.reduce(
        (sum, log, d) => sum + ((log - (d < dimensions ? Math.log(0.6) : Math.log(0.1))) / 1.5) ** 2,
        0,
      ) /
        2;
    let bestLogs = [...new Array<number>(dimensions).fill(Math.log(0.6)), Math.log(0.1)];
    let best = make(bestLogs) as GaussianProcess;
    let bestMerit = merit(best, bestLogs);
    const consider = (logs: readonly number[]) => {
      const bounded = logs.map((log, d) =>
        Math.min(Math.max(log, lowest[d] as number), highest[d] as number),
      );
      const process = make(bounded);
      if (process === undefined || merit(process, bounded) <= bestMerit) return;
      [best, bestLogs, bestMerit] = [process, bounded, merit(process, bounded)];
    };
    for (let i = 0; i < 40; i++) {
      consider(lowest.map((low, d) => (d < free ? low + random() * ((highest[d] as number) - low) : low)));
    }
    for (const step of [0.7, 0.35, 0.15]) {
      for (let d = 0; d < free; d++) {
        for (const sign of [-1, 1])
          consider(bestLogs.map((log, each) => (each === d ? log + sign * step : log)));
      }
    }
    return best;
  }

  predict(point: readonly number[]): Posterior {
    const near = this.#points.map((each) => rbf(point, each, this.kernel.lengths));
    const mean = near.reduce((sum, each, i) => sum + each * (this.#weights[i] as number), this.#mean);
    const explained = solveLower(this.#lower, near).reduce((sum, each) => sum + each * each, 0);
    return { mean, variance: Math.max(this.signalVariance * (1 - explained), 0) };
  }
}

/** How much less than `best` a value is expected to be, where it is less. For what is to become small. */
export function expectedImprovement({ mean, variance }: Posterior, best: number): number {
  const gain = best - mean;
  const deviation = Math.sqrt(variance);
  if (deviation < 1e-12) return Math.max(gain, 0);
  const z = gain / deviation;
  return gain * normalDistribution(z) + deviation * normalDensity(z);
}

export function normalDensity(z: number): number {
  return Math.exp(-0.5 * z * z) / Math.sqrt(2 * Math.PI);
}

/** The share of a normal distribution below z: a series whose terms are all of one sign. Within 1e-9. */
export function normalDistribution(z: number): number {
  if (z > 6) return 1;
  if (z < -6) return 0;
  let term = z;
  let sum = z;
  for (let k = 3; Math.abs(term) > 1e-12; k += 2) {
    term *= (z * z) / k;
    sum += term;
  }
  return 0.5 + sum * normalDensity(z);
}
