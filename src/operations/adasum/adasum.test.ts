import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import type { DType, TypedArray } from '../../tensor/dtype.ts';
import {
  bfloat16ToNumber,
  float16ToNumber,
  numberToBfloat16,
  numberToFloat16,
} from '../../tensor/half-float.ts';
import { runTogether } from '../../transport/group/run-together.ts';
import type { TransportOperation } from '../../transport/transport.ts';
import { type AdasumCall, type AdasumTensor, adasum } from './adasum.ts';
import { adasumReference } from './reference.ts';
import { partyOf, segmentsOf, sliceAfter, stagesOf } from './slices.ts';

type Options = Partial<Omit<AdasumCall, 'tensors' | 'index' | 'size'>> & { readonly dtype?: DType };

const sizes = [1, 2, 4, 8];
/** Everything goes the way of long vectors, however short it is. */
const long = { gatherBytes: -1 };

describe('adasum', () => {
  test('equals the tree in float64 for each tensor by itself, whatever the sizes, lengths and scales', () => {
    const lengths = fc.array(fc.integer({ min: 0, max: 40 }), { minLength: 0, maxLength: 5 });
    fc.assert(
      fc.property(fc.constantFrom(...sizes), lengths, fc.boolean(), fc.nat(), (size, list, isShort, seed) => {
        const vectors = randomVectors(size, list, seed);
        const scales = { prescale: 0.5, postscale: 3 };
        const options = isShort ? scales : { ...long, ...scales };
        const results = run(vectors, options);
        for (const [place] of list.entries()) {
          const scaled = vectors.map((of) => (of[place] as number[]).map((x) => x / 2));
          const expected = adasumReference(scaled).map((x) => 3 * x);
          // Where vectors cancel each other out the rounding of the inputs is what counts.
          const longest = Math.max(...scaled.map((values) => 3 * Math.hypot(...values)));
          for (const result of results) near(result[place] as number[], expected, 1e-6, longest);
        }
        assertSame(results);
      }),
      { numRuns: 150 },
    );
  });

  for (const [perHost, hostOf] of [
    [2, [0, 0, 1, 1, 2, 2, 3, 3]],
    [4, [7, 7, 7, 7, 3, 3, 3, 3]],
  ] as const) {
    test(`with ${perHost} members on each host nothing goes to other hosts in the first step, and the result is the same`, () => {
      const vectors = randomVectors(8, [33, 5], 9);
      const sent: TransportOperation[] = [];
      const results = run(vectors, { ...long, hostOf }, (operation) => sent.push(operation));
      const [first, second] = sent.filter(({ kind }) => kind === 'alltoall');
      assert(first?.kind === 'alltoall' && second?.kind === 'alltoall');
      const isNear = (member: number) => hostOf[member] === hostOf[0];
      assert.deepEqual(
        first.sendBytes.map((bytes) => bytes > 0),
        hostOf.map((_, member) => isNear(member)),
      );
      assert.deepEqual(
        second.sendBytes.map((bytes) => bytes > 0),
        hostOf.map((_, member) => member % perHost === 0),
      );
      vectors[0]?.forEach((_, place) => {
        const expected = adasumReference(vectors.map((of) => of[place] as number[]));
        for (const result of results) near(result[place] as number[], expected, 1e-6);
      });
      assertSame(results);
    });
  }

  test('moves as many bytes as an allreduce does', () => {
    const sent: TransportOperation[] = [];
    run(randomVectors(4, [4000], 1), long, (operation) => sent.push(operation));
    const bytes = sent.map((operation) => {
      if (operation.kind === 'alltoall')
        return operation.sendBytes.slice(1).reduce((sum, each) => sum + each);
      return operation.kind === 'allgather' ? operation.input.byteLength : 0;
    });
    // 3/4 of 16,000 bytes go out in the first step; in the last 1/4, to three others.
    assert.deepEqual(bytes, [12_000, 0, 0, 4000]);
  });

  test('short vectors take one step', () => {
    const sent: TransportOperation[] = [];
    run(randomVectors(8, [3, 0, 7], 1), {}, (operation) => sent.push(operation));
    assert.deepEqual(
      sent.map(({ kind }) => kind),
      ['allgather'],
    );
  });

  test('the whole way and the short way differ by rounding only', () => {
    const vectors = randomVectors(8, [100, 31], 4);
    const [whole] = run(vectors, long);
    const [short] = run(vectors, {});
    whole?.forEach((values, place) => {
      near(values, short?.[place] as number[], 1e-6);
    });
  });

  for (const [dtype, tolerance] of [
    ['float64', 1e-14],
    ['float16', 2e-3],
    ['bfloat16', 1.6e-2],
  ] as const) {
    test(`${dtype} is reckoned with more bits than it has and rounded at the end`, () => {
      for (const size of sizes) {
        const vectors = randomVectors(size, [17, 2], 3).map((of) =>
          of.map((values) => values.map((x) => rounded(x, dtype))),
        );
        for (const options of [{ dtype }, { dtype, ...long }]) {
          for (const [place, values] of (run(vectors, options)[0] as number[][]).entries()) {
            const expected = adasumReference(vectors.map((of) => of[place] as number[]));
            near(values, expected, tolerance);
          }
        }
      }
    });
  }

  test('tensors of several dtypes go together', () => {
    const size = 4;
    const dtypesOf: DType[] = ['float16', 'float64', 'float32', 'float64'];
    const vectors = randomVectors(size, [5, 3, 7, 2], 11).map((of) =>
      of.map((values, place) => values.map((x) => rounded(x, dtypesOf[place] as DType))),
    );
    const calls = vectors.map((of) => of.map((values, place) => tensorOf(values, dtypesOf[place] as DType)));
    together(calls, long);
    for (const [place, { output, dtype }] of (calls[2] as AdasumTensor[]).entries()) {
      const expected = adasumReference(vectors.map((of) => of[place] as number[]));
      near(numbersOf(output, dtype), expected, dtype === 'float16' ? 2e-3 : 1e-6);
    }
  });

  test('in place: nothing is written before the last step', () => {
    const vectors = randomVectors(4, [9, 4], 2);
    const calls = vectors.map((of) =>
      of.map((values) => {
        const input = Float32Array.from(values);
        return { dtype: 'float32' as const, input, output: input };
      }),
    );
    const before = calls.map((of) => of.map(({ input }) => [...input]));
    together(calls, long, () => {
      const now = calls.map((of) => of.map(({ input }) => [...input]));
      assert.deepEqual(now, before);
    });
    const expected = adasumReference(vectors.map((of) => of[0] as number[]));
    const [first] = calls[3] as AdasumTensor[];
    near(numbersOf(first?.output as TypedArray, 'float32'), expected, 1e-6);
  });
});

describe("Horovod's test_adasum_pytorch", () => {
  test('test_orthogonal: the sum', () => {
    for (const options of [{}, long]) {
      const vectors = Array.from({ length: 8 }, (_, member) => [
        Array.from({ length: 16 }, (_, i) => (i % 8 === member ? member + 1 : 0)),
      ]);
      const [result] = run(vectors, options);
      assert.deepEqual(
        result?.[0],
        Array.from({ length: 16 }, (_, i) => (i % 8) + 1),
      );
    }
  });

  test('test_parallel: the average', () => {
    for (const options of [{}, long]) {
      const vectors = Array.from({ length: 8 }, () => [[1, -2, 3, 4, 0.5]]);
      assert.deepEqual(run(vectors, options)[0]?.[0], [1, -2, 3, 4, 0.5]);
    }
  });

  test('test_stability: vectors whose squares vanish', () => {
    const tiny = 2 ** -126;
    for (const dtype of ['float32', 'float64'] as const) {
      for (const options of [{ dtype }, { dtype, ...long }]) {
        const vectors = randomVectors(8, [257], 6).map((of) =>
          of.map((list) => list.map((x) => x * tiny * 64)),
        );
        checkStability(vectors, options, dtype);
      }
    }
    // Squares below the least float64 leave the coefficients at 1: a plain sum.
    const [sum] = run([[[1e-90, 2e-90]], [[1e-90, 0]]], { dtype: 'float64' });
    assert.deepEqual(sum?.[0], [2e-90, 2e-90]);
  });

  test('test_stability_2: magnitudes from tiny to huge in one vector', () => {
    for (const dtype of ['float32', 'float64'] as const) {
      for (const options of [{ dtype }, { dtype, ...long }]) {
        const vectors = randomVectors(8, [513], 8).map((of) =>
          of.map((list) => list.map((x, i) => x * 10 ** ((i % 57) - 38))),
        );
        checkStability(vectors, options, dtype);
      }
    }
  });

  test('zero vectors add nothing', () => {
    for (const options of [{}, long]) {
      assert.deepEqual(run([[[0, 0]], [[3, 4]]], options)[1]?.[0], [3, 4]);
      assert.deepEqual(run([[[0, 0]], [[0, 0]]], options)[1]?.[0], [0, 0]);
    }
  });
});

describe('stages and slices', () => {
  test('irregular placements are treated as one stage', () => {
    const flat = [{ stride: 1, count: 4 }];
    for (const hostOf of [undefined, [0, 0, 0, 0], [0, 1, 2, 3], [0, 1, 0, 1], [0, 0, 0, 1], [0, 1, 1, 2]]) {
      assert.deepEqual(stagesOf(4, hostOf), flat);
    }
    assert.deepEqual(stagesOf(4, [5, 5, 1, 1]), [
      { stride: 1, count: 2 },
      { stride: 2, count: 2 },
    ]);
  });

  test('a host that comes back is no regular placement', () => {
    assert.deepEqual(stagesOf(8, [0, 0, 1, 1, 0, 0, 2, 2]), [{ stride: 1, count: 8 }]);
  });

  test('the slices of all members cover every element once', () => {
    const stages = stagesOf(8, [0, 0, 0, 0, 1, 1, 1, 1]);
    for (const elements of [0, 1, 7, 8, 1001]) {
      const slices = Array.from({ length: 8 }, (_, member) => sliceAfter(member, stages, elements));
      const covered = slices.flatMap(({ start, end }) =>
        Array.from({ length: end - start }, (_, i) => start + i),
      );
      assert.deepEqual(
        covered.sort((a, b) => a - b),
        Array.from({ length: elements }, (_, i) => i),
      );
    }
    assert.deepEqual(partyOf(6, stages[1] as (typeof stages)[0]), [2, 6]);
  });

  test('a tensor may span slices, and a slice tensors', () => {
    assert.deepEqual(segmentsOf({ start: 2, end: 9 }, [4, 0, 3, 5]), [
      { tensor: 0, from: 2, to: 4 },
      { tensor: 2, from: 0, to: 3 },
      { tensor: 3, from: 0, to: 2 },
    ]);
  });
});

/** Horovod's measure: the relative error of the whole vector, to within a hundred times the dtype's rounding. */
function checkStability(
  vectors: readonly number[][][],
  options: Options,
  dtype: 'float32' | 'float64',
): void {
  const exact = vectors.map((of) => (of[0] as number[]).map((x) => rounded(x, dtype)));
  const expected = adasumReference(exact);
  const [result] = run(
    exact.map((list) => [list]),
    options,
  );
  const epsilon = dtype === 'float32' ? 2 ** -23 : 2 ** -52;
  const [values] = result as [number[]];
  const wrong = Math.hypot(...values.map((x, i) => x - (expected[i] as number)));
  assert(wrong / Math.hypot(...expected) / 100 < epsilon, `${wrong}`);
}

/** vectors[member][tensor]; what each member has at the end. */
function run(
  vectors: readonly (readonly number[][])[],
  { dtype = 'float32', ...options }: Options = {},
  onOperation?: (operation: TransportOperation) => void,
): number[][][] {
  const calls = vectors.map((of) => of.map((values) => tensorOf(values, dtype)));
  together(calls, options, onOperation);
  return calls.map((of) => of.map(({ output }) => numbersOf(output, dtype)));
}

/** Drives the generators of all members side by side; `onOperation` hears of those of member 0. */
function together(
  calls: readonly AdasumTensor[][],
  options: Omit<Options, 'dtype'>,
  onOperation?: (operation: TransportOperation) => void,
): void {
  const size = calls.length;
  const runs = calls.map((tensors, index) =>
    adasum({ prescale: 1, postscale: 1, ...options, tensors, index, size }),
  );
  for (;;) {
    const steps = runs.map((each) => each.next());
    if (steps.every(({ done }) => done === true)) return;
    const lists = steps.map(({ value }) => value as readonly TransportOperation[]);
    (lists[0] as readonly TransportOperation[]).forEach((first, i) => {
      onOperation?.(first);
      runTogether(lists.map((list) => list[i] as TransportOperation));
    });
  }
}

function tensorOf(values: readonly number[], dtype: DType): AdasumTensor {
  const make = (): TypedArray => {
    if (dtype === 'float16') return Uint16Array.from(values, numberToFloat16);
    if (dtype === 'bfloat16') return Uint16Array.from(values, numberToBfloat16);
    return dtype === 'float64' ? Float64Array.from(values) : Float32Array.from(values);
  };
  return { dtype, input: make(), output: make() };
}

function numbersOf(array: TypedArray, dtype: DType): number[] {
  const numbers = [...(array as Float32Array)];
  if (dtype === 'float16') return numbers.map(float16ToNumber);
  return dtype === 'bfloat16' ? numbers.map(bfloat16ToNumber) : numbers;
}

function rounded(x: number, dtype: DType): number {
  return numbersOf(tensorOf([x], dtype).input, dtype)[0] as number;
}

/** Within `tolerance` of the length of the vector, or of `least`. */
function near(actual: readonly number[], expected: readonly number[], tolerance: number, least = 0): void {
  assert.equal(actual.length, expected.length);
  const length = Math.max(Math.hypot(...expected), least);
  const wrong = Math.hypot(...actual.map((x, i) => x - (expected[i] as number)));
  assert(wrong <= tolerance * length, `${wrong} of ${length}`);
}

function assertSame(results: readonly unknown[]): void {
  for (const result of results) assert.deepEqual(result, results[0]);
}

function randomVectors(size: number, lengths: readonly number[], seed: number): number[][][] {
  let state = seed >>> 0;
  const next = () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.fround(state / 2 ** 31 - 0.9);
  };
  return Array.from({ length: size }, () => lengths.map((length) => Array.from({ length }, next)));
}
