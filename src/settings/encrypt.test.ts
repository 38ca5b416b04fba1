// --encrypt: the ways to say it, and the transports that cannot.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { driverSettings, parseCommandLine } from './command-line.ts';
import { parseConfig } from './config-file.ts';
import { helpText } from './help.ts';

test('tensors are encrypted if a flag, a variable or the config file says so, and not by default', () => {
  const encrypt = (argv: readonly string[], env: NodeJS.ProcessEnv = {}) =>
    parseCommandLine([...argv, '-np', '2', 'node', 'x.js'], env).settings.encrypt;
  assert.equal(encrypt([]), false);
  assert.equal(encrypt(['--encrypt']), true);
  assert.equal(encrypt([], { HOROVOD_ENCRYPT: '1' }), true);
  assert.equal(encrypt(['--no-encrypt'], { HOROVOD_ENCRYPT: '1' }), false);
  assert.equal(driverSettings({}, parseConfig('encrypt: true\n', 'c.yaml').environment).encrypt, true);
  assert.match(helpText(), /--encrypt +.*Off by\s+default/s);
});

test('with mpi and gloo the launcher rejects it before anything starts', () => {
  for (const transport of ['mpi', 'gloo']) {
    const rejection = {
      code: 'ERR_HVD_SETTING',
      message: new RegExp(
        `--encrypt .* does not work with --${transport}: .* its own connections.*--transport tcp`,
      ),
    };
    const argv = ['--encrypt', `--${transport}`, '-np', '2', 'node', 'x.js'];
    assert.throws(() => parseCommandLine(argv, {}), rejection);
    const environment = { HOROVOD_ENCRYPT: '1', HOROVOD_TRANSPORT: transport };
    assert.throws(() => driverSettings({}, environment), rejection, 'run() reads them so');
  }
});
