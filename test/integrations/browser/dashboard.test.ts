// The page of the dashboard in a real browser, on prepared states of a job: what it shows, how it follows the stream, and that nothing
// a rank prints is more than text.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { findBrowser, type OpenPage, startBrowser, type TestBrowser } from '../../support/browser.ts';
import { dashboardStart, eventsOf, logLines, sampleAt } from '../../support/dashboard-states.ts';
import { FakeDashboard } from '../../support/fake-dashboard.ts';

const found = findBrowser();
const shape = { ranks: 4, samples: 40, slowRank: 3, slowFrom: 20 };

describe('the page of the dashboard', { skip: 'reason' in found && found.reason }, () => {
  let browser: TestBrowser;
  let server: FakeDashboard;
  let opened: OpenPage;

  before(async () => {
    browser = await startBrowser('path' in found ? found.path : '');
    const logs = logLines(shape, 60);
    server = await FakeDashboard.open(dashboardStart(shape, { logs, news: eventsOf(shape) }));
    opened = await browser.open(server.url, { width: 1400, height: 900 });
    await opened.page.waitForSelector('tr.rank');
  });
  after(async () => {
    await server?.[Symbol.asyncDispose]();
    await browser?.[Symbol.asyncDispose]();
  });

  test('says in its headline what is going on, and shows metrics, ranks, logs and events, without an error', async () => {
    const { page, problems } = opened;
    assert.match(
      (await page.textContent('#headline')) ?? '',
      /^Rank 3 keeps the others waiting, \d+ % of a step$/,
    );
    assert.deepEqual(await page.locator('#charts h3').allInnerTexts(), ['loss', 'accuracy', 'lr']);
    assert.equal(await page.locator('#charts canvas').count(), 3);
    assert.equal(await page.locator('tr.rank').count(), 4);
    assert.equal(await page.locator('.line').count(), 60);
    assert.deepEqual(await page.locator('.event-head b').allInnerTexts(), [
      'timeline',
      'slow rank',
      'checkpoint',
    ]);
    assert.deepEqual(problems, []);
  });

  test('follows the stream', async () => {
    const { page } = opened;
    server.send('sample', sampleAt({ ...shape, slowRank: 2 }, 40));
    await page.waitForFunction(`document.getElementById('headline').textContent.startsWith('Rank 2 keeps')`);
  });
});
