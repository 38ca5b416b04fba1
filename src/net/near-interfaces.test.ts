// Interfaces that lead to the other hosts, and the settings of MPI that follow from them.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { limitMpiInterfaces } from '../settings/environment.ts';
import { nearInterfaces } from './near-interfaces.ts';

const own = {
  lo: [{ address: '127.0.0.1', cidr: '127.0.0.1/8', internal: true }],
  eth0: [
    { address: '10.77.0.1', cidr: '10.77.0.1/24', internal: false },
    { address: 'fe80::1', cidr: 'fe80::1/64', internal: false },
  ],
  eth1: [{ address: '10.78.0.1', cidr: '10.78.0.1/24', internal: false }],
  docker0: [{ address: '172.17.0.1', cidr: '172.17.0.1/16', internal: false }],
};
const eth0 = { name: 'eth0', cidr: '10.77.0.1/24' };

test('the interfaces in whose subnets the other hosts are, and no decoy', () => {
  assert.deepEqual(nearInterfaces([['10.77.0.2'], ['10.77.0.3', 'fe80::3']], own), [eth0]);
  assert.deepEqual(nearInterfaces([['10.77.0.2', '172.17.0.1', '127.0.0.1']], own), [eth0]);
  assert.deepEqual(nearInterfaces([['10.77.0.2'], ['10.78.0.3']], own), [
    eth0,
    { name: 'eth1', cidr: '10.78.0.1/24' },
  ]);
});

test('nothing is said where a host is behind a router, or there is none', () => {
  assert.equal(nearInterfaces([['10.77.0.2'], ['192.168.5.5']], own), undefined);
  assert.equal(nearInterfaces([[]], own), undefined);
  assert.equal(nearInterfaces([], own), undefined);
});

test('the variables of each MPI library name them, and what the user has set stays', () => {
  const env: NodeJS.ProcessEnv = {};
  limitMpiInterfaces([eth0], false, env);
  assert.deepEqual(env, {
    OMPI_MCA_btl_tcp_if_include: '10.77.0.1/24',
    UCX_NET_DEVICES: 'eth0',
    FI_TCP_IFACE: 'eth0',
    FI_SOCKETS_IFACE: 'eth0',
  });
  const set = { OMPI_MCA_btl_tcp_if_exclude: 'docker0', FI_TCP_IFACE: 'eth9', FI_SOCKETS_IFACE: 'eth9' };
  const users: NodeJS.ProcessEnv = { ...set };
  // Devices of a faster network are no interfaces: naming these would keep UCX from using them.
  limitMpiInterfaces([eth0], true, users);
  assert.deepEqual(users, set);
});
