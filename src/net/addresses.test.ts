import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
  formatAddress,
  type Interfaces,
  isLocalAddress,
  listCandidates,
  listLocalAddresses,
  parseAddress,
  parseAddresses,
} from './addresses.ts';

const v4 = (address: string, internal = false) => ({ address, family: 'IPv4', internal });
const v6 = (address: string, internal = false) => ({ address, family: 'IPv6', internal });
const machine: Interfaces = {
  lo: [v4('127.0.0.1', true), v6('::1', true)],
  docker0: [v4('172.17.0.1')],
  eth0: [v4('10.77.0.2'), v6('2001:db8::2'), v6('fe80::1'), v4('169.254.3.4')],
};

describe('addresses', () => {
  test('are read with names, IPv4 and IPv6, and written as they were', () => {
    for (const text of ['host1:80', '10.0.0.1:65535', '[2001:db8::2]:1', 'a-b.example.org:2222']) {
      const address = parseAddress(text);
      assert.ok(address !== undefined, text);
      assert.equal(formatAddress(address), text);
    }
    assert.deepEqual(parseAddress('[::1]:7'), { host: '::1', port: 7 });
  });

  test('that are none are refused', () => {
    for (const text of [
      '',
      'host',
      'host:',
      ':1',
      'host:0',
      'host:65536',
      '::1:80',
      '[host]:1',
      'a b:1',
      'a,b:1',
    ])
      assert.equal(parseAddress(text), undefined, text);
    assert.equal(parseAddresses('a:1,b'), undefined);
    assert.deepEqual(parseAddresses('a:1,[::1]:2'), [
      { host: 'a', port: 1 },
      { host: '::1', port: 2 },
    ]);
  });
});

describe('the candidates of a machine', () => {
  test('are all its addresses but link-local ones, IPv4 first and loopback last', () => {
    assert.deepEqual(listCandidates(9, [], machine), [
      '172.17.0.1:9',
      '10.77.0.2:9',
      '[2001:db8::2]:9',
      '127.0.0.1:9',
    ]);
  });

  test('are narrowed by names of interfaces, addresses and blocks; loopback stays', () => {
    assert.deepEqual(listLocalAddresses(['eth0'], machine), ['10.77.0.2', '2001:db8::2', '127.0.0.1']);
    assert.deepEqual(listLocalAddresses(['10.77.0.0/16'], machine), ['10.77.0.2', '127.0.0.1']);
    assert.deepEqual(listLocalAddresses(['2001:db8::/32'], machine), ['2001:db8::2', '127.0.0.1']);
    assert.deepEqual(listLocalAddresses(['172.17.0.1'], machine), ['172.17.0.1', '127.0.0.1']);
    assert.deepEqual(listLocalAddresses(['lo'], machine), ['127.0.0.1']);
  });

  test('cannot be narrowed to nothing: the error says what there is', () => {
    assert.throws(
      () => listLocalAddresses(['ib0'], machine),
      /ib0 matches no address of this machine\. It has lo 127\.0\.0\.1, .*eth0 10\.77\.0\.2/,
    );
  });

  test('are loopback alone on a machine without network', () => {
    assert.deepEqual(listLocalAddresses([], { lo: [v6('::1', true)] }), ['::1']);
    assert.deepEqual(listLocalAddresses([], {}), ['127.0.0.1']);
  });

  test('are known as its own', () => {
    assert.ok(isLocalAddress('10.77.0.2', machine));
    assert.ok(isLocalAddress('127.0.1.1', machine));
    assert.ok(!isLocalAddress('10.77.0.3', machine));
  });
});
