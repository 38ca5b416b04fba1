// Orders to record, as ranks carry them out: on the control block of a host, with timelines that only note what they are told.

import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { ControlBlock } from '../../control/control-block.ts';
import { HorovodError } from '../../errors.ts';
import { RecordOrders, recordProgress, writeRecordOrder } from './record-order.ts';
import { setCollecting } from './ring-registry.ts';

const log = { write: () => undefined, tell: () => undefined };
const settled = () => new Promise((resolve) => setImmediate(resolve));

function open(t: TestContext) {
  const block = ControlBlock.create(2);
  t.after(() => block.close());
  block.attach(0);
  const told: string[] = [];
  const rankOf = (rank: number, start: () => Promise<void> = async () => undefined) => {
    const timeline = {
      async start(file: string) {
        await start();
        told.push(`${rank} starts ${file}`);
      },
      async stop() {
        told.push(`${rank} stops`);
      },
    };
    return new RecordOrders({ rank, timeline, log, controlFd: block.fd });
  };
  /** Every step takes half a second. */
  const step = async (orders: RecordOrders, number: number) => {
    orders.step({ step: number, samples: undefined, totalSamples: 0, atMs: 500 * number });
    await settled();
  };
  return { block, told, rankOf, step };
}

test('a rank starts its timeline after a step, and stops it when that many whole steps were collected', async (t) => {
  const { block, told, rankOf, step } = open(t);
  const orders = rankOf(0);
  await step(orders, 1);
  assert.equal(recordProgress(block.fd, 1), 'none');
  writeRecordOrder(block.fd, { number: 1, steps: 2, file: '/tmp/a.json' });
  await step(orders, 2);
  assert.deepEqual(told, ['0 starts /tmp/a.json']);
  assert.equal(recordProgress(block.fd, 1), 'begun');
  for (const number of [3, 4, 5, 6, 7]) await step(orders, number);
  assert.deepEqual(told.length, 1, 'nobody collects yet');
  setCollecting(block.fd, 'collector', 5);
  for (const number of [8, 9, 10]) await step(orders, number);
  assert.equal(told.length, 1);
  await step(orders, 11);
  assert.deepEqual(told, ['0 starts /tmp/a.json', '0 stops']);
  assert.equal(recordProgress(block.fd, 1), 'done');
  await step(orders, 20);
  assert.equal(told.length, 2, 'each order is for once');
  writeRecordOrder(block.fd, { number: 2, steps: 1, file: '/tmp/b.json' });
  await step(orders, 21);
  assert.equal(recordProgress(block.fd, 1), 'none');
  assert.equal(recordProgress(block.fd, 2), 'begun');
});

test('only rank 0 says how far it is, and a rank that comes later does not take an old order', async (t) => {
  const { block, told, rankOf, step } = open(t);
  const second = rankOf(1);
  writeRecordOrder(block.fd, { number: 1, steps: 2, file: '/tmp/a.json' });
  await step(second, 1);
  assert.deepEqual(told, ['1 starts /tmp/a.json']);
  assert.equal(recordProgress(block.fd, 1), 'none');
  await step(rankOf(0), 1);
  assert.equal(told.length, 1);
});

test('a timeline that cannot start is said, and training goes on', async (t) => {
  const { block, rankOf, step } = open(t);
  const orders = rankOf(0, async () => {
    throw new HorovodError('ERR_HVD_TIMELINE', 'a timeline is running already.');
  });
  writeRecordOrder(block.fd, { number: 1, steps: 2, file: '/tmp/a.json' });
  await step(orders, 1);
  assert.equal(recordProgress(block.fd, 1), 'failed');
  await step(orders, 2);
});
