import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import type { Description, RequestKind } from '../description.ts';
import type { TrainingPosition } from '../step-clock.ts';
import { decodePendingList, encodePendingList, type PendingList } from './pending-list.ts';
import { resolvePending } from './resolve.ts';

function entry(key: string, details: Partial<Description> = {}): Description {
  return {
    key,
    kind: 'allreduce',
    dtypes: ['float32'],
    shapes: [[2]],
    isGrouped: false,
    op: 'Sum',
    prescale: 1,
    postscale: 1,
    root: undefined,
    detail: '',
    ...details,
  };
}

const join = entry('join', { kind: 'join', dtypes: [], shapes: [], op: undefined });
const free = (...requests: Description[]): PendingList => ({
  isBlocked: false,
  unnamed: 3,
  operations: 3,
  requests,
});
const blocked = (...requests: Description[]): PendingList => ({ ...free(...requests), isBlocked: true });
const having = (operations: number, list: PendingList): PendingList => ({ ...list, operations });
const at = (training: TrainingPosition, list: PendingList): PendingList => ({ ...list, training });
const keysOf = (list: readonly { key: string }[]) => list.map(({ key }) => key);

describe('resolvePending()', () => {
  const table: {
    what: string;
    lists: PendingList[];
    run?: string[];
    errors?: Record<string, string>;
    lastJoined?: number;
    deadlock?: RegExp;
  }[] = [
    {
      what: 'what all ranks have runs, in one order; the rest waits',
      lists: [free(entry('b'), entry('a'), entry('c')), free(entry('c'), entry('b'))],
      run: ['b', 'c'],
    },
    {
      what: 'unnamed ones come first, in their numerical order',
      lists: [free(entry('a'), entry('#10'), entry('#9')), free(entry('#9'), entry('a'), entry('#10'))],
      run: ['#9', '#10', 'a'],
    },
    { what: 'nothing in common and not all blocked: wait', lists: [blocked(entry('a')), free(entry('b'))] },
    {
      what: 'nothing in common and all blocked: a deadlock',
      lists: [blocked(entry('a')), blocked(entry('b'), entry('#3'))],
      deadlock:
        /rank 4 waits for allreduce "a"; rank 7 waits for allreduce "b", allreduce \(unnamed, number 3\)/,
    },
    {
      what: 'all blocked and something in common: it runs',
      lists: [blocked(entry('a'), entry('x')), blocked(entry('a'), entry('y'))],
      run: ['a'],
    },
    {
      what: 'the same name with something else in it is an error, and the others run',
      lists: [free(entry('a'), entry('b')), free(entry('a', { shapes: [[3]] }), entry('b'))],
      run: ['b'],
      errors: { a: 'ERR_HVD_MISMATCH' },
    },
    {
      what: 'what is optional is given up where not all ask for it, and is no deadlock',
      lists: [blocked(entry('t', { kind: 'autotune' })), blocked(entry('a'))],
      errors: { t: 'ERR_HVD_ABORTED' },
    },
    {
      what: 'what is optional is given up while a rank has joined, and the rest runs',
      lists: [free(join), free(entry('a'), entry('t', { kind: 'autotune' }))],
      run: ['a'],
      errors: { t: 'ERR_HVD_ABORTED' },
    },
    {
      what: 'what is optional runs where all ask for it',
      lists: [blocked(entry('t', { kind: 'autotune' })), free(entry('a'), entry('t', { kind: 'autotune' }))],
      run: ['t'],
    },
    { what: 'an empty list holds everything up', lists: [free(entry('a')), free()] },
    {
      what: 'a rank that has joined needs nothing',
      lists: [free(join), free(entry('a'), entry('b'))],
      run: ['a', 'b'],
    },
    {
      what: 'what a joined rank had asked for waits for the others',
      lists: [free(entry('a'), join), free(entry('b'))],
      run: ['b'],
    },
    {
      what: 'what a joined rank had asked for is compared too',
      lists: [free(entry('a', { op: 'Max' }), join), free(entry('a'))],
      errors: { a: 'ERR_HVD_MISMATCH' },
    },
    {
      what: 'other kinds cannot run while a rank has joined',
      lists: [free(join), free(entry('a', { kind: 'allgather' }), entry('b', { kind: 'barrier' }))],
      run: ['b'],
      errors: { a: 'ERR_HVD_JOIN_UNSUPPORTED' },
    },
    {
      what: '… unless the joined rank had asked for it as well',
      lists: [free(entry('a', { kind: 'allgather' }), join), free(entry('a', { kind: 'allgather' }))],
      run: ['a'],
    },
    {
      what: 'all joined: the last is who has taken part in most operations',
      lists: [having(9, free(join)), having(3, free(join))],
      lastJoined: 4,
    },
    { what: 'all joined after as many: the higher rank', lists: [free(join), free(join)], lastJoined: 7 },
    {
      what: 'all joined, and something is still pending: it runs',
      lists: [free(entry('a'), join), free(join, entry('b', { kind: 'broadcast', root: 7 }))],
      run: ['a'],
      errors: { b: 'ERR_HVD_JOIN_UNSUPPORTED' },
      lastJoined: 7,
    },
  ];
  for (const { what, lists, run = [], errors = {}, lastJoined, deadlock } of table) {
    test(what, () => {
      const decision = resolvePending(lists, [4, 7]);
      assert.deepEqual(keysOf(decision.run), run);
      assert.deepEqual(
        Object.fromEntries([...decision.errors].map(([key, { code }]) => [key, code])),
        errors,
      );
      assert.equal(decision.lastJoined, lastJoined);
      if (deadlock === undefined) assert.equal(decision.deadlock, undefined);
      else assert.match(decision.deadlock ?? '', deadlock);
    });
  }

  test('who joined last does not depend on clocks, which differ between hosts', () => {
    // As lists of an earlier version looked, whose host was started long before the other.
    const stamped = (submittedAtMs: number): Description => ({ ...join, submittedAtMs }) as Description;
    const lists = [having(5, free(stamped(9e9))), having(8, free(stamped(3)))];
    const { lastJoined } = resolvePending(lists, [4, 7]);
    assert.equal(lastJoined, 7);
  });

  test('a deadlock of ranks at different points of their training says which, and what to do', () => {
    const ended = { steps: 3, isInStep: false, epoch: 1, batches: 3, isEpochOver: true };
    const training = { steps: 3, isInStep: true, epoch: 1, batches: 3 };
    const lists = [
      at(ended, blocked(entry('MetricAverageCallback'))),
      at(training, blocked(entry('DistributedOptimizer.1.0'))),
      at(training, blocked(entry('DistributedOptimizer.1.0'))),
    ];
    const { deadlock, uneven } = resolvePending(lists, [0, 1, 2]);
    assert.match(
      deadlock ?? '',
      /Rank 0 ended epoch 1 after 3 batches, and ranks 1 and 2 are in batch 4 of epoch 1\. .*shardTensors\(\), or set stepsPerEpoch/,
    );
    assert.doesNotMatch(deadlock ?? '', /branches/);
    assert.equal(uneven?.isProven, true);
    // A rank that is late in its last batch is no proof.
    const late = [at(ended, blocked(entry('a'))), at({ ...training, batches: 2 }, blocked(entry('b')))];
    assert.equal(resolvePending(late, [0, 1]).uneven?.isProven, false);
    // Nor is there anything to say where all are at the same point.
    const alike = [at(training, blocked(entry('a'))), at(training, blocked(entry('b')))];
    assert.match(resolvePending(alike, [0, 1]).deadlock ?? '', /different branches/);
  });

  test('without epochs, steps are compared; the error says how a rank avoids stopping early', () => {
    const waits = (training: TrainingPosition, key: string) => at(training, blocked(entry(key)));
    const own = [
      waits({ steps: 1, isInStep: false }, 'loss'),
      waits({ steps: 1, isInStep: true }, 'gradients'),
    ];
    const text = resolvePending(own, [0, 1]).deadlock ?? '';
    assert.match(text, /Rank 0 has ended 1 step, and rank 1 is in step 2\. .*join\(\)/);
    const stopped = { steps: 6, isInStep: false, epoch: 2, batches: 3, isEpochOver: true, isOver: true };
    const early = [
      waits(stopped, 'accuracy'),
      waits({ steps: 6, isInStep: true, epoch: 3, batches: 0 }, 'gradients'),
    ];
    assert.match(
      resolvePending(early, [0, 1]).deadlock ?? '',
      /Rank 0 ended training with epoch 2, and rank 1 is in batch 1 of epoch 3\. .*MetricAverageCallback before EarlyStopping/,
    );
    const sameEpoch = { steps: 6, isInStep: true, epoch: 2, batches: 3 };
    const uneven = [waits(stopped, 'accuracy'), waits(sameEpoch, 'gradients')];
    assert.match(
      resolvePending(uneven, [0, 1]).deadlock ?? '',
      /with epoch 2, .* the same number of batches/,
    );
  });

  test('the order in which ranks list things changes nothing', () => {
    const lists = fc.array(
      fc.record({
        isBlocked: fc.boolean(),
        requests: fc.uniqueArray(
          fc.record({
            key: fc.constantFrom('a', 'b', 'c', '#1', '#2', '#10'),
            kind: fc.constantFrom<RequestKind>('allreduce', 'allgather', 'join'),
          }),
          { selector: ({ key }) => key },
        ),
      }),
      { minLength: 1, maxLength: 4 },
    );
    const toList = ({
      isBlocked,
      requests,
    }: {
      isBlocked: boolean;
      requests: Parameters<typeof toEntry>[0][];
    }) => ({
      isBlocked,
      unnamed: 0,
      operations: 0,
      requests: requests.map(toEntry),
    });
    const toEntry = ({ key, kind }: { key: string; kind: RequestKind }) => entry(key, { kind });
    fc.assert(
      fc.property(lists, (made) => {
        const forward = made.map(toList);
        const backward = forward.map(({ isBlocked, requests }) => ({
          isBlocked,
          unnamed: 0,
          operations: 0,
          requests: [...requests].reverse(),
        }));
        const ranks = made.map((_, i) => i);
        const [a, b] = [resolvePending(forward, ranks), resolvePending(backward, ranks)];
        assert.deepEqual(keysOf(a.run), keysOf(b.run));
        assert.deepEqual(a.errors, b.errors);
        // Nothing runs that a rank which has not joined lacks.
        for (const { key } of a.run) {
          for (const { requests } of forward) {
            assert.ok(requests.some((each) => each.key === key || each.kind === 'join'));
          }
        }
      }),
    );
  });
});

describe('pending lists', () => {
  test('travel as they are', () => {
    const list = at(
      { steps: 7, isInStep: true, epoch: 2, batches: 3, isEpochOver: false },
      free(entry('é "quoted"\n', { root: 3, shapes: [[0, 7]], prescale: 0.1, detail: 'fp16' })),
    );
    assert.deepEqual(decodePendingList(encodePendingList(list), 0), list);
  });

  for (const [what, text] of [
    ['no JSON', 'hello'],
    ['half a list', '{"isBlocked":tr'],
    ['something else', '[1,2]'],
    ['null', 'null'],
    ['no count', JSON.stringify({ isBlocked: true, requests: [] })],
    ['no count of operations', JSON.stringify({ isBlocked: true, unnamed: 1, requests: [] })],
    ['an odd position', JSON.stringify(at({ steps: 'many' as never, isInStep: true }, free()))],
    ['an unknown kind', JSON.stringify(free(entry('a', { kind: 'evil' as never })))],
    ['an unknown dtype', JSON.stringify(free(entry('a', { dtypes: ['toString' as never] })))],
    ['a shape of texts', JSON.stringify(free(entry('a', { shapes: [['2' as never]] })))],
    ['as many shapes as it likes', JSON.stringify(free(entry('a', { shapes: [[1], [2]] })))],
  ] as [string, string][]) {
    test(`${what} is refused with the name of its sender`, () => {
      assert.throws(() => decodePendingList(Buffer.from(text), 6), {
        code: 'ERR_HVD_NATIVE',
        rank: 6,
        message: /rank 6 sent a list of pending operations that cannot be read/,
      });
    });
  }
});
