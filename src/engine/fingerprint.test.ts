import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { type DType, dtypeNames, dtypes } from '../tensor/dtype.ts';
import { Average, Max, Min, Product, Sum } from '../tensor/reduce-op.ts';
import {
  compareText,
  type Description,
  fingerprintOf,
  finishQuickFingerprint,
  hasFreeFirstDimension,
  labelOf,
  nameOf,
  quickFingerprintStart,
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
  test('the quick one equals the general one', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 2 ** 40 }),
        fc.constantFrom(...ops),
        fc.constantFrom(...dtypeNames),
        fc.oneof(fc.integer({ min: 1, max: 2 ** 35 }), shape),
        (count, op, dtype, size) => {
          const { code } = dtypes[dtype];
          const isBare = typeof size === 'number';
          const quick = new Fingerprint().number(3);
          const start = quickFingerprintStart(op.code, code, isBare ? 1 : size.length);
          finishQuickFingerprint(quick, start, isBare ? undefined : size, isBare ? size : 0, count);
          const general: Description = {
            key: unnamedKey(count),
            kind: 'allreduce',
            dtypes: [dtype],
            shapes: [typeof size === 'number' ? [size] : size],
            isGrouped: false,
            op: op.name,
            prescale: 1,
            postscale: 1,
            root: undefined,
            detail: '',
          };
          assert.equal(`${quick.low} ${quick.high}`, textOf(general));
        },
      ),
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
    const start = quickFingerprintStart(1, 7, 1);
    for (let i = 0; i < 1_000_000; i++) {
      finishQuickFingerprint(fingerprint, start, undefined, 1024, i);
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
