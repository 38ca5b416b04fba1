import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as tf from '@tensorflow/tfjs';
import fc from 'fast-check';
import type { HorovodContext } from '../../../context/context.ts';
import { topk } from '../../../tensor/compression/top-k.ts';
import { Average, type ReduceOp, Sum } from '../../../tensor/reduce-op.ts';
import { ErrorFeedback, type ErrorFeedbackState, restoreErrorFeedback, shareOf } from './error-feedback.ts';
import type { GradientRules } from './options.ts';

const sumOf = (residuals: readonly Float32Array[], i: number) =>
  residuals.reduce((sum, residual) => sum + (residual[i] as number), 0);

describe('what was kept back comes back', () => {
  const saved = fc.array(
    fc
      .array(fc.float({ min: -100, max: 100, noNaN: true }), { minLength: 3, maxLength: 3 })
      .map((list) => Float32Array.from(list)),
    { minLength: 1, maxLength: 6 },
  );

  test('on as many ranks, each gets its own', () => {
    fc.assert(
      fc.property(saved, fc.boolean(), (residuals, isMean) => {
        residuals.forEach((residual, rank) => {
          const share = shareOf(residuals, rank, residuals.length, isMean);
          assert.deepEqual(share, residual);
          assert.notEqual(share, residual, 'it is a copy');
        });
      }),
    );
  });

  test('on another number of ranks, their sum stays for Sum, and their mean for Average', () => {
    fc.assert(
      fc.property(saved, fc.integer({ min: 1, max: 6 }), fc.boolean(), (residuals, size, isMean) => {
        const shares = Array.from({ length: size }, (_, rank) => shareOf(residuals, rank, size, isMean));
        for (let i = 0; i < 3; i++) {
          const [before, after] = isMean
            ? [sumOf(residuals, i) / residuals.length, sumOf(shares, i) / size]
            : [sumOf(residuals, i), sumOf(shares, i)];
          assert.ok(Math.abs(before - after) <= 1e-3, `${before} became ${after}`);
        }
      }),
    );
  });
});

/** A context of so many ranks. */
function contextOf(size: number): HorovodContext {
  const ranks = Array.from({ length: size }, (_, rank) => rank);
  return { log: { write() {} }, membersOf: () => ({ ranks, index: 0 }) } as unknown as HorovodContext;
}

describe('in an elastic job', () => {
  const compression = topk(0.5);
  const setup = (op: ReduceOp) => {
    const feedback = new ErrorFeedback({ compression, op, what: 'test' } as GradientRules);
    const variable = tf.tidy(() => tf.variable(tf.zeros([2])));
    const residualIn = (context: HorovodContext) => {
      const { compressionMemory: memory, compressionKeys: [key] = [] } = feedback.optionsFor(context, [
        variable,
      ]);
      return memory?.of(`${compression.name}/${key}`, [2], true).residual as Float32Array;
    };
    return { feedback, variable, residualIn };
  };

  for (const [op, expected] of [
    [Average, [0.5, 1]],
    [Sum, [1, 2]],
  ] as const) {
    test(`residuals go back to the last commit, and count for ${op.name} as much as before on fewer ranks`, () => {
      const { feedback, variable, residualIn } = setup(op);
      const [four, two] = [contextOf(4), contextOf(2)];
      residualIn(four).set([1, 2]);
      feedback.save();
      residualIn(four).set([7, 8]);
      feedback.goBack();
      assert.deepEqual([...residualIn(four)], [1, 2]);
      assert.deepEqual([...residualIn(two)], expected);
      assert.deepEqual([...residualIn(two)], expected, 'scaled once');
      feedback.goBack();
      assert.deepEqual([...residualIn(two)], expected, 'the commit was of four ranks');
      feedback.save();
      feedback.goBack();
      assert.deepEqual([...residualIn(two)], expected);
      variable.dispose();
    });
  }

  test('what did not exist at the commit is gone after going back', () => {
    const { feedback, variable, residualIn } = setup(Average);
    const context = contextOf(2);
    feedback.optionsFor(context, []);
    feedback.save();
    residualIn(context).fill(3);
    feedback.goBack();
    assert.deepEqual([...residualIn(context)], [0, 0]);
    variable.dispose();
  });
});

test('of variables that are gone nothing is kept', () => {
  const compression = topk(0.5);
  const feedback = new ErrorFeedback({ compression } as GradientRules);
  const variables = [0, 1].map(() => tf.tidy(() => tf.variable(tf.zeros([4]))));
  const { compressionMemory: memory, compressionKeys: keys = [] } = feedback.optionsFor(
    contextOf(2),
    variables,
  );
  for (const key of keys) memory?.of(`${compression.name}/${key}`, [4], true);
  feedback.forgetDisposed();
  assert.equal(memory?.size, 2);
  variables[0]?.dispose();
  feedback.forgetDisposed();
  assert.deepEqual(memory?.keys(), [`${compression.name}/${keys[1]}`]);
  variables[1]?.dispose();
});

test('what is no state, or has residuals of another length than its shape, is rejected', () => {
  const tensor = { shape: [2, 2], residuals: [new Float32Array(4)], shared: {} };
  const state = { compressor: 'topk(0.5)', op: 'Average', tensors: [null, tensor] };
  const optimizer = tf.train.sgd(1);
  restoreErrorFeedback(optimizer, [], state);
  const wrong: unknown[] = [
    undefined,
    { ...state, tensors: {} },
    { ...state, tensors: [{ ...tensor, residuals: [] }] },
    { ...state, tensors: [{ ...tensor, residuals: [new Float32Array(3)] }] },
    { ...state, tensors: [{ ...tensor, shape: undefined }] },
    { ...state, tensors: [undefined] },
  ];
  for (const each of wrong) {
    assert.throws(() => restoreErrorFeedback(optimizer, [], each as ErrorFeedbackState), {
      code: 'ERR_HVD_INVALID_ARGUMENT',
    });
  }
});
