// What run() of horovod/ray asks of Ray, and what it says when Ray does not have it.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { describeShortage, shortageOf } from './ray-places.ts';
import { run } from './run.ts';
import { shapeOf } from './start-ray-run.ts';

const cluster = {
  nodes: 2,
  perNode: [
    [4, 0],
    [2, 1],
  ] as const,
};

describe('the shape of a job', () => {
  test('workers, or hosts with workers on each', () => {
    const each = { cpusPerWorker: 1, gpusPerWorker: 0, elastic: undefined };
    assert.deepEqual(shapeOf({}), { ...each, count: 1, perHost: undefined });
    assert.deepEqual(shapeOf({ numWorkers: 3, cpusPerWorker: 0.5, gpusPerWorker: 1 }), {
      count: 3,
      perHost: undefined,
      cpusPerWorker: 0.5,
      gpusPerWorker: 1,
      elastic: undefined,
    });
    assert.deepEqual(shapeOf({ numHosts: 2, workersPerHost: 4 }), { ...each, count: 8, perHost: 4 });
    assert.deepEqual(shapeOf({ numWorkers: 2, minWorkers: 1, maxWorkers: 4 }), {
      ...each,
      count: 2,
      perHost: undefined,
      elastic: { max: 4 },
    });
  });

  test('what does not fit together is rejected', () => {
    for (const [options, message] of [
      [{ numHosts: 2 }, /belong together/],
      [{ numHosts: 2, workersPerHost: 2, numWorkers: 3 }, /numHosts × workersPerHost is 4/],
      [{ numHosts: 1, workersPerHost: 2, minWorkers: 1 }, /Give numWorkers, not numHosts/],
      [{ maxWorkers: 2 }, /Add minWorkers/],
      [{ minWorkers: 3, maxWorkers: 2 }, /maxWorkers is 2, and minWorkers is 3/],
      [{ numWorkers: 0 }, /numWorkers is 0; expected an integer ≥ 1/],
      [{ gpusPerWorker: -1 }, /gpusPerWorker is -1/],
    ] as const) {
      assert.throws(() => shapeOf(options), { code: 'ERR_HVD_SETTING', message });
    }
  });
});

describe('resources', () => {
  const lacks = (options: Parameters<typeof shapeOf>[0]) => shortageOf(shapeOf(options), cluster);

  test('room is counted node by node', () => {
    assert.equal(lacks({ numWorkers: 6 }), undefined);
    assert.equal(lacks({ numWorkers: 7 }), 'there is room for 6');
    assert.equal(lacks({ numWorkers: 3, cpusPerWorker: 2 }), undefined);
    assert.equal(lacks({ numWorkers: 2, cpusPerWorker: 3 }), 'there is room for 1');
    assert.equal(lacks({ numWorkers: 2, gpusPerWorker: 1 }), 'there is room for 1');
    assert.equal(lacks({ numWorkers: 2, gpusPerWorker: 0.5 }), undefined);
    assert.equal(lacks({ numHosts: 2, workersPerHost: 2 }), undefined);
    assert.equal(lacks({ numHosts: 2, workersPerHost: 3 }), 'there is room for 3');
  });

  test('the text says what the job needs and what there is', () => {
    assert.equal(
      describeShortage(shapeOf({ numHosts: 2, workersPerHost: 3 }), cluster),
      'The job needs 6 places of 1 CPU, 3 on each of 2 nodes, and Ray has 2 nodes (4 CPUs, 0 GPUs; 2 CPUs, 1 GPU): ' +
        'there is room for 3. Start fewer workers, lower cpusPerWorker or gpusPerWorker, or add nodes.',
    );
    assert.match(describeShortage(shapeOf({ numWorkers: 2 }), cluster), /other jobs may be using/);
  });
});

test('a Python that is not there, or has no Ray, is named', async () => {
  const start = (pythonExecutable: string) => run(() => 0, { numWorkers: 1, pythonExecutable });
  await assert.rejects(start('no-such-python'), {
    code: 'ERR_HVD_HOST',
    message: /no-such-python could not be started.*pythonExecutable/,
  });
});
