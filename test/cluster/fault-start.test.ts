// Jobs that cannot start on one of their hosts: the launcher says which host, in which phase, what it saw and what to do,
// within its deadline, and starts nothing anywhere.

import assert from 'node:assert/strict';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, afterEach, before, describe, test } from 'node:test';
import { type Box, canUseBox, startBox } from '../support/box.ts';
import { assertReports, clusterFixture, runOnBox } from '../support/box-jobs.ts';
import { repository } from '../support/repository.ts';

const skip = canUseBox() ?? false;
const hosts = 'host1:1,host2:1';
const manifest = join(repository, 'package.json');

describe('a host that cannot take part', { skip }, () => {
  let box: Box;
  before(async () => {
    box = await startBox({ hosts: 2 });
  });
  // Mounts over files of a host go with it.
  afterEach(async () => {
    await box.assertNothingLeft();
    await box.repair();
    for (const host of box.hosts) {
      await box.crash(host);
      await box.boot(host);
    }
  });
  after(() => box.close());

  const run = (more: { flags?: string[]; env?: NodeJS.ProcessEnv; args?: string[]; cwd?: string } = {}) =>
    runOnBox(box, clusterFixture('steps.ts'), { hosts, args: ['3'], ...more });
  const cover = async (host: string, file: string, by: string): Promise<void> => {
    const { exitCode, stderr } = await box.exec(host, ['mount', '--bind', by, file]);
    assert.equal(exitCode, 0, stderr);
  };

  test('it rejects the ssh key', async () => {
    await cover('host2', '/etc/ssh/authorized_keys', '/dev/null');
    assertReports(await run(), /host2/, /Permission denied/, /key/i);
  });

  test('its host key is unknown, and ssh is set to be strict', async () => {
    const strict = join(box.shared, 'ssh_config');
    writeFileSync(
      strict,
      'Host *\n  IdentityFile /etc/ssh/id_cluster\n  StrictHostKeyChecking yes\n  UserKnownHostsFile /dev/null\n',
    );
    await cover('host1', '/etc/ssh/ssh_config', strict);
    assertReports(await run(), /host2/, /host key/i);
  });

  test('it does not exist', async () => {
    assertReports(
      await runOnBox(box, clusterFixture('steps.ts'), { hosts: 'host1:1,host9:1', args: ['3'] }),
      /host9/,
      /resolve/i,
    );
  });

  test('it does not answer: the start timeout names it', async () => {
    await box.cut('host2');
    const startedAt = performance.now();
    assertReports(await run({ flags: ['--start-timeout', '5'] }), /host2/);
    const tookMs = performance.now() - startedAt;
    assert.ok(tookMs < 25_000, `it took ${Math.round(tookMs)} ms; without the flag it would be 30 s`);
  });

  test('it has no Node', async () => {
    await box.without('host2', process.execPath);
    assertReports(await run(), /host2/, /node/i);
  });

  test('it has another version of the package', async () => {
    const other = join(box.shared, 'package.json');
    const text = readFileSync(manifest, 'utf8').replace(/"version": "[^"]+"/, '"version": "99.0.0"');
    writeFileSync(other, text);
    await cover('host2', manifest, other);
    assertReports(await run(), /host2/, /99\.0\.0/);
  });

  test('it does not have the working directory', async () => {
    const folder = join(box.shared, 'project');
    mkdirSync(folder, { recursive: true });
    const { exitCode, stderr } = await box.exec('host2', ['mount', '-t', 'tmpfs', 'none', box.shared]);
    assert.equal(exitCode, 0, stderr);
    assertReports(await run({ cwd: folder }), /host2/, /project/);
  });

  test('a full disk under --output-filename ends the job and names the file, or lets it end well', async () => {
    const folder = join(box.shared, 'output');
    mkdirSync(folder, { recursive: true });
    await box.exec('host1', ['mount', '-t', 'tmpfs', '-o', 'size=16k', 'none', folder]);
    const job = await runOnBox(box, clusterFixture('chatter.ts'), {
      hosts,
      flags: ['--output-filename', folder],
    });
    assert.match(job.stderr, /ENOSPC|no space left/i, job.stdout.slice(-500));
    assert.match(job.stderr, /output/);
  });
});
