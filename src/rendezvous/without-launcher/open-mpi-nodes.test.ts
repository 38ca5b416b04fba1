import assert from 'node:assert/strict';
import { test } from 'node:test';
import { expandNodes, hostOfNamespace, hostsOfUri } from './open-mpi-nodes.ts';

test('the addresses of mpirun', () => {
  assert.deepEqual(hostsOfUri('306774016.0;tcp://10.77.0.1:45569'), ['10.77.0.1']);
  assert.deepEqual(hostsOfUri('1.0;tcp://10.0.0.1,172.17.0.1:5;tcp6://[2001:db8::1]:6'), [
    '10.0.0.1',
    '172.17.0.1',
    '2001:db8::1',
  ]);
  assert.deepEqual(hostsOfUri('1.0;ud://1.2.3'), []);
});

test('the list of nodes, as Open MPI 4.1 writes it', () => {
  assert.deepEqual(expandNodes('host[1:1-3]@0(3)'), ['host1', 'host2', 'host3']);
  assert.deepEqual(expandNodes('host[1:1],[2:10].77.0.2@0(2)'), ['host1', '10.77.0.2']);
  assert.deepEqual(expandNodes('n[3:8-10,12]-ib,login@0(5)'), [
    'n008-ib',
    'n009-ib',
    'n010-ib',
    'n012-ib',
    'login',
  ]);
});

test('what is no list gives no names', () => {
  assert.deepEqual(expandNodes(''), []);
  assert.deepEqual(expandNodes('a[1:9-1],b[x]@'), []);
  assert.deepEqual(expandNodes('a[1:0-99999999]'), []);
});

test('the name of the job, as Open MPI 5 makes it', () => {
  assert.deepEqual(hostOfNamespace('prterun-node-7-4711@1'), ['node-7']);
  assert.deepEqual(hostOfNamespace('306774017'), []);
});
