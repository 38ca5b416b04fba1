// What ranks ask for and have, and the transport that comes of it.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { TransportChoice } from '../../settings/table.ts';
import { decideTransport } from './choose-transport.ts';

const rank = (wish: TransportChoice, lack = '', encrypt = false) => ({
  hostname: 'h',
  machine: 'm',
  wish,
  lack,
  encrypt,
});

test('shared memory on one host, tcp between several', () => {
  assert.deepEqual(decideTransport([rank('auto'), rank('auto')], [0, 1], 1), { transport: 'shm' });
  assert.deepEqual(decideTransport([rank('auto'), rank('auto')], [0, 1], 2), { transport: 'tcp' });
});

test('what is asked for is used, on one host too', () => {
  for (const wish of ['tcp', 'mpi', 'gloo'] as const) {
    assert.deepEqual(decideTransport([rank(wish), rank(wish)], [0, 1], 1), { transport: wish });
  }
});

test('one rank without the addon makes all portable, and is named', () => {
  const decision = decideTransport([rank('auto'), rank('auto', 'it was not built')], [4, 7], 2);
  assert.equal(decision.transport, 'portable');
  assert.match(decision.warning ?? '', /slower, because rank 7 has no native addon: it was not built/);
});

test('a portable transport that somebody has chosen is no reason for a warning', () => {
  const chosen = rank('portable', 'HOROVOD_TRANSPORT=portable');
  for (const other of [chosen, rank('auto'), rank('auto', 'it was not built')]) {
    assert.deepEqual(decideTransport([chosen, other], [0, 1], 1), { transport: 'portable' });
  }
});

test('what was asked for and is not there is an error that names the rank', () => {
  assert.throws(() => decideTransport([rank('mpi'), rank('mpi', 'it was not built')], [0, 1], 2), {
    code: 'ERR_HVD_NATIVE',
    message: /HOROVOD_TRANSPORT=mpi, but rank 1 has no mpi addon: it was not built/,
  });
});

test('shm on several hosts, and different wishes, are rejected', () => {
  assert.throws(() => decideTransport([rank('shm'), rank('shm')], [0, 1], 2), {
    code: 'ERR_HVD_SETTING',
    message: /only works on one host, but this job has 2/,
  });
  assert.throws(() => decideTransport([rank('tcp'), rank('gloo')], [0, 1], 2), {
    code: 'ERR_HVD_SETTING',
    message: /different transports \(tcp, gloo\)/,
  });
});

test('a transport that is set on some ranks only is rejected, with both ranks', () => {
  assert.throws(() => decideTransport([rank('mpi'), rank('auto')], [0, 3], 2), {
    code: 'ERR_HVD_SETTING',
    message: /rank 0 on h has HOROVOD_TRANSPORT=mpi, but rank 3 on h does not.*mpirun -x HOROVOD_TRANSPORT/s,
  });
  assert.deepEqual(decideTransport([rank('tcp'), rank('auto')], [0, 3], 2), { transport: 'tcp' });
});

test('encryption that is set on some ranks only is rejected, with both ranks', () => {
  for (const wish of ['auto', 'portable'] as const) {
    assert.throws(() => decideTransport([rank(wish), rank(wish, '', true)], [2, 5], 2), {
      code: 'ERR_HVD_SETTING',
      rank: 2,
      message: /rank 5 on h has HOROVOD_ENCRYPT=1, but rank 2 on h does not/,
    });
  }
  const all = [rank('auto', '', true), rank('auto', '', true)];
  assert.deepEqual(decideTransport(all, [0, 1], 2), { transport: 'tcp' });
});

test('mpi and gloo make their own connections, so they cannot be encrypted', () => {
  for (const wish of ['mpi', 'gloo'] as const) {
    const all = [rank(wish, '', true), rank(wish, '', true)];
    assert.throws(() => decideTransport(all, [0, 1], 2), {
      code: 'ERR_HVD_SETTING',
      message: /--encrypt .* does not work with --(mpi|gloo): .* makes its own connections.*--transport tcp/,
    });
  }
});
