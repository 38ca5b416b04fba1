// Makes pictures of docs/images that show pages: it runs a real job (or takes one that the tests have prepared, for the dashboard),
// opens the page in the browser of the tests, and takes a screenshot.
//
//   node scripts/docs-pictures.mjs [timeline] [dashboard] [tensorboard] [notebook]        default: all
//
// It needs `npm run build`, compiled tests, chromium, and for `tensorboard` TensorBoard (HVD_TEST_TENSORBOARD=…/bin/tensorboard).

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { takeDashboardPictures } from './lib/dashboard-pictures.mjs';
import { inRepository, run } from './lib/tools.mjs';

const { findBrowser, startBrowser } = await import(inRepository('.dist-test/test/support/browser.js'));
const folder = mkdtempSync(join(tmpdir(), 'hvd-pictures-'));

const pictures = {
  /** One step of three ranks, with an allreduce for which one of them came last. */
  async timeline(browser) {
    const [trace, html] = [join(folder, 'trace.json'), join(folder, 'trace.html')];
    const training = ['examples/keras/mnist.ts', '--epochs', '1', '--steps', '60'];
    await horovod('horovodrun', '-np', '3', '--timeline-filename', trace, ...training);
    await horovod('horovod', 'timeline', 'report', trace, '--html', html);
    const { page } = await browser.open(pathToFileURL(html).href, { width: 1160, height: 1000 });
    await page.locator('#search').fill('DistributedOptimizer');
    await page.locator('#search').press('Enter');
    await page.locator('#search').fill('');
    await page.click('#step');
    await page.locator('#picture').focus();
    await page.locator('#keys').evaluate((keys) => keys.remove());
    await page.locator('#viewer').screenshot({ path: inRepository('docs/images/timeline-report.png') });
  },
  dashboard: takeDashboardPictures,
  /** The curves of a job, as the real TensorBoard shows them. */
  async tensorboard(browser) {
    const { TensorBoardServer } = await import(inRepository('.dist-test/test/support/tensorboard.js'));
    const logs = join(folder, 'logs');
    const training = [
      'examples/keras/mnist-advanced.ts',
      '--epochs',
      '6',
      '--steps',
      '60',
      '--log-dir',
      join(logs, 'mnist'),
    ];
    await horovod('horovodrun', '-np', '2', ...training);
    const server = await TensorBoardServer.start(logs);
    try {
      await server.get('data/runs', (runs) => runs.length >= 2);
      const pinned = ['epoch_loss', 'epoch_acc'].map((tag) => ({ plugin: 'scalars', tag }));
      const query = new URLSearchParams({
        darkMode: 'false',
        smoothing: '0',
        pinnedCards: JSON.stringify(pinned),
      });
      const { page } = await browser.open(`${server.url}?${query}#timeseries`, { width: 1100, height: 680 });
      await page.waitForSelector('scalar-card line-chart svg');
      await page.locator('button:has-text("Settings")').first().click();
      // The cards move to their places.
      await page.waitForTimeout(3000);
      await page.screenshot({ path: inRepository('docs/images/tensorboard.png') });
    } finally {
      await server[Symbol.asyncDispose]();
    }
  },
  /** The box in a cell, in the second of three epochs. */
  async notebook(browser) {
    const { launch } = await import(inRepository('dist/launch/notebook/index.js'));
    const boxes = [];
    await launch(inRepository('examples/notebooks/train.ipynb'), {
      np: 4,
      parameters: { epochs: 3, images: 12_000 },
      dashboard: true,
      env: { HOROVOD_TENSORBOARD_DIR: join(folder, 'logs') },
      display: { html: (html) => boxes.push(html) },
    });
    const second = boxes.filter((html) => html.includes('epoch 2 of 3'));
    const file = join(folder, 'box.html');
    writeFileSync(file, `<!doctype html><meta charset="utf-8"><body>${second.at(-3) ?? boxes.at(-1)}`);
    const { page } = await browser.open(pathToFileURL(file).href, { width: 720, height: 500 });
    await page.click('summary');
    await page.mouse.move(0, 0);
    await page.locator('body > div').screenshot({ path: inRepository('docs/images/notebook-box.png') });
  },
};

const wanted = process.argv.length > 2 ? process.argv.slice(2) : Object.keys(pictures);
const unknown = wanted.find((name) => !Object.hasOwn(pictures, name));
if (unknown !== undefined)
  throw new Error(`no picture is called ${unknown}: ${Object.keys(pictures).join(', ')}`);
const found = findBrowser();
if ('reason' in found) throw new Error(found.reason);
const browser = await startBrowser(found.path);
try {
  for (const name of wanted) await pictures[name](browser);
} finally {
  await browser[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true });
}

async function horovod(command, ...args) {
  const code = await run(process.execPath, [inRepository(`bin/${command}.js`), ...args], {
    cwd: inRepository('.'),
  });
  if (code !== 0) throw new Error(`${command} ${args.join(' ')} ended with ${code}`);
}
