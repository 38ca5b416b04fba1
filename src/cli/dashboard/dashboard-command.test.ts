// The options of `horovod dashboard`, the files of logs that it reads, and jobs on another machine.

import assert from 'node:assert/strict';
import { appendFileSync, chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { statusOf, viewOf } from '../../../test/support/status-examples.ts';
import { findRemoteJob, isOver } from './find-job.ts';
import { parseDashboardOptions } from './options.ts';
import { OutputTails } from './tail-output.ts';

function folderOf(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'hvd-dashboard-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

describe('options', () => {
  test('are read', () => {
    const options = parseDashboardOptions(
      '--job 1a2b --port 8080 --output-dir out --save run.html --keep --dashboard-host hub.example,node7:9000'.split(
        ' ',
      ),
    );
    const { job, port, outputDirectory, save, keep, open, names } = options;
    assert.deepEqual(
      [job, port, outputDirectory, save, keep, open],
      ['1a2b', 8080, 'out', 'run.html', true, false],
    );
    assert.deepEqual(names, ['hub.example', 'node7:9000']);
    assert.equal(parseDashboardOptions([]).port, 0);
  });

  test('that are wrong are named', () => {
    for (const [words, message] of [
      ['--port 70000', /--port expects a number from 0 to 65535/],
      ['--port x', /--port/],
      ['--job ../x', /--job expects a job id/],
      ['--host -x', /--host/],
      ['--ssh-port 22', /can only be used with --host/],
      ['--dashboard-host a/b', /--dashboard-host is "a\/b"; expected names of hosts/],
      ['extra', /unexpected argument "extra"/],
      ['--frob', /Unknown option '--frob'/],
    ] as const) {
      assert.throws(
        () => parseDashboardOptions(words.split(' ')),
        { code: 'ERR_HVD_SETTING', message },
        words,
      );
    }
  });
});

describe('files of logs', () => {
  test('are read as they grow, without prefixes, those of ranks that come later too', (t) => {
    const folder = folderOf(t);
    const lines: string[] = [];
    mkdirSync(join(folder, 'rank.0'));
    writeFileSync(join(folder, 'rank.0/stdout'), '[0]<stdout>:one\n[0]<stdout>:tw');
    const tails = new OutputTails(
      folder,
      ({ rank, stream, text }) => void lines.push(`${rank} ${stream} ${text}`),
    );
    t.after(() => tails.close());
    assert.deepEqual(lines, ['0 stdout one']);
    appendFileSync(join(folder, 'rank.0/stdout'), 'o\n');
    mkdirSync(join(folder, 'worker.12'));
    writeFileSync(
      join(folder, 'worker.12/stderr'),
      'Mon Jan 20 12:00:01 2020 [3]<stderr>:of another rank by now\nplain\n',
    );
    writeFileSync(join(folder, 'other'), 'no log\n');
    tails.look();
    assert.deepEqual(lines.slice(1).sort(), [
      '0 stdout two',
      '12 stderr plain',
      '3 stderr of another rank by now',
    ]);
    appendFileSync(join(folder, 'rank.0/stdout'), 'the end');
    tails.close();
    assert.equal(lines.at(-1), '0 stdout the end');
  });

  test('that are long already are read from whole lines near their end', (t) => {
    const folder = folderOf(t);
    mkdirSync(join(folder, 'rank.0'));
    const all = Array.from({ length: 100_000 }, (_, line) => `line ${line}`);
    writeFileSync(join(folder, 'rank.0/stdout'), `${all.join('\n')}\n`);
    const lines: string[] = [];
    new OutputTails(folder, ({ text }) => void lines.push(text)).close();
    assert.ok(lines.length > 1000 && lines.length < 100_000);
    assert.deepEqual(lines, all.slice(-lines.length));
  });

  test('in a folder that is missing are an error', () => {
    assert.throws(() => new OutputTails('/nowhere/at/all', () => undefined), {
      code: 'ERR_HVD_SETTING',
      message: /--output-dir \/nowhere\/at\/all: there is no such folder/,
    });
  });
});

test('a job is over when no rank is left, and nobody who would start one', () => {
  const left = viewOf({ presence: 'left' });
  const lost = viewOf({ presence: 'lost' });
  const news = { generation: 1, resets: 0, standbys: 0, lastResets: [] };
  assert.ok(isOver({ ranks: [left, lost] }));
  assert.ok(!isOver({ ranks: [left, viewOf({})] }));
  assert.ok(!isOver({ ranks: [viewOf({ presence: 'starting' })] }));
  assert.ok(!isOver({ ranks: [lost], news: { ...news, pid: process.pid } }));
  assert.ok(isOver({ ranks: [lost], news: { ...news, pid: 2 ** 30 } }));
});

describe('a job on another machine', () => {
  /** A remote shell that says what `horovod status --json --watch 1` would say. */
  function search(t: TestContext, script: string) {
    const program = join(folderOf(t), 'shell');
    writeFileSync(program, `#!/bin/sh\n${script}\n`);
    chmodSync(program, 0o755);
    let said = '';
    const environment = { PATH: process.env['PATH'], OMPI_MCA_plm_rsh_agent: program };
    const found = findRemoteJob({ host: 'server1', environment, say: (text) => (said += text) });
    return { found, said: () => said };
  }

  const lineOf = (...ids: readonly string[]) =>
    JSON.stringify({
      jobs: ids.map((id) => ({
        id,
        command: `node ${id}.js`,
        ranks: [viewOf({ status: statusOf({ metrics: [['loss', 'NaN' as unknown as number]] }) })],
        hosts: [],
      })),
    });

  test('is seen through horovod status, whatever its login shell says, until it has ended', async (t) => {
    const { found } = search(
      t,
      `echo Welcome; echo '${lineOf('1a2b')}'; sleep 0.3; echo '${lineOf('1a2b')}'`,
    );
    const job = await found;
    assert.ok('look' in job);
    assert.equal(job.first.id, '1a2b');
    assert.equal(job.look()?.ranks.length, 1);
    const deadline = Date.now() + 60_000;
    while (!job.isOver()) {
      assert.ok(Date.now() < deadline);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    job.close();
  });

  test('has to be chosen if there are several, and is missing if there is none', async (t) => {
    const several = await search(t, `echo '${lineOf('1a2b', '3c4d')}'; exec sleep 60`).found;
    assert.deepEqual(several, {
      problem: 'several jobs are running; choose one with --job:\n  1a2b  node 1a2b.js\n  3c4d  node 3c4d.js',
    });
    const none = await search(t, 'exit 1').found;
    assert.deepEqual(none, { problem: 'there is no running job of yours on server1.' });
  });
});
