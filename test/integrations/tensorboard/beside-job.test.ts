// horovodrun --tensorboard with the real TensorBoard: it shows what the Keras callback writes, and is gone with the job.

import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { startHorovodrun } from '../../../src/testing/spawn-ranks.ts';
import { fixturePath } from '../../support/repository.ts';
import { getJson, tensorBoardSkip } from '../../support/tensorboard.ts';

const patienceMs = 90_000;

describe('horovodrun --tensorboard, with the real one', { skip: tensorBoardSkip() }, () => {
  /** Two ranks train for two epochs, and stay until the file `end` exists. */
  function train(t: TestContext, ...flags: string[]) {
    const folder = mkdtempSync(join(tmpdir(), 'hvd-beside-'));
    t.after(() => rmSync(folder, { recursive: true, force: true, maxRetries: 5 }));
    const end = join(folder, 'end');
    const words = ['-np', '2', '--tensorboard-logdir', join(folder, 'logs'), ...flags];
    const job = startHorovodrun([...words, '--', fixturePath('keras/summaries.ts'), end], {
      env: { HOROVOD_TENSORBOARD: process.env['HVD_TEST_TENSORBOARD'] as string },
    });
    t.after(() => void job.child.kill('SIGKILL'));
    const said = async (wanted: RegExp): Promise<string> => {
      const deadline = Date.now() + patienceMs;
      for (;;) {
        const found = wanted.exec(job.stderr);
        if (found !== null) return found[1] ?? found[0];
        assert.ok(Date.now() < deadline, `${wanted}: ${job.stderr}${job.stdout}`);
        await sleep(50);
      }
    };
    return { job, end, said, url: () => said(/TensorBoard shows \S+ at (http:\S+)/) };
  }

  async function assertGone(url: string): Promise<void> {
    const deadline = Date.now() + patienceMs;
    for (;;) {
      const isThere = await fetch(url).then(
        () => true,
        () => false,
      );
      if (!isThere) return;
      assert.ok(Date.now() < deadline, `${url} still answers`);
      await sleep(50);
    }
  }

  test('metrics, histograms, hyperparameters and how the ranks do are there while the job runs; the URL is gone after it', async (t) => {
    const { job, end, url } = train(t, '--tensorboard');
    const base = await url();
    const runs = await getJson<string[]>(base, 'data/runs', (found) => found.length >= 3);
    const [name = ''] = (runs.find((run) => run.endsWith('/train')) ?? '').split('/');
    assert.match(name, /^\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d-[0-9a-f]{4}$/, 'the folder of the job');
    const points = (run: string, tag: string) =>
      getJson<[number, number, number][]>(
        base,
        `data/plugin/scalars/scalars?run=${encodeURIComponent(`${name}/${run}`)}&tag=${encodeURIComponent(tag)}`,
        ({ length }) => length > 0,
      );
    assert.deepEqual(
      (
        await getJson<[number, number, number][]>(
          base,
          `data/plugin/scalars/scalars?run=${encodeURIComponent(`${name}/train`)}&tag=epoch_loss`,
          ({ length }) => length === 2,
        )
      ).map(([, step]) => step),
      [0, 1],
    );
    const [memory] = await points('system', 'horovod/memory_mib/rank_1');
    assert.ok((memory?.[2] ?? 0) > 10, String(memory));
    type Tags = Record<string, Record<string, unknown>>;
    const histograms = await getJson<Tags>(
      base,
      'data/plugin/histograms/tags',
      (tags) => `${name}/train` in tags,
    );
    assert.deepEqual(Object.keys(histograms[`${name}/train`] ?? {}).sort(), ['top/bias', 'top/kernel']);
    const experiment = await fetch(new URL('data/plugin/hparams/experiment', base), {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ experimentName: '' }),
    });
    const { hparamInfos, metricInfos } = (await experiment.json()) as {
      hparamInfos: { name: string }[];
      metricInfos: { name: { group: string; tag: string } }[];
    };
    assert.ok(
      hparamInfos.some((info) => info.name === 'learning_rate'),
      JSON.stringify(hparamInfos),
    );
    assert.ok(
      metricInfos.some((info) => info.name.tag === 'epoch_loss'),
      JSON.stringify(metricInfos),
    );
    writeFileSync(end, '');
    assert.equal((await job.ended).exitCode, 0, job.stderr);
    await assertGone(base);
  });

  test('the URL is gone after SIGKILL of the launcher', async (t) => {
    const { job, url } = train(t, '--tensorboard');
    const base = await url();
    job.child.kill('SIGKILL');
    await job.ended;
    await assertGone(base);
  });

  test('where the port is taken, a message says so and the job goes on', async (t) => {
    const taken = createServer().listen(0, '127.0.0.1');
    t.after(() => void taken.close());
    await new Promise((resolve) => taken.once('listening', resolve));
    const { port } = taken.address() as { port: number };
    const { job, end, said } = train(t, `--tensorboard=${port}`);
    await said(new RegExp(`TensorBoard cannot listen on port ${port}: it is in use.*Training goes on`));
    writeFileSync(end, '');
    assert.equal((await job.ended).exitCode, 0, job.stderr);
  });
});
