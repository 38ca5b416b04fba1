import assert from 'node:assert/strict';
import { test } from 'node:test';
import { engineAddress } from './engine-address.ts';

test('an address that several hosts have is not taken', () => {
  const own = ['172.17.0.1:4000', '10.77.0.11:4000'];
  assert.equal(engineAddress(own, [['172.17.0.1:5000', '10.77.0.12:5000']]), '10.77.0.11');
});

test('the network that most hosts are in wins', () => {
  const own = ['192.168.5.1:4000', '10.77.0.11:4000', '[fd00::1]:4000'];
  assert.equal(engineAddress(own, [['10.77.0.12:1'], ['10.77.0.13:1', '[fd00::3]:1']]), '10.77.0.11');
});

test('on one machine it is the loopback', () => {
  const own = ['10.0.0.1:4000', '127.0.0.1:4000'];
  assert.equal(engineAddress(own, [['10.0.0.1:5000', '127.0.0.1:5000']]), '127.0.0.1');
  assert.equal(engineAddress(['10.0.0.1:4000'], [['10.0.0.1:5000']]), '10.0.0.1');
});
