// What horovodrun --dashboard tells its page of the command line, and what it tells its user.

import assert from 'node:assert/strict';
import { chmodSync, existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { errorOf } from '../../../test/support/error-of.ts';
import { parseCommandLine } from '../../settings/command-line.ts';
import { type Announcement, announce } from './announce.ts';
import { dashboardFromFlags, shownSettings } from './from-flags.ts';

test('the page shows flags that are not defaults, and no value of the environment', () => {
  const env = {
    HOROVOD_CYCLE_TIME: '7',
    HOROVOD_USER_SECRET: 'from-the-environment',
    API_KEY: 'from-the-environment',
  };
  const words =
    '-np 4 --dashboard --dashboard-control -H a:2,b:2 --fusion-threshold-mb 32 --env-allow API_KEY --mpi-args "-x=TOKEN=from-the-shell" --log-level debug train.ts --lr 0.1';
  const { options, environment } = parseCommandLine(words.split(' '), env);
  const shown = shownSettings(options, environment);
  const value = (name: string) => shown.find((setting) => setting.name === name)?.value;
  assert.deepEqual(
    [value('--dashboard-control'), value('-H'), value('--log-level')],
    ['true', 'a:2,b:2', 'debug'],
  );
  assert.equal(value('--env-allow'), 'API_KEY', 'its name, not its value');
  const text = JSON.stringify(shown);
  assert.doesNotMatch(text, /from-the-environment|from-the-shell|CYCLE_TIME/);
});

test('flags of the dashboard need the dashboard', async () => {
  for (const flag of [
    '--dashboard-bind=0.0.0.0',
    '--dashboard-keep',
    '--dashboard-save=x.html',
    '--open',
    '--dashboard-host=hub',
  ]) {
    const parsed = parseCommandLine(['-np', '2', flag, 'train.ts'], {});
    const error = await errorOf(
      dashboardFromFlags({ ...parsed, driverEnvironment: {}, say: () => undefined }),
    );
    assert.equal(error.detail, `${flag.split('=')[0]} needs --dashboard.`);
  }
  const none = parseCommandLine(['-np', '2', 'train.ts'], {});
  assert.equal(await dashboardFromFlags({ ...none, driverEnvironment: {}, say: () => undefined }), undefined);
});

describe('the announcement', () => {
  const said = (given: Partial<Announcement>) => {
    const lines: string[] = [];
    announce({
      url: 'http://127.0.0.1:4000/?token=abc',
      port: 4000,
      bind: undefined,
      hasControl: false,
      opens: false,
      environment: {},
      say: (text) => void lines.push(text),
      ...given,
    });
    return lines;
  };

  test('is one line', () => {
    assert.deepEqual(said({}), ['Dashboard: http://127.0.0.1:4000/?token=abc']);
    assert.equal(said({ bind: '127.0.0.1' }).length, 1);
  });

  test('warns of what others can reach', () => {
    assert.match(
      said({ bind: '0.0.0.0' })[1] ?? '',
      /^Other machines can reach the dashboard at 0\.0\.0\.0, without encryption: .* sees what it shows\.$/,
    );
    assert.match(
      said({ bind: '0.0.0.0', hasControl: true })[1] ?? '',
      /sees what it shows, and can stop the job\.$/,
    );
  });

  test('has the path of a proxy behind JupyterHub', () => {
    const [, line] = said({ environment: { JUPYTERHUB_SERVICE_PREFIX: '/user/me/' } });
    assert.match(line ?? '', /\/user\/me\/proxy\/4000\/\?token=abc.*--dashboard-host/);
  });

  test('opens a browser only where there is a display', async (t) => {
    assert.match(said({ opens: true })[1] ?? '', /--open has no effect: there is no display here/);
    const folder = mkdtempSync(join(tmpdir(), 'hvd-dashboard-'));
    t.after(() => rmSync(folder, { recursive: true, force: true }));
    const opened = join(folder, 'opened');
    for (const name of ['xdg-open', 'open']) {
      writeFileSync(
        join(folder, name),
        `#!/bin/sh\necho "$1" > ${opened}.new && mv ${opened}.new ${opened}\n`,
      );
      chmodSync(join(folder, name), 0o755);
    }
    const environment = { PATH: `${folder}:${process.env['PATH']}`, DISPLAY: ':0' };
    // A program is found in the PATH of this process.
    const before = process.env['PATH'];
    process.env['PATH'] = environment.PATH;
    t.after(() => {
      process.env['PATH'] = before;
    });
    assert.equal(said({ opens: true, environment }).length, 1);
    const deadline = Date.now() + 60_000;
    while (!existsSync(opened)) {
      assert.ok(Date.now() < deadline, 'no browser was opened');
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  });
});
