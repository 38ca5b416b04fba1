import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
  cholesky,
  expectedImprovement,
  GaussianProcess,
  normalDensity,
  normalDistribution,
  rbf,
  solveLower,
  solveUpper,
} from './gaussian-process.ts';
import { mulberry32, normal } from './random.ts';

const close = (actual: number, expected: number, within = 1e-6) =>
  assert.ok(Math.abs(actual - expected) <= within, `${actual} is not ${expected} ± ${within}`);

describe('linear algebra', () => {
  test('the factor of a matrix multiplied with itself is the matrix', () => {
    const matrix = [
      [4, 2, 0.6],
      [2, 5, 1.5],
      [0.6, 1.5, 3],
    ];
    const lower = cholesky(matrix) as number[][];
    matrix.forEach((row, i) => {
      row.forEach((expected, j) => {
        close(
          (lower[i] as number[]).reduce((sum, each, k) => sum + each * (lower[j]?.[k] ?? 0), 0),
          expected,
          1e-12,
        );
      });
    });
  });

  test('a matrix that is not positive definite has no factor', () => {
    const singular = [
      [1, 2],
      [2, 1],
    ];
    assert.equal(cholesky(singular), undefined);
  });

  test('the two triangles solve A x = b', () => {
    const matrix = [
      [4, 2],
      [2, 5],
    ];
    const lower = cholesky(matrix) as number[][];
    const [x, y] = solveUpper(lower, solveLower(lower, [8, 9])) as [number, number];
    close(4 * x + 2 * y, 8, 1e-12);
    close(2 * x + 5 * y, 9, 1e-12);
  });
});

describe('the posterior', () => {
  const kernel = { lengths: [0.5], noise: 0.1 };

  test('of one value is the closed form', () => {
    const process = GaussianProcess.withKernel([[0.2]], [3], kernel, { mean: 1, signalVariance: 2 });
    const { mean, variance } = (process as GaussianProcess).predict([0.6]);
    const k = Math.exp(-0.5 * (0.4 / 0.5) ** 2);
    close(mean, 1 + (k * (3 - 1)) / 1.1);
    close(variance, 2 * (1 - (k * k) / 1.1));
  });

  test('of two values is the closed form', () => {
    const points = [[0.1], [0.7]];
    const process = GaussianProcess.withKernel(points, [1, -2], kernel, { mean: 0, signalVariance: 1 });
    const { mean, variance } = (process as GaussianProcess).predict([0.4]);
    const c = rbf([0.1], [0.7], [0.5]);
    const k = rbf([0.1], [0.4], [0.5]);
    // The inverse of [[a, c], [c, a]] is [[a, -c], [-c, a]] / (a² - c²).
    const a = 1.1;
    const determinant = a * a - c * c;
    close(mean, (k * (a * 1 - c * -2) + k * (-c * 1 + a * -2)) / determinant);
    close(variance, 1 - (2 * k * k * (a - c)) / determinant);
  });

  test('far from everything is the mean and the whole variance', () => {
    const process = GaussianProcess.withKernel([[0]], [5], kernel, { mean: 2, signalVariance: 3 });
    const { mean, variance } = (process as GaussianProcess).predict([100]);
    close(mean, 2);
    close(variance, 3);
  });

  test('without noise passes through the values', () => {
    const points = [[0], [0.4], [1]];
    const process = GaussianProcess.withKernel(points, [2, 1, 4], { lengths: [0.3], noise: 0 });
    for (const [i, value] of [2, 1, 4].entries()) {
      const { mean, variance } = (process as GaussianProcess).predict(points[i] as number[]);
      close(mean, value, 1e-4);
      close(variance, 0, 1e-4);
    }
  });
});

describe('the fit', () => {
  const random = mulberry32(3);
  const points = Array.from({ length: 40 }, () => [random(), random()]);

  test('finds that a dimension does not matter', () => {
    const values = points.map(([x]) => Math.sin(6 * (x as number)));
    const { lengths } = GaussianProcess.fit(points, values).kernel;
    assert.ok((lengths[1] as number) > 3 * (lengths[0] as number), String(lengths));
  });

  test('tells noise from a function', () => {
    const clean = points.map(([x]) => Math.sin(6 * (x as number)));
    const noisy = clean.map((value) => value + normal(random));
    const { noise: little } = GaussianProcess.fit(points, clean).kernel;
    const { noise: much } = GaussianProcess.fit(points, noisy).kernel;
    assert.ok(little < 0.01 && much > 0.2, `${little} ${much}`);
  });

  test('leaves a noise that is given', () => {
    assert.equal(GaussianProcess.fit(points, points.map(normalOf), { noise: 0.8 }).kernel.noise, 0.8);
  });

  test('bears one value, and values that are all the same', () => {
    close(GaussianProcess.fit([[0.5]], [7]).predict([0.9]).mean, 7, 1e-9);
    const same = GaussianProcess.fit(points, new Array<number>(40).fill(2));
    close(same.predict([0.5, 0.5]).mean, 2, 1e-9);
  });

  function normalOf(): number {
    return normal(random);
  }
});

describe('expected improvement', () => {
  test('is the integral it stands for', () => {
    for (const [mean, variance, best] of [
      [1, 0.5, 0.8],
      [0, 1, 0],
      [2, 0.1, 2.5],
    ] as const) {
      let sum = 0;
      const [step, deviation] = [1e-3, Math.sqrt(variance)];
      for (let value = mean - 8 * deviation; value < best; value += step) {
        const density = normalDensity((value + step / 2 - mean) / deviation) / deviation;
        sum += Math.max(best - value - step / 2, 0) * density * step;
      }
      close(expectedImprovement({ mean, variance }, best), sum, 1e-3);
    }
  });

  test('of what is certain is the difference, or nothing', () => {
    assert.equal(expectedImprovement({ mean: 1, variance: 0 }, 3), 2);
    assert.equal(expectedImprovement({ mean: 4, variance: 0 }, 3), 0);
  });

  test('grows with what is not known', () => {
    const at = (variance: number) => expectedImprovement({ mean: 1, variance }, 1);
    assert.ok(at(2) > at(1) && at(1) > at(0.1));
  });

  test('the normal distribution has its known values', () => {
    close(normalDistribution(0), 0.5, 1e-9);
    close(normalDistribution(1.959963985), 0.975, 1e-8);
    close(normalDistribution(-2.575829304), 0.005, 1e-8);
    assert.equal(normalDistribution(9), 1);
    assert.equal(normalDistribution(-9), 0);
  });
});
