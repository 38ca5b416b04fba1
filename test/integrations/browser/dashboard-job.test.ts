// A real job with --dashboard in a real browser: from its first step to its end, and then as the file that was saved.

import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { type HorovodrunProcess, startHorovodrun } from '../../../src/testing/spawn-ranks.ts';
import { findBrowser, startBrowser } from '../../support/browser.ts';
import { fixturePath } from '../../support/repository.ts';

const found = findBrowser();
const size = { width: 1300, height: 900 };
const skip = 'reason' in found && found.reason;

test('the dashboard of a job with two ranks, while it runs, after its end, and saved', {
  skip,
  timeout: 120_000,
}, async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'hvd-dashboard-page-'));
  const [stop, late, saved] = ['stop', 'late', 'run.html'].map((name) => join(folder, name)) as [
    string,
    string,
    string,
  ];
  const flags = ['--dashboard', '--dashboard-save', saved];
  const run = startHorovodrun(['-np', '2', ...flags, '--', fixturePath('status/loop.ts'), stop, late]);
  t.after(async () => {
    run.child.kill('SIGKILL');
    await run.ended;
    rmSync(folder, { recursive: true, force: true });
  });
  await using browser = await startBrowser('path' in found ? found.path : '');
  const { page, problems } = await browser.open(await printedUrl(run), size);
  assert.equal(new URL(page.url()).search, '', 'the token has left the address bar');

  await page.waitForSelector('tr.rank:nth-child(3)[data-presence="here"]');
  await page.waitForSelector('#charts figure');
  assert.deepEqual(await page.locator('#charts h3').allTextContents(), ['loss', 'broken']);
  await page.waitForFunction(() =>
    /✕ NaN since step \d/.test(
      document.querySelector('#charts figure:nth-child(2) .warning')?.textContent ?? '',
    ),
  );
  await page.waitForFunction(() => /\d ms/.test(document.querySelector('#heat-high')?.textContent ?? ''));
  await page.waitForFunction(() => document.querySelectorAll('.line').length >= 2);
  assert.match((await page.locator('.line .text').first().textContent()) ?? '', /^transport /);
  assert.match((await page.textContent('#job-facts')) ?? '', /status\/loop\.js/);
  assert.equal(await page.isVisible('#control'), false, 'it may only watch');

  writeFileSync(stop, '');
  await page.waitForSelector('#head[data-tone="good"] #headline:has-text("All ranks have finished")');
  assert.equal((await run.ended).exitCode, 0, run.stderr);
  await page.selectOption('#log-rank', '1');
  await page.waitForFunction(() => document.querySelectorAll('.line').length === 1);
  // Its server is gone: what it cannot load any more is said in the page, and the browser logs it.
  assert.deepEqual(
    problems.filter((problem) => !/ERR_CONNECTION_REFUSED/.test(problem)),
    [],
  );

  const file = await browser.open(pathToFileURL(saved).href, size);
  await file.page.waitForSelector('tr.rank:nth-child(3)');
  assert.match((await file.page.textContent('#headline')) ?? '', /^All ranks have finished/);
  assert.equal(await file.page.locator('#charts figure').count(), 2);
  assert.deepEqual(file.problems, []);
});

/** Of the dashboard, with its token. */
function printedUrl(run: HorovodrunProcess): Promise<string> {
  return new Promise((resolve, reject) => {
    const look = () => {
      const url = /Dashboard: (\S+)/.exec(run.stderr)?.[1];
      if (url !== undefined) resolve(url);
    };
    run.child.stderr?.on('data', look);
    look();
    void run.ended.then(() => reject(new Error(`no URL was printed:\n${run.stderr}`)));
  });
}
