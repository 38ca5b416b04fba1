import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { type DType, dtypeNames, dtypes } from '../tensor/dtype.ts';
import { Average, Max, Min, Product, Sum } from '../tensor/reduce-op.ts';
import {
  compareText,
  type Description,
  fingerprintBeforeKey,
  fingerprintOf,
  finishUnnamedFingerprint,
  hasFreeFirstDimension,
  labelOf,
  nameOf,
  requestKinds,
  unnamedKey,
} from './description.ts';
import { Fingerprint } from './fingerprint.ts';

const ops = [Average, Sum, Min, Max, Product];
const shape = fc.array(fc.oneof(fc.nat(5), fc.nat(2 ** 40)), { maxLength: 4 });
const factor = fc.oneof(fc.constant(1), fc.double({ noNaN: true, noDefaultInfinity: true }), fc.integer());
const description: fc.Arbitrary<Description> = fc
  .record({
    key: fc.oneof(
      fc.string({ minLength: 1 }),
      fc.nat(99).map((count) => unnamedKey(count + 1)),
    ),
    kind: fc.constantFrom(...requestKinds),
    tensors: fc.array(fc.tuple(fc.constantFrom(...dtypeNames), shape), { maxLength: 3 }),
    isGrouped: fc.boolean(),
    op: fc.constantFrom(...ops.map(({ name }) => name)),
    prescale: factor,
    postscale: factor,
    root: fc.option(fc.nat(9), { nil: undefined }),
    detail: fc.oneof(fc.constant(''), fc.string({ maxLength: 5 })),
  })
  .filter(({ key }) => !/^#(?!\d+$)/.test(key))
  .map(({ tensors, ...rest }) => ({
    ...rest,
    dtypes: tensors.map(([dtype]) => dtype),
    shapes: tensors.map(([, each]) => each),
    // A single tensor is not a group; only a group may have another number.
    isGrouped: rest.isGrouped || tensors.length !== 1,
  }));

function textOf(each: Description): string {
  const codes = each.dtypes.map((dtype: DType) => dtypes[dtype].code);
  const op = ops.find(({ name }) => name === each.op);
  const { low, high } = fingerprintOf(each, op?.code ?? -1, codes);
  return `${low} ${high}`;
}

/** What two ranks must have in common. */
function essence(each: Description): string {
  const from = hasFreeFirstDimension(each.kind) ? 1 : 0;
  const shapes = each.shapes.map((dims) => [dims.length, ...dims.slice(from)]);
  return JSON.stringify([{ ...each, prescale: each.prescale + 0, postscale: each.postscale + 0, shapes }]);
}

describe('fingerprints', () => {
  test('of a compiled operation equals the general one', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 2 ** 40 }), description, (count, each) => {
        const codes = each.dtypes.map((dtype: DType) => dtypes[dtype].code);
        const op = ops.find(({ name }) => name === each.op);
        const quick = new Fingerprint().number(3);
        finishUnnamedFingerprint(quick, fingerprintBeforeKey(each, op?.code ?? -1, codes), count);
        assert.equal(`${quick.low} ${quick.high}`, textOf({ ...each, key: unnamedKey(count) }));
      }),
    );
  });

  test('are equal for equal requests and differ for different ones', () => {
    fc.assert(
      fc.property(description, description, (a, b) => {
        assert.equal(textOf(a), textOf(structuredClone(a)));
        if (essence(a) === essence(b)) assert.equal(textOf(a), textOf(b));
        else assert.notEqual(textOf(a), textOf(b));
      }),
      { numRuns: 2000 },
    );
  });

  test('differ when any one thing differs', () => {
    const changes: ((each: Description) => Description)[] = [
      (each) => ({ ...each, key: each.key.startsWith('#') ? `${each.key}0` : `${each.key}.` }),
      (each) => ({ ...each, prescale: each.prescale === 3 ? 4 : 3 }),
      (each) => ({
        ...each,
        postscale: each.postscale + 1e-9 === each.postscale ? 1 / 3 : each.postscale + 1e-9,
      }),
      (each) => ({ ...each, root: (each.root ?? -1) + 1 }),
      (each) => ({ ...each, detail: `${each.detail}x` }),
      (each) => ({ ...each, op: each.op === 'Sum' ? 'Min' : 'Sum' }),
      (each) => ({
        ...each,
        shapes: [...each.shapes, [1]],
        dtypes: [...each.dtypes, 'int8'],
        isGrouped: true,
      }),
      (each) => ({ ...each, kind: each.kind === 'barrier' ? 'broadcast' : 'barrier' }),
    ];
    fc.assert(
      fc.property(description, fc.constantFrom(...changes), (each, change) => {
        const other = change(each);
        assert.notEqual(textOf(each), textOf(other));
      }),
    );
  });

  test('of a million consecutive numbers are all different', () => {
    const seen = new Set<number>();
    const fingerprint = new Fingerprint();
    const plain = { kind: 'allreduce', dtypes: ['float32'], shapes: [[1024]], isGrouped: false } as const;
    const rest = { op: 'Sum', prescale: 1, postscale: 1, root: undefined, detail: '' };
    const start = fingerprintBeforeKey({ ...plain, ...rest }, Sum.code, [dtypes.float32.code]);
    for (let i = 0; i < 1_000_000; i++) {
      finishUnnamedFingerprint(fingerprint, start, i);
      const { low, high } = fingerprint;
      seen.add((high >>> 0) * 2 ** 21 + ((low >>> 0) & (2 ** 21 - 1)));
    }
    assert.equal(seen.size, 1_000_000);
  });
});

describe('names of requests', () => {
  test('unnamed ones come first in numerical order, then names by code unit', () => {
    const sorted = ['#1', '#2', '#10', 'B', 'a', 'é'];
    assert.deepEqual([...sorted].reverse().sort(compareText), sorted);
  });

  test('as errors and flight records show them', () => {
    assert.equal(labelOf({ key: 'grad', kind: 'allreduce' }), 'allreduce "grad"');
    assert.equal(labelOf({ key: '#3', kind: 'barrier' }), 'barrier (unnamed, number 3)');
    assert.equal(nameOf({ key: '#3', kind: 'barrier' }), 'barrier.noname.3');
    assert.equal(nameOf({ key: 'grad', kind: 'allreduce' }), 'grad');
  });
});
