// The ledger under faults: workers, consumers and the dispatcher as a simulation without time, in which messages are late and
// come twice, connections break, and workers freeze, are given up and come back. Whatever happens, each batch of an epoch is
// taken once, and all consumers take the same number.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { Simulation } from '../../../test/support/ledger-simulation.ts';
import { openLedger, reduce } from './ledger.ts';
import type { LedgerEvent, LedgerMessage, LedgerOptions, LedgerState } from './ledger-state.ts';

const options = (given: Partial<LedgerOptions> = {}): LedgerOptions => ({
  consumers: 2,
  lengths: [3, 3],
  uneven: 'pad',
  isRoundRobin: false,
  leaseBatches: 2,
  depth: 2,
  ...given,
});

/** Applies events one after another; `sent` are the messages of the last one. */
class Table {
  state: LedgerState;
  sent: readonly LedgerMessage[] = [];

  constructor(given: Partial<LedgerOptions> = {}) {
    this.state = openLedger(options(given));
    for (let consumer = 0; consumer < this.state.options.consumers; consumer++)
      this.on({ kind: 'consumer', consumer, isHere: true });
  }

  on(event: LedgerEvent): this {
    [this.state, this.sent] = reduce(this.state, event);
    return this;
  }

  of<K extends LedgerMessage['kind']>(kind: K): Extract<LedgerMessage, { kind: K }>[] {
    return this.sent.filter(
      (message): message is Extract<LedgerMessage, { kind: K }> => message.kind === kind,
    );
  }
}

const batch = (group: number, ordinal: number, epoch = 0) => ({ epoch, group, ordinal });

const leasesOf = (table: Table, group: number) =>
  table.of('lease').flatMap((each) => (each.group === group ? [[each.from, each.to]] : []));

describe('one event after another', () => {
  test('a worker with room gets leases, of one group as long as it can; what it has made is sent, claimed and granted once', () => {
    const table = new Table().on({ kind: 'room', worker: 7, room: 4 });
    const leases = table.of('lease');
    assert.deepEqual(
      leases.map(({ lease, group, from, to }) => [lease, group, from, to]),
      [
        [1, 0, 0, 2],
        [2, 0, 2, 3],
        [3, 1, 0, 1],
      ],
    );
    const [first] = table.on({ kind: 'made', worker: 7, lease: 1, id: batch(0, 0) }).of('send');
    assert.equal(first?.consumer, 0);
    table.on({ kind: 'claim', consumer: 0, era: 1, id: batch(0, 0) });
    assert.equal(table.of('granted')[0]?.consumer, 0);
    assert.deepEqual(table.of('release')[0]?.id, batch(0, 0));
    // Again, and by another consumer.
    assert.equal(table.on({ kind: 'claim', consumer: 0, era: 1, id: batch(0, 0) }).of('granted').length, 1);
    assert.equal(table.on({ kind: 'claim', consumer: 1, era: 1, id: batch(0, 0) }).of('denied').length, 1);
  });

  test('what a lost worker has made and nobody was granted is made again elsewhere; what was granted is not', () => {
    const table = new Table({ lengths: [3] }).on({ kind: 'room', worker: 1, room: 2 });
    for (const ordinal of [0, 1]) table.on({ kind: 'made', worker: 1, lease: 1, id: batch(0, ordinal) });
    table.on({ kind: 'claim', consumer: 0, era: 1, id: batch(0, 0) });
    table.on({ kind: 'worker-lost', worker: 1 }).on({ kind: 'room', worker: 2, room: 9 });
    assert.deepEqual(leasesOf(table, 0), [[1, 3]]);
    // The first one thaws, and has delivered its batch before the second has made it.
    table.on({ kind: 'claim', consumer: 1, era: 1, id: batch(0, 1) });
    assert.equal(table.of('granted').length, 1);
    assert.equal(table.of('revoke')[0]?.worker, 2);
    table.on({ kind: 'made', worker: 2, lease: 2, id: batch(0, 1) });
    assert.deepEqual(table.of('release')[0], { kind: 'release', worker: 2, lease: 2, id: batch(0, 1) });
  });

  test('a lost consumer keeps what it was granted; after a restore() of the others it is refused', () => {
    const table = new Table({ lengths: [4] }).on({ kind: 'room', worker: 1, room: 4 });
    for (const [lease, ordinal] of [
      [1, 0],
      [1, 1],
      [2, 2],
    ] as const)
      table.on({ kind: 'made', worker: 1, lease, id: batch(0, ordinal) });
    table.on({ kind: 'claim', consumer: 1, era: 1, id: batch(0, 1) });
    table.on({ kind: 'consumer', consumer: 1, isHere: false });
    assert.equal(table.on({ kind: 'claim', consumer: 0, era: 1, id: batch(0, 1) }).of('denied').length, 1);
    const cut = { epoch: 0, done: [[[0, 1]] as const] };
    table.on({ kind: 'restore', consumer: 0, attempt: 1, consumers: 1, cut });
    assert.deepEqual(table.of('restored'), [{ kind: 'restored', consumer: 0, era: 2, attempt: 1, cut }]);
    assert.deepEqual(table.of('revoke'), [{ kind: 'revoke', worker: 1, lease: null }]);
    assert.deepEqual(leasesOf(table, 0), [
      [1, 3],
      [3, 4],
    ]);
    table.on({ kind: 'taken', consumer: 1, era: 1, ids: [batch(0, 1)] });
    assert.deepEqual(table.state.groups[0]?.taken, [[0, 1]]);
    assert.equal(table.on({ kind: 'claim', consumer: 1, era: 1, id: batch(0, 2) }).of('denied').length, 1);
  });

  test('consumers that restore different states are told so; a later attempt replaces an earlier one', () => {
    const table = new Table();
    const cut = { epoch: 1, done: [[], []] };
    table.on({ kind: 'restore', consumer: 0, attempt: 1, consumers: 2, cut });
    table.on({ kind: 'restore', consumer: 1, attempt: 1, consumers: 2, cut: { ...cut, epoch: 2 } });
    assert.match(table.of('rejected')[0]?.reason ?? '', /different states/);
    table.on({ kind: 'restore', consumer: 0, attempt: 2, consumers: 1, cut });
    assert.equal(table.of('restored').length, 1);
    assert.match(
      table.on({ kind: 'restore', consumer: 1, attempt: 1, consumers: 2, cut }).of('rejected')[0]?.reason ??
        '',
      /another restore/,
    );
    const foreign = { epoch: 0, done: [[]] };
    table.on({ kind: 'restore', consumer: 0, attempt: 3, consumers: 1, cut: foreign });
    assert.match(table.of('rejected')[0]?.reason ?? '', /1 groups of batches, and this job has 2/);
  });

  test('a mark gives the cut of one step, without what was taken behind it', () => {
    const table = new Table({ lengths: [4], depth: 4 }).on({ kind: 'room', worker: 1, room: 4 });
    for (const [lease, ordinal] of [
      [1, 0],
      [1, 1],
      [2, 2],
      [2, 3],
    ] as const)
      table.on({ kind: 'made', worker: 1, lease, id: batch(0, ordinal) });
    for (const ordinal of [0, 1, 2, 3])
      table.on({ kind: 'claim', consumer: ordinal % 2, era: 1, id: batch(0, ordinal) });
    table.on({ kind: 'taken', consumer: 0, era: 1, ids: [batch(0, 0)] });
    table.on({ kind: 'mark', consumer: 0, era: 1, number: 1 });
    table.on({ kind: 'taken', consumer: 0, era: 1, ids: [batch(0, 2)] });
    table.on({ kind: 'taken', consumer: 1, era: 1, ids: [batch(0, 1)] });
    table.on({ kind: 'mark', consumer: 1, era: 1, number: 1 });
    const cuts = table.of('cut').map(({ cut }) => cut);
    assert.deepEqual(cuts, Array(2).fill({ epoch: 0, done: [[[0, 2]]] }));
    // One that has not heard it asks again.
    assert.equal(table.on({ kind: 'mark', consumer: 1, era: 1, number: 1 }).of('cut').length, 1);
  });

  test('a new incarnation grants nothing before every consumer has answered, and nothing twice', () => {
    const state = openLedger(options({ lengths: [3] }), null, 2);
    const table = new Table();
    table.state = state;
    for (const consumer of [0, 1]) table.on({ kind: 'consumer', consumer, isHere: true });
    assert.equal(table.on({ kind: 'room', worker: 1, room: 3 }).of('lease').length, 0);
    const { cut } = state;
    const granted = [batch(0, 0)];
    table.on({ kind: 'report', consumer: 0, era: 1, attempt: 0, cut, epoch: 0, granted, taken: granted });
    assert.deepEqual(table.on({ kind: 'claim', consumer: 0, era: 1, id: batch(0, 1) }).sent, []);
    table.on({
      kind: 'report',
      consumer: 1,
      era: 1,
      attempt: 0,
      cut,
      epoch: 0,
      granted: [batch(0, 1)],
      taken: [],
    });
    assert.equal(table.of('opened').length, 2);
    assert.deepEqual(leasesOf(table, 0), [[2, 3]]);
    assert.equal(table.on({ kind: 'claim', consumer: 0, era: 1, id: batch(0, 1) }).of('denied').length, 1);
  });

  test('groups whose length a filter hides end when the worker says so, and the rest is filled up', () => {
    const table = new Table({ lengths: [null], leaseBatches: 4 }).on({ kind: 'room', worker: 1, room: 8 });
    table.on({ kind: 'made', worker: 1, lease: 1, id: batch(0, 0), behind: { position: 40 } });
    table.on({ kind: 'worker-lost', worker: 1 }).on({ kind: 'room', worker: 2, room: 8 });
    assert.deepEqual(
      table.of('lease').map(({ from, to, start }) => [from, to, start]),
      [[0, 4, undefined]],
    );
    table.on({ kind: 'made', worker: 2, lease: 2, id: batch(0, 0), behind: { position: 40 } });
    table.on({ kind: 'group-ended', worker: 2, lease: 2, length: 1 });
    assert.deepEqual(table.state.quota, { perConsumer: 1, full: 2, repeats: 1 });
    assert.deepEqual(
      table.of('lease').map(({ group, from, to }) => [group, from, to]),
      [[1, 0, 1]],
    );
  });
});

describe('any sequence of faults', () => {
  const runs = fc.record({
    seed: fc.integer(),
    consumers: fc.integer({ min: 1, max: 4 }),
    workers: fc.integer({ min: 1, max: 4 }),
    // At least one batch for each of 4 consumers: the dispatcher rejects jobs with less.
    lengths: fc
      .array(fc.integer({ min: 0, max: 7 }), { minLength: 1, maxLength: 5 })
      .map((list) => [4, ...list]),
    leaseBatches: fc.integer({ min: 1, max: 4 }),
    depth: fc.integer({ min: 1, max: 3 }),
    uneven: fc.constantFrom('pad', 'drop', 'keep', 'exact'),
  });

  for (const [name, kind] of [
    ['first come, first served', { isRoundRobin: false, isCounted: true }],
    ['round robin', { isRoundRobin: true, isCounted: true }],
    ['lengths that a filter hides', { isRoundRobin: false, isCounted: false }],
  ] as const) {
    test(`${name}: each batch once per epoch, the same number for each consumer`, () => {
      fc.assert(
        fc.property(runs, (run) => {
          const simulation = new Simulation({ ...run, ...kind });
          simulation.disturb(300);
          simulation.finish(3);
        }),
        { seed: 1, numRuns: 60 },
      );
    });
  }
});
