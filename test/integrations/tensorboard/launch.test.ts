// launch() of horovod/notebook with the real TensorBoard beside the job.

import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { launch } from '../../../src/launch/notebook/launch.ts';
import { notebookText } from '../../support/notebook-file.ts';
import { repository } from '../../support/repository.ts';
import { tensorBoardSkip } from '../../support/tensorboard.ts';

const command = process.env['HVD_TEST_TENSORBOARD'];

test('TensorBoard shows the summaries while the job runs, and ends with it', {
  skip: tensorBoardSkip(),
  timeout: 120_000,
}, async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'hvd-launch-tensorboard-'));
  t.after(() => rmSync(folder, { recursive: true }));
  mkdirSync(join(folder, 'node_modules'));
  symlinkSync(repository, join(folder, 'node_modules/horovod'));
  const go = join(folder, 'go');
  const program = `import { existsSync } from 'node:fs';
import { SummaryWriter, logdir } from 'horovod/tensorboard';
const writer = new SummaryWriter();
await writer.scalar('loss', 0.5, 1);
await writer.close();
console.log('in ' + logdir());
while (!existsSync(${JSON.stringify(go)})) await new Promise((resolve) => setTimeout(resolve, 50));`;
  writeFileSync(join(folder, 'train.ipynb'), notebookText([program]));
  let hasLink = (_url: string): void => {};
  const link = new Promise<string>((resolve) => {
    hasLink = resolve;
  });
  const job = launch(join(folder, 'train.ipynb'), {
    tensorboard: join(folder, 'logs'),
    env: { HOROVOD_TENSORBOARD: command as string },
    display: {
      html(html) {
        const url = /href="(http:\/\/127\.0\.0\.1:\d+\/)"[^>]*>TensorBoard</.exec(html)?.[1];
        if (url !== undefined) hasLink(url);
      },
    },
  });
  const url = await Promise.race([link, job.then(() => assert.fail('it ended without a link'))]);
  // It looks for new files every few seconds.
  let runs: string[] = [];
  while (runs.length === 0) runs = (await (await fetch(`${url}data/runs`)).json()) as string[];
  const dir = /^in (.*)$/m.exec(job.logs(0))?.[1] ?? '';
  assert.deepEqual(runs, [dir.slice(join(folder, 'logs/').length)]);
  writeFileSync(go, '');
  await job;
  await assert.rejects(fetch(url), 'it is still up');
});
