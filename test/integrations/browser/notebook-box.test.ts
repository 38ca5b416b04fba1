// The box of launch() as a browser shows it in a light and in a dark notebook.

import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import type { Page } from 'playwright-core';
import { JobProgress } from '../../../src/launch/notebook/job-progress.ts';
import { progressBox } from '../../../src/launch/notebook/progress-box.ts';
import type { JobView } from '../../../src/observe/status/job-view.ts';
import { findBrowser, startBrowser, type TestBrowser } from '../../support/browser.ts';
import { statusOf, viewOf } from '../../support/status-examples.ts';

const found = findBrowser();
const startedAt = 1_000_000;

/** Of a job in the middle of its training, in which rank 2 is late. */
function exampleBox(): string {
  const progress = new JobProgress('train.ipynb', 4, startedAt);
  for (let step = 10; step <= 1240; step += 10) {
    const loss = 0.08 + 2.2 * Math.exp(-step / 260) + 0.05 * Math.sin(step * 1.7) * Math.exp(-step / 900);
    progress.see(jobAt(step, loss, step === 1240));
  }
  const lines = [
    [
      0,
      'stdout',
      'Epoch 1/3  0:14  4,120 images/s  loss 0.6127  acc 0.8011  val_loss 0.2811  val_acc 0.9140',
    ],
    [1, 'stdout', 'read 15,000 images'],
    [2, 'stderr', 'a slow disk: <img src="x"> & friends'],
    [
      0,
      'stdout',
      'Epoch 2/3  0:13  4,390 images/s  loss 0.2204  acc 0.9342  val_loss 0.1533  val_acc 0.9551',
    ],
  ] as const;
  for (const [rank, stream, text] of lines) progress.logs.add(rank, stream, text);
  progress.link({ title: 'Dashboard', url: 'http://127.0.0.1:38179/?token=0' });
  progress.link({ title: 'TensorBoard', url: 'http://127.0.0.1:6006/' });
  return progressBox(progress.content(startedAt + 42_000)).html;
}

function jobAt(step: number, loss: number, isLate: boolean): JobView {
  const at = startedAt + 42_000;
  const pending = isLate ? [{ label: 'allreduce "dense_2/kernel"', waitedMs: 2600, missing: [2] }] : [];
  const ranks = [0, 1, 2, 3].map((rank) => {
    const common = {
      rank,
      step,
      stepOf: 2112,
      epoch: 2,
      epochs: 3,
      updatedAt: at,
      pending: rank === 2 ? [] : pending,
    };
    const metrics = [
      ['loss', loss],
      ['acc', 0.9342],
      ['lr', 0.004],
    ] as const;
    const rates = { stepsPerSecond: 17.2, samplesPerSecond: 1098, bytesPerSecond: 0 };
    return viewOf({ rank, status: statusOf({ ...common, rates, ...(rank === 0 ? { metrics } : {}) }) });
  });
  return { id: 'job', command: 'train.ipynb', ranks, hosts: [] };
}

function page(theme: 'light' | 'dark', box: string): string {
  const colours = theme === 'light' ? 'background:#fff;color:#222' : 'background:#111;color:#ddd';
  return `<!doctype html><meta charset="utf-8"><title>a notebook</title><link rel="icon" href="data:,"><body style="margin:12px;${colours}">${box}`;
}

describe('the box in a cell', { skip: 'reason' in found && found.reason }, () => {
  let folder: string;
  let browser: TestBrowser;

  before(async () => {
    folder = mkdtempSync(join(tmpdir(), 'hvd-box-'));
    browser = await startBrowser('path' in found ? found.path : '');
  });
  after(async () => {
    await browser?.[Symbol.asyncDispose]();
    rmSync(folder, { recursive: true });
  });

  for (const theme of ['light', 'dark'] as const) {
    test(`in a ${theme} notebook: text that can be read, and nothing that is cut off`, async () => {
      const file = join(folder, `${theme}.html`);
      writeFileSync(file, page(theme, exampleBox()));
      const size = { width: 720, height: 460 };
      const { page: shown, problems } = await browser.open(pathToFileURL(file).href, size);
      assert.deepEqual(problems, []);
      const text = (await shown.textContent('body')) ?? '';
      assert.match(text, /rank 2 has kept the others waiting for 2\.6 s in allreduce "dense_2\/kernel"/);
      assert.match(text, /epoch 2 of 3 · step 1,240 of 2,112 · loss 0\.\d+ · acc 0\.9342/);
      assert.match(text, /ranks ◨◨▲◨ 3 waiting, 1 late/);
      assert.equal(await shown.locator('script, img').count(), 0);
      assert.ok((await lowestContrast(shown)) >= 3, 'a text that can hardly be read');
      const [left, right] = await shown.evaluate<[number, number]>(
        '[document.body.scrollWidth, document.documentElement.clientWidth]',
      );
      assert.ok(left <= right, `it is ${left - right} pixels too wide`);
      await shown.click('summary');
      assert.match((await shown.textContent('details')) ?? '', /\[2\] a slow disk: <img src="x"> & friends/);
      await shown.close();
    });
  }
});

/** Of all texts, between their colour and the page's: 1 is none, 21 is black on white. */
function lowestContrast(shown: Page): Promise<number> {
  return shown.evaluate<number>(`(() => {
    const channel = (value) => (value / 255 <= 0.03928 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4);
    const luminance = (colour) => {
      const [r, g, b] = colour.match(/[\\d.]+/g).map(Number);
      return 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
    };
    const back = luminance(getComputedStyle(document.body).backgroundColor);
    const texts = [...document.querySelectorAll('div, span, summary, pre')].filter((each) => each.textContent.trim() !== '');
    return Math.min(...texts.map((each) => {
      const front = luminance(getComputedStyle(each).color);
      return (Math.max(front, back) + 0.05) / (Math.min(front, back) + 0.05);
    }));
  })()`);
}
