import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { fitted } from './command.ts';
import { parseStatusOptions } from './options.ts';

test('a picture fits its terminal', () => {
  const text = 'abcdef\n1\n2\n3\n4\n';
  assert.deepEqual(fitted(text, { columns: 4, rows: 6 }), ['abcd', '1', '2', '3', '4', '']);
  assert.deepEqual(fitted(text, { columns: 9, rows: 4 }), ['abcdef', '1', '… 3 more ', '']);
});

describe('the options of horovod status', () => {
  test('are none', () => {
    const { json, once, watchSeconds, job, host } = parseStatusOptions([]);
    assert.deepEqual([json, once, watchSeconds, job, host], [false, false, undefined, undefined, undefined]);
  });

  test('are all of them', () => {
    const words = '-w 0.5 --job 1a2b --json --host me@server1 -p 2222 --ssh-identity-file /k';
    const options = parseStatusOptions(words.split(' '));
    assert.deepEqual(
      { ...options },
      {
        help: false,
        json: true,
        once: false,
        screen: undefined,
        watchSeconds: 0.5,
        job: '1a2b',
        host: 'me@server1',
        sshPort: 2222,
        sshIdentityFile: '/k',
      },
    );
  });

  test('can be the config of a data service', () => {
    assert.equal(parseStatusOptions(['--once', '/tmp/compute.json']).config, '/tmp/compute.json');
    assert.equal('config' in parseStatusOptions([]), false);
  });

  for (const [argv, message] of [
    [['compute.json', 'all'], /unexpected argument "all"/],
    [['compute.json', '--job', '1a2b'], /cannot be used with the config of a data service/],
    [['--wacht', '2'], /Unknown option '--wacht'/],
    [['--watch', 'often'], /--watch expects a number from 0.1 to 86400, not "often"/],
    [['--watch', '0'], /--watch expects a number/],
    [['--watch'], /argument missing/],
    [['--once', '-w', '2'], /cannot be used together/],
    [['--job', "1'; rm -rf"], /--job expects a job id/],
    [['--host', '-oProxyCommand=x'], /--host/],
    [['--host=-oProxyCommand=x'], /--host expects the name of a machine/],
    [['--host', 'a b'], /--host expects the name of a machine/],
    [['-p', '22'], /only be used with --host/],
    [['--host', 'a', '-p', '99999'], /--ssh-port expects a number from 1 to 65535/],
  ] as const) {
    test(`are not ${argv.join(' ')}`, () => {
      assert.throws(() => parseStatusOptions(argv), { code: 'ERR_HVD_SETTING', message });
    });
  }
});
