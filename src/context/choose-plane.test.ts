// What ranks ask for and have, and the plane that comes of it.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { PlaneChoice } from '../settings/table.ts';
import { decidePlane } from './choose-plane.ts';

const rank = (wish: PlaneChoice, lack = '') => ({ hostname: 'h', machine: 'm', wish, lack });

test('shared memory on one host, tcp between several', () => {
  assert.deepEqual(decidePlane([rank('auto'), rank('auto')], [0, 1], 1), { plane: 'shm' });
  assert.deepEqual(decidePlane([rank('auto'), rank('auto')], [0, 1], 2), { plane: 'tcp' });
});

test('what is asked for is used, on one host too', () => {
  for (const wish of ['tcp', 'mpi', 'gloo'] as const) {
    assert.deepEqual(decidePlane([rank(wish), rank(wish)], [0, 1], 1), { plane: wish });
  }
});

test('one rank without the addon makes all portable, and is named', () => {
  const decision = decidePlane([rank('auto'), rank('auto', 'HOROVOD_NATIVE=0')], [4, 7], 2);
  assert.equal(decision.plane, 'portable');
  assert.match(decision.notice ?? '', /rank 7 has no native one: HOROVOD_NATIVE=0/);
});

test('what was asked for and is not there is an error that names the rank', () => {
  assert.throws(() => decidePlane([rank('mpi'), rank('mpi', 'it was not built')], [0, 1], 2), {
    code: 'ERR_HVD_NATIVE',
    message: /HOROVOD_PLANE=mpi, but rank 1 has no mpi addon: it was not built/,
  });
});

test('shm on several hosts, and different wishes, are refused', () => {
  assert.throws(() => decidePlane([rank('shm'), rank('shm')], [0, 1], 2), {
    code: 'ERR_HVD_SETTING',
    message: /for ranks of one host, and this job has 2/,
  });
  assert.throws(() => decidePlane([rank('tcp'), rank('gloo')], [0, 1], 2), {
    code: 'ERR_HVD_SETTING',
    message: /different planes \(tcp, gloo\)/,
  });
});

test('an engine that only some ranks were told of is refused, with both ranks', () => {
  assert.throws(() => decidePlane([rank('mpi'), rank('auto')], [0, 3], 2), {
    code: 'ERR_HVD_SETTING',
    message: /rank 0 on h has HOROVOD_PLANE=mpi, and rank 3 on h has not.*mpirun -x HOROVOD_PLANE/s,
  });
  assert.deepEqual(decidePlane([rank('tcp'), rank('auto')], [0, 3], 2), { plane: 'tcp' });
});
