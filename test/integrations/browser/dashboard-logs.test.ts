// The logs of the dashboard, its keyboard, and the saved page, in a real browser.

import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, type TestContext, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import type { Page } from 'playwright-core';
import type { DashboardStart, LogLine } from '../../../src/observe/dashboard/messages.ts';
import { savedPage } from '../../../src/observe/dashboard/saved-page.ts';
import { findBrowser, type OpenPage, startBrowser, type TestBrowser } from '../../support/browser.ts';
import { dashboardStart, eventsOf, logLines } from '../../support/dashboard-states.ts';
import { FakeDashboard } from '../../support/fake-dashboard.ts';

const found = findBrowser();
const shape = { ranks: 4, samples: 10 };
const size = { width: 1300, height: 900 };

describe('logs and keys of the dashboard', { skip: 'reason' in found && found.reason }, () => {
  let browser: TestBrowser;
  before(async () => {
    browser = await startBrowser('path' in found ? found.path : '');
  });
  after(() => browser?.[Symbol.asyncDispose]());

  async function show(
    t: TestContext,
    more: Partial<DashboardStart>,
    olderLogs: readonly LogLine[] = [],
  ): Promise<OpenPage & { server: FakeDashboard }> {
    const server = await FakeDashboard.open(dashboardStart(shape, more));
    server.olderLogs = olderLogs;
    const opened = await browser.open(server.url, size);
    t.after(async () => {
      await opened.page.close();
      await server[Symbol.asyncDispose]();
    });
    await opened.page.waitForSelector('tr.rank');
    return { ...opened, server };
  }

  test('new lines come into view while following; scrolling up stops that, and a button goes back', async (t) => {
    const lines = logLines(shape, 900);
    const { page, server } = await show(t, { logs: lines.slice(0, 400) });
    await page.waitForSelector('.line[data-id="400"]');
    server.send('logs', lines.slice(400, 450));
    await page.waitForSelector('.line[data-id="450"]');
    assert.equal(await isAtEnd(page), true);
    await page.hover('#log-lines');
    await page.mouse.wheel(0, -1500);
    await page.waitForSelector('#log-follow:not(:checked)');
    const place = await topLine(page);
    server.send('logs', lines.slice(450, 500));
    await page.waitForSelector('#log-newer:not([hidden])');
    assert.equal(await page.textContent('#log-newer'), '50 new lines ↓');
    assert.equal(await topLine(page), place, 'what is read does not move');
    await page.click('#log-newer');
    await page.waitForSelector('#log-follow:checked');
    assert.equal(await isAtEnd(page), true);
    assert.equal(await page.isVisible('#log-newer'), false);
  });

  test('older lines come from the server while scrolling up, without a jump', async (t) => {
    const lines = logLines(shape, 2000);
    const { page, server } = await show(t, { logs: lines.slice(1500) }, lines.slice(0, 1500));
    await page.waitForSelector('.line[data-id="2000"]');
    for (const wanted of [1500, 1000]) {
      await page.evaluate(() => document.getElementById('log-lines')?.scrollTo(0, 0));
      await page.waitForSelector(`.line[data-id="${wanted}"]`, { state: 'attached' });
    }
    assert.ok(
      server.logRequests.some((query) => query.includes('before=1501')),
      server.logRequests.join('\n'),
    );
    const ids = await page
      .locator('.line')
      .evaluateAll((all) => all.map((line) => Number(line.getAttribute('data-id'))));
    assert.deepEqual(
      ids,
      [...ids].sort((a, b) => a - b),
    );
    assert.equal(new Set(ids).size, ids.length);
    assert.notEqual(await topLine(page), ids[0], 'the lines that were read stay in view');
  });

  test('rank, search and errors narrow the lines down, also those that the server has', async (t) => {
    const lines = logLines(shape, 1000).map((line): LogLine => {
      if (line.id === 40) return { ...line, text: 'needle: Step forty' };
      return line.id === 990 ? { ...line, stream: 'stderr', text: 'TypeError: needle' } : line;
    });
    const { page } = await show(t, { logs: lines.slice(500) }, lines.slice(0, 500));
    await page.keyboard.press('/');
    await page.keyboard.type('NEEDLE');
    await page.waitForFunction(() => document.querySelectorAll('.line').length === 2);
    assert.deepEqual(await page.locator('.line mark').allTextContents(), ['needle', 'needle']);
    await page.check('#log-errors');
    await page.waitForFunction(() => document.querySelectorAll('.line').length === 1);
    assert.equal(await page.locator('.line.error').getAttribute('data-id'), '990');
    await page.uncheck('#log-errors');
    await page.fill('#log-search', '');
    await page.selectOption('#log-rank', '2');
    await page.waitForFunction(() => {
      const from = [...document.querySelectorAll('.line .from')].map((each) => each.textContent);
      return from.length > 100 && from.every((each) => each === '2');
    });
    assert.equal(await page.getAttribute('#log-download', 'href'), 'logs/2.txt');
  });

  test('a rank that prints megabytes does not stop the page, and a long line is cut', async (t) => {
    const { page, server } = await show(t, {});
    const long = { id: 1, at: 0, rank: 1, stream: 'stdout' as const, text: `begin${'<b>'.repeat(300_000)}` };
    server.send('logs', [long]);
    for (let from = 2; from < 30_000; from += 1000) server.send('logs', logLines(shape, 1000, from));
    await page.waitForSelector('.line[data-id="30001"]');
    const shown = await page.locator('.line').count();
    assert.ok(shown <= 1500, `${shown} lines`);
    await page.fill('#log-search', 'begin');
    await page.waitForFunction(() => document.getElementById('log-note')?.textContent?.includes('0 lines'));
  });

  test('says why there are no logs', async (t) => {
    const { page } = await show(t, { logsMissing: 'Run it with --output-filename to see logs here.' });
    assert.match((await page.textContent('#log-note')) ?? '', /^Run it with --output-filename/);
  });

  test('everything can be reached with the keyboard, and the shortcuts are listed', async (t) => {
    const { page } = await show(t, {
      logs: logLines(shape, 20),
      news: eventsOf({ ranks: 4, samples: 0 }),
      hasControl: true,
      canRecord: true,
    });
    const reached = new Set<string>();
    for (let press = 0; press < 60; press++) {
      await page.keyboard.press('Tab');
      const { id, outline } = await page.evaluate(() => {
        const focused = document.activeElement ?? document.body;
        return { id: focused.id || focused.tagName, outline: getComputedStyle(focused).outlineStyle };
      });
      if (id === 'BODY') break;
      assert.notEqual(outline, 'none', `the focus on ${id} is visible`);
      reached.add(id);
    }
    for (const id of [
      'record',
      'stop',
      'save',
      'theme',
      'help',
      'smoothing',
      'log-axis',
      'problems-only',
      'ranks-scroll',
      'measure',
      'heat-map',
      'log-rank',
      'log-search',
      'log-errors',
      'log-follow',
      'log-lines',
      'events-list',
      'SUMMARY',
    ]) {
      assert.ok(reached.has(id), id);
    }

    await page.keyboard.press('?');
    assert.ok((await page.locator('#shortcut-list kbd').count()) >= 10);
    await page.keyboard.press('Escape');
    await page.waitForSelector('#shortcuts:not([open])', { state: 'attached' });
    await page.keyboard.press('n');
    await page.keyboard.press('n');
    assert.equal(await page.textContent('tr.selected th'), '1');
    await page.keyboard.press('l');
    assert.equal(await page.inputValue('#log-rank'), '1');
    await page.keyboard.press('Escape');
    assert.equal(await page.locator('tr.selected').count(), 0);

    await page.focus('#heat-map');
    for (const key of ['ArrowDown', 'ArrowDown', 'ArrowLeft']) await page.keyboard.press(key);
    assert.match((await page.textContent('#heat-cell')) ?? '', /^rank 1, \d\d:\d\d:\d\d: [\d.]+ ms$/);
    await page.keyboard.press('Enter');
    assert.equal(await page.textContent('tr.selected th'), '1');
  });

  test('smoothing and a log axis change the charts, and their words stay', async (t) => {
    const { page, problems } = await show(t, {});
    const picture = () =>
      page
        .locator('#charts figure')
        .first()
        .locator('canvas')
        .evaluate((canvas) => (canvas as HTMLCanvasElement).toDataURL());
    const before = await picture();
    await page.focus('#smoothing');
    await page.keyboard.press('Home');
    await page.waitForFunction(
      () => !document.querySelector('#charts .value')?.textContent?.includes('smoothed'),
    );
    const raw = await picture();
    await page.check('#log-axis');
    await page.waitForFunction(() => document.querySelectorAll('#charts canvas').length === 3);
    assert.equal(new Set([before, raw, await picture()]).size, 3);
    assert.deepEqual(problems, []);
  });

  test('a saved page opens from a file, with charts and logs, and asks nobody for anything', async (t) => {
    const folder = mkdtempSync(join(tmpdir(), 'hvd-saved-'));
    t.after(() => rmSync(folder, { recursive: true }));
    const trap: LogLine = {
      id: 41,
      at: 0,
      rank: 0,
      stream: 'stdout',
      text: '</script><script>document.title="taken"</script><!--',
    };
    const start = dashboardStart(shape, {
      logs: [...logLines(shape, 40), trap],
      news: eventsOf({ ranks: 4, samples: 0 }),
      hasControl: true,
      end: { at: 1, isSuccess: true, text: 'All ranks have finished after 20 s.' },
    });
    const file = join(folder, 'run.html');
    writeFileSync(file, savedPage(start));
    const { page, problems } = await browser.open('about:blank', size);
    t.after(() => page.close());
    const requests: string[] = [];
    page.on('request', (request) => requests.push(request.url()));
    await page.goto(pathToFileURL(file).href);
    await page.waitForSelector('tr.rank');
    assert.equal(await page.textContent('#headline'), 'All ranks have finished after 20 s.');
    assert.equal(await page.locator('#charts canvas').count(), 3);
    assert.equal(await page.locator('.line').count(), 41);
    assert.equal(await page.textContent('.line[data-id="41"] .text'), trap.text);
    assert.equal(await page.isVisible('#stop'), false);
    assert.equal(await page.isVisible('#save'), false);
    await page.fill('#log-search', 'step 36');
    await page.waitForFunction(() => document.querySelectorAll('.line').length === 4);
    await page.emulateMedia({ colorScheme: 'dark' });
    assert.deepEqual(
      requests.filter(
        (url) => !/^(file|data):/.test(url) || (url.startsWith('file:') && !url.endsWith('/run.html')),
      ),
      [],
    );
    assert.deepEqual(problems, []);

    const { end: _none, ...running } = start;
    writeFileSync(file, savedPage(running));
    await page.reload();
    await page.waitForSelector('tr.rank');
    assert.equal(await page.textContent('#connection'), 'saved while it ran');
    assert.match((await page.textContent('#figures')) ?? '', /elapsed38 s/);
  });
});

function isAtEnd(page: Page): Promise<boolean> {
  return page.evaluate(() => {
    const { scrollTop = 0, scrollHeight = 0, clientHeight = 0 } = document.getElementById('log-lines') ?? {};
    return scrollHeight - scrollTop - clientHeight < 5;
  });
}

/** The number of the first line in view. */
function topLine(page: Page): Promise<number> {
  return page.evaluate(() => {
    const top = document.getElementById('log-lines')?.getBoundingClientRect().top ?? 0;
    const first = [...document.querySelectorAll('.line')].find(
      (line) => line.getBoundingClientRect().bottom > top + 2,
    );
    return Number(first?.getAttribute('data-id'));
  });
}
