import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { DType, TypedArray } from '../../tensor/dtype.ts';
import { Max, type ReduceOp, Sum } from '../../tensor/reduce-op.ts';
import type { AllreduceOperation, TransportOperation } from '../../transport/transport.ts';
import type { Request } from '../request.ts';
import { planRounds } from './plan-rounds.ts';

const allreduce = (
  length: number,
  {
    op = Sum,
    prescale = 1,
    dtype = 'float32' as DType,
  }: { op?: ReduceOp; prescale?: number; dtype?: DType } = {},
): AllreduceOperation => {
  const array = dtype === 'float32' ? new Float32Array(length) : new Int32Array(length);
  return { kind: 'allreduce', dtype, op, inputs: [array], outputs: [array], prescale, postscale: 1 };
};

let made = 0;
function request(...operations: TransportOperation[]): Request {
  made++;
  return {
    description: {
      key: `r${made}`,
      kind: 'allreduce',
      dtypes: [],
      shapes: [],
      isGrouped: false,
      op: 'Sum',
      prescale: 1,
      postscale: 1,
      root: undefined,
      detail: '',
    },
    low: made * 7919,
    high: -made,
    operations,
    timeoutMs: 1000,
    submittedAtMs: 0,
    isSettled: false,
    resolve() {},
    reject() {},
  };
}

const lengthsOf = (operation: TransportOperation) =>
  operation.kind === 'allreduce' ? operation.inputs.map((input: TypedArray) => input.length) : operation.kind;
const plan = (requests: Request[], threshold = 1000) =>
  planRounds(requests, threshold).map(({ operation }) => lengthsOf(operation));

describe('planRounds()', () => {
  test('allreduces of one kind become one operation', () => {
    assert.deepEqual(plan([request(allreduce(1)), request(allreduce(2)), request(allreduce(3))]), [
      [1, 2, 3],
    ]);
  });

  test('up to the threshold, and a larger one alone', () => {
    const requests = [10, 10, 10, 500, 1].map((length) => request(allreduce(length)));
    assert.deepEqual(plan(requests, 80), [[10, 10], [10], [500], [1]]);
    assert.deepEqual(plan(requests, 0), [[10], [10], [10], [500], [1]]);
  });

  test('another operator, dtype or scale is another operation; others may lie between', () => {
    const requests = [
      request(allreduce(1)),
      request(allreduce(2, { op: Max })),
      request(allreduce(3, { dtype: 'int32' })),
      request(allreduce(4, { prescale: 0.5 })),
      request(allreduce(5)),
    ];
    assert.deepEqual(plan(requests), [[1, 5], [2], [3], [4]]);
  });

  test('what travels as halves goes together, counted by what travels, and apart from what does not', () => {
    const halves = (length: number): AllreduceOperation => ({ ...allreduce(length), wire: 'float16' });
    const requests = [
      halves(20),
      allreduce(1),
      halves(20),
      halves(1),
      { ...allreduce(2), wire: 'bfloat16' } as const,
    ];
    assert.deepEqual(
      plan(
        requests.map((operation) => request(operation)),
        80,
      ),
      [[20, 20], [1], [1], [2]],
    );
  });

  test('everything else is a round of its own, in the order given', () => {
    const requests = [
      request({ kind: 'barrier' }),
      request(allreduce(1)),
      request({ kind: 'barrier' }),
      request(allreduce(2)),
    ];
    assert.deepEqual(plan(requests), ['barrier', [1, 2], 'barrier']);
  });

  test('a request without operations is still a round to meet in', () => {
    assert.deepEqual(plan([request()]), ['barrier']);
    assert.deepEqual(plan([]), []);
  });

  test('inputs and outputs stay together', () => {
    const requests = Array.from({ length: 5 }, (_, i) => {
      const [input, output] = [new Float32Array(i), new Float32Array(i)];
      return request({ ...allreduce(0), inputs: [input], outputs: [output] });
    });
    const [round] = planRounds(requests, 1000);
    const operation = round?.operation as AllreduceOperation;
    const given = requests.flatMap(({ operations }) => operations) as AllreduceOperation[];
    assert.deepEqual(
      operation.inputs,
      given.flatMap(({ inputs }) => inputs),
    );
    given.forEach(({ inputs, outputs }, i) => {
      assert.equal(operation.inputs[i], inputs[0]);
      assert.equal(operation.outputs[i], outputs[0]);
    });
  });

  test('the first fingerprint is that of the batch, later ones differ from it and each other', () => {
    const [a, b] = [request(allreduce(1)), request({ kind: 'barrier' }, { kind: 'barrier' })];
    const texts = (requests: Request[]) =>
      planRounds(requests, 0).map(
        ({ fingerprintLow, fingerprintHigh }) => `${fingerprintLow} ${fingerprintHigh}`,
      );
    assert.deepEqual(texts([a]), [`${a.low >>> 0} ${a.high >>> 0}`]);
    const batch = texts([a, b]);
    assert.equal(new Set(batch).size, 3);
    assert.deepEqual(batch, texts([a, b]));
    assert.notEqual(texts([b, a])[0], batch[0]);
    assert.notEqual(texts([a, a])[0], batch[0]);
  });
});
