import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { ServiceStatus } from '../../data/service/registry-messages.ts';
import { renderService } from './service-table.ts';

const worker = { dispatcher: 0, addresses: ['10.0.0.1:4000'], host: 'cpu-node-1', pid: 11 };
const dispatcher = {
  index: 0,
  incarnation: 1,
  addresses: ['10.0.0.1:4001'],
  side: 'compute',
  host: 'cpu-node-1',
  pid: 11,
  isAlive: true,
} as const;
const status: ServiceStatus = {
  host: 'cpu-node-1',
  pid: 11,
  startedAt: 0,
  expected: { dispatchers: 1, workersPerDispatcher: 2 },
  dispatcherSide: 'compute',
  isShutDown: false,
  dispatchers: [
    { ...dispatcher, report: { jobs: [{ name: 'job', epoch: 3, done: 0.61, starved: [0.01, 0.04] }] } },
  ],
  workers: [
    {
      ...worker,
      number: 0,
      report: {
        batchesPerSecond: 41,
        bytesPerSecond: 246e6,
        leases: 3,
        arena: 0.62,
        busiestStage: { name: 'map augment', share: 0.71 },
      },
    },
    { ...worker, number: 1, host: 'cpu-node-2', pid: 7 },
  ],
};

describe('the table of a data service', () => {
  test('has a headline with the job, and a line for each worker', () => {
    assert.equal(
      renderService(status),
      [
        'data service of cpu-node-1 · 1 dispatcher · 2 workers · job "job" epoch 3, 61 % · 2 trainers, starved 1 %, 4 %',
        'worker  host        pid  batches/s  MB/s  leases  arena  busiest stage',
        '0 D     cpu-node-1   11       41.0   246       3   62 %  map augment 71 %',
        '1       cpu-node-2    7',
        '',
      ].join('\n'),
    );
  });

  test('has a line for each of several jobs, and says what is missing', () => {
    const jobs = [
      { name: 'a', epoch: 0, starved: [null] },
      { name: 'b', epoch: 1, done: 1, starved: [] },
    ];
    const text = renderService({
      ...status,
      expected: { dispatchers: 2, workersPerDispatcher: 2 },
      isShutDown: true,
      dispatchers: [{ ...dispatcher, report: { jobs } }],
      workers: [],
    });
    assert.equal(
      text,
      [
        'data service of cpu-node-1 · 1 dispatcher of 2 · 0 workers of 4 · shutting down',
        'job "a" epoch 0 · 1 trainer',
        'job "b" epoch 1, 100 % · 0 trainers',
        '',
      ].join('\n'),
    );
  });

  test('shows no report that is none, and nothing that moves a cursor', () => {
    const odd = { jobs: [{ name: '\x1b[2J', epoch: 'x', starved: 7 }, null] } as never;
    const report = {
      batchesPerSecond: '\x1b',
      arena: null,
      busiestStage: { name: '\x1b[1m', share: '' },
    } as never;
    const text = renderService({
      ...status,
      dispatchers: [{ ...dispatcher, report: odd }],
      workers: [{ ...worker, number: 0, report }],
    });
    assert.ok(!text.includes('\x1b'), JSON.stringify(text));
    assert.match(text, /job ".*" epoch {2}· 0 trainers/);
  });
});
