// The page of the dashboard in a real browser, on prepared states of a job: what it shows, how it follows the stream, and that nothing
// a rank prints is more than text.

import assert from 'node:assert/strict';
import { after, before, describe, type TestContext, test } from 'node:test';
import type { Page } from 'playwright-core';
import type { LogLine } from '../../../src/observe/dashboard/messages.ts';
import {
  findBrowser,
  type OpenPage,
  startBrowser,
  type TestBrowser,
  type WindowSize,
} from '../../support/browser.ts';
import { dashboardStart, eventsOf, logLines, sampleAt } from '../../support/dashboard-states.ts';
import { FakeDashboard } from '../../support/fake-dashboard.ts';

const found = findBrowser();
const shape = { ranks: 4, samples: 40, slowRank: 3, slowFrom: 20 };
const wide = { width: 1400, height: 900 };

describe('the page of the dashboard', { skip: 'reason' in found && found.reason }, () => {
  let browser: TestBrowser;
  before(async () => {
    browser = await startBrowser('path' in found ? found.path : '');
  });
  after(() => browser?.[Symbol.asyncDispose]());

  interface Shown extends OpenPage {
    readonly server: FakeDashboard;
  }

  /** A page that has drawn this state. */
  async function show(
    t: TestContext,
    start = dashboardStart(shape),
    size: WindowSize = wide,
  ): Promise<Shown> {
    const server = await FakeDashboard.open(start);
    const opened = await browser.open(server.url, size);
    t.after(async () => {
      await opened.page.close();
      await server[Symbol.asyncDispose]();
    });
    await opened.page.waitForSelector('tr.rank');
    return { ...opened, server };
  }

  test('says what is going on, and shows metrics, ranks, heat map, communication, events and hosts', async (t) => {
    const logs = logLines(shape, 60);
    const { page, problems } = await show(t, dashboardStart(shape, { logs, news: eventsOf(shape) }));
    assert.match(await textOf(page, '#headline'), /^Rank 3 keeps the others waiting, \d+ % of a step$/);
    assert.match(await page.title(), /^8 % · Rank 3 keeps/);
    assert.match(await textOf(page, '#announce'), /^Rank 3 keeps the others waiting/);
    assert.deepEqual(await textsOf(page, '#figures dt'), [
      'step',
      'epoch',
      'time left',
      'elapsed',
      'samples/s',
      'step time',
      'exposed communication',
      'waiting for data',
    ]);
    assert.deepEqual(await textsOf(page, '#charts h3'), ['loss', 'accuracy', 'lr']);
    assert.equal(await page.locator('#charts canvas').count(), 3);
    assert.match(
      (await page.locator('#charts .chart').first().getAttribute('aria-label')) as string,
      /^loss by step: /,
    );
    assert.deepEqual(await textsOf(page, 'tr.rank th'), ['0', '1', '2', '3']);
    assert.match(
      await textOf(page, 'tr.host'),
      /^gpu-aCPU\d\.\d of 16 coresmemory14\.5 GiB of 64\.0 GiBGPU 0\d+ %, /,
    );
    assert.match(await textOf(page, '#slowest'), /^Rank 3 is slowest now: \d+ ms/);
    assert.match(await textOf(page, '#communication-legend'), /waiting for ranks [\d.]+ ms \(\d+ %\)$/);
    assert.equal(await page.locator('.line').count(), 60);
    assert.deepEqual(await textsOf(page, '.event-head b'), ['timeline', 'slow rank', 'checkpoint']);
    await page.click('.event summary');
    assert.match(await textOf(page, '.event details[open] pre'), /own 131\.2 ms/);
    assert.equal(
      await page.locator('.event a').getAttribute('href'),
      new URL('timeline.html', page.url()).href,
    );
    assert.equal(await page.locator('#hosts-list article').count(), 1);
    assert.match(await textOf(page, '#settings'), /--fusion-threshold-mb32/);
    // As horovod status shows them: the slow rank is late, and more of it is below its row.
    const late = page.locator('tr.rank').nth(3).locator('td').nth(4);
    assert.match((await late.textContent()) ?? '', /^\d+ ms\/step$/);
    await page.click('tr.rank:nth-child(5) button');
    const details = (await page.locator('tr.details').textContent()) ?? '';
    assert.match(
      details,
      /late\d+ ms\/step.*waits for data4 %.*last collectiveallreduce Dist.*reduces[\d.]+ MiB\/s/,
    );
    assert.deepEqual(problems, []);
  });

  test('what ranks and users write is text, whatever it looks like', async (t) => {
    const markup = '<script>document.title="taken"</script><img src=x onerror="document.title=\'taken\'">';
    const line: LogLine = { id: 1, at: 0, rank: 0, stream: 'stdout', text: markup };
    const sample = sampleAt(shape, 39);
    const start = dashboardStart(shape, {
      logs: [line],
      news: [
        { id: 1, at: 0, kind: 'stall', tone: 'bad', text: markup, report: markup, href: `javascript:${'x'}` },
      ],
      samples: [
        {
          ...sample,
          headline: { ...sample.headline, text: markup },
          ranks: sample.ranks.map((rank) => ({
            ...rank,
            text: markup,
            host: markup,
            last: markup,
            late: markup,
          })),
          metrics: { [markup]: 1 },
        },
      ],
    });
    const job = { ...start.job, command: markup, links: [{ title: markup, url: 'javascript:alert(1)' }] };
    const { page, problems } = await show(t, { ...start, job });
    for (const place of [
      '#headline',
      '.line .text',
      '.event p',
      'td.words',
      'tr.host .name',
      '#charts h3',
      '#command',
    ]) {
      assert.ok((await textOf(page, place)).includes(markup), place);
    }
    await page.click('tr.rank');
    assert.equal((await textOf(page, 'tr.details')).split(markup).length, 5, 'state, host, late, collective');
    assert.equal(await page.locator('main img, main script, main a[href^="javascript"]').count(), 0);
    assert.doesNotMatch(await page.title(), /^taken/);
    assert.deepEqual(problems, []);
  });

  test('follows the stream: headline, ranks, metrics and events change as they come', async (t) => {
    const { page, server } = await show(t);
    const next = sampleAt({ ...shape, slowRank: 2 }, 40);
    server.send('sample', { ...next, metrics: { ...next.metrics, loss: 'NaN' } });
    server.send('news', eventsOf(shape));
    await waitForText(page, '#headline', 'Rank 2 keeps');
    await waitForText(page, '#charts .warning', '✕ NaN since step 328');
    await page.waitForSelector('.event:nth-child(3)');
    assert.equal(await textOf(page, 'tr.rank:nth-child(3) td.number'), '328');
  });

  test('a lost rank turns red, says why, and is named above the table', async (t) => {
    const { page, server } = await show(t);
    const next = sampleAt(shape, 40);
    const before = await colourOf(page, 'tr.rank:nth-child(3) td.words');
    server.send('sample', {
      ...next,
      headline: { ...next.headline, tone: 'bad', text: 'rank 1 on gpu-a was killed by SIGKILL' },
      ranks: next.ranks.map((rank) =>
        rank.rank === 1
          ? { ...rank, presence: 'lost', tone: 'bad', text: 'was killed by SIGKILL', stepMs: undefined }
          : rank,
      ),
    });
    await page.waitForSelector('tr[data-presence="lost"]');
    assert.equal(await textOf(page, 'tr[data-presence="lost"] td.words'), '✕was killed by SIGKILL');
    assert.notEqual(await colourOf(page, 'tr[data-presence="lost"] td.words'), before);
    assert.equal(await textOf(page, '#ranks-summary'), '4 ranks, 1 lost, 1 slow');
    assert.equal(await textOf(page, '#ranks-problems button'), '✕rank 1: was killed by SIGKILL');
    assert.match(await textOf(page, '#announce'), /^Problem: Rank 1 on gpu-a/);
    await page.check('#problems-only');
    assert.deepEqual(await textsOf(page, 'tr.rank th'), ['1', '3']);
  });

  test('of several lost ranks, the cause comes first', async (t) => {
    const { page, server } = await show(t);
    const next = sampleAt(shape, 40);
    const lost = { presence: 'lost', tone: 'bad', text: 'exited with code 1' } as const;
    server.send('sample', {
      ...next,
      ranks: next.ranks.map((rank) => ({ ...rank, ...lost, ...(rank.rank === 2 ? { isCause: true } : {}) })),
    });
    await page.waitForSelector('#ranks-problems button:nth-child(4)');
    const names = (await textsOf(page, '#ranks-problems button')).map((text) => /rank \d/.exec(text)?.[0]);
    assert.deepEqual(names, ['rank 2', 'rank 0', 'rank 1', 'rank 3']);
  });

  test('before there is anything to see, each part says what it waits for', async (t) => {
    const server = await FakeDashboard.open(dashboardStart({ ...shape, samples: 0 }));
    t.after(() => server[Symbol.asyncDispose]());
    const { page, problems } = await browser.open(server.url, wide);
    t.after(() => page.close());
    await waitForText(page, '#headline', 'Waiting for the first ranks');
    for (const [place, text] of [
      ['#no-metrics', /^No metrics yet\. .*hvd\.logMetrics\(/],
      ['#no-ranks', /^No rank has called hvd\.init\(\) yet/],
      ['#slowest', /^Step times appear here with the first/],
      ['#no-steps', /^No training step has ended yet\. .*hvd\.markStep\(\)/],
      ['#log-note', /^No output yet/],
      ['#no-events', /^Nothing has happened yet/],
      ['#hosts-list', /Nothing known yet/],
    ] as const) {
      assert.equal(await page.isVisible(place), true, place);
      assert.match(await textOf(page, place), text);
    }
    // Nothing is drawn of nothing: no axes, no scale of colours, no head of a table.
    for (const place of ['#communication-chart', '#heat-scale', '#heat-map', '#ranks-table'])
      assert.equal(await page.isVisible(place), false, place);
    const { ranks, ...sample } = sampleAt(shape, 0);
    server.send('sample', { ...sample, ranks });
    server.send('logs', logLines(shape, 3));
    await page.waitForSelector('tr.rank');
    for (const place of ['#communication-chart', '#heat-scale', '#heat-map'])
      await page.waitForSelector(place, { state: 'visible' });
    await waitForText(page, '#log-note', '3 lines');
    assert.equal(await page.isVisible('#no-steps'), false);
    assert.deepEqual(problems, []);
  });

  test('connects again after the stream broke, and keeps what it knows', async (t) => {
    const { page, server } = await show(
      t,
      dashboardStart(shape, { logs: logLines(shape, 30), news: eventsOf(shape) }),
    );
    await page.click('.event summary');
    server.refusesWith = 503;
    server.drop();
    await page.waitForSelector('#connection[data-state="lost"]');
    assert.match(await textOf(page, '#connection'), /^no connection since .* trying again$/);
    assert.equal(await page.locator('.line').count(), 30);
    server.refusesWith = undefined;
    server.start = dashboardStart(
      { ...shape, samples: 45 },
      { logs: logLines(shape, 34), news: eventsOf(shape) },
    );
    await server.connected();
    await page.waitForSelector('#connection[data-state="live"]');
    await waitForText(page, '#figures', 'step360');
    await page.waitForSelector('.line[data-id="34"]');
    assert.equal(await page.locator('.line').count(), 34);
    assert.equal(await page.locator('.event details[open]').count(), 1, 'the report is still folded out');
  });

  test('says how the job ended, and stays readable without its server', async (t) => {
    const logs = logLines(shape, 700);
    const { page, server, problems } = await show(
      t,
      dashboardStart(shape, { logs: logs.slice(300), hasControl: true }),
    );
    server.send('end', {
      at: Date.now(),
      isSuccess: false,
      text: 'rank 3 was killed by SIGKILL\nLast line: step 320',
    });
    await waitForText(page, '#headline', 'Rank 3 was killed by SIGKILL');
    server.drop();
    assert.equal(await textOf(page, '#outcome'), 'Last line: step 320');
    assert.equal(await textOf(page, '#connection'), 'ended');
    assert.equal(await page.isVisible('#stop'), false);
    await page.fill('#log-search', 'step 600');
    await page.waitForFunction(() => document.querySelectorAll('.line').length === 4);
    assert.deepEqual(problems, []);
  });

  test('records steps and stops the job only if it may, after asking', async (t) => {
    const watching = await show(t);
    assert.equal(await watching.page.isVisible('#control'), false);
    const { page, server } = await show(t, dashboardStart(shape, { hasControl: true, canRecord: true }));
    await page.click('#record');
    await waitForText(page, '#control-answer', 'Recording 50 steps');
    await page.click('#stop');
    await page.click('dialog[open] button[value="no"]');
    await page.click('#stop');
    await page.click('dialog[open] button[value="yes"]');
    await waitForText(page, '#control-answer', 'Stopping the job');
    await page.waitForSelector('#stop:not([disabled])');
    assert.deepEqual(server.orders, [
      { path: '/record', type: 'application/json', body: { steps: 50 } },
      { path: '/stop', type: 'application/json', body: {} },
    ]);
  });

  test('64 ranks: all are in the table and in the heat map, and the page draws them in time', async (t) => {
    const many = { ranks: 64, samples: 120, slowRank: 37, slowFrom: 80 };
    const { page, server } = await show(t, dashboardStart(many));
    assert.equal(await page.locator('tr.rank').count(), 64);
    assert.match(await textOf(page, '#slowest'), /^Rank 37 is slowest now/);
    for (let at = 120; at < 140; at++) server.send('sample', sampleAt(many, at));
    await waitForText(page, '#figures', 'step1\u202f120');
    // A click in the row of a rank selects it, and its row in the table comes into view.
    await clickHeatMap(page, 37, 64);
    await page.waitForSelector('tr.details');
    assert.equal(await textOf(page, 'tr.rank.selected th'), '37');
    const isInView = await page.evaluate(() => {
      const row = document.querySelector('tr.selected')?.getBoundingClientRect();
      const place = document.getElementById('ranks-scroll')?.getBoundingClientRect();
      return row !== undefined && place !== undefined && row.top >= place.top && row.bottom <= place.bottom;
    });
    assert.ok(isInView);
    assert.equal(await textOf(page, '#communication-of'), 'rank 37');
  });

  for (const ranks of [4, 64]) {
    test(`fits into 400 pixels without scrolling sideways, with ${ranks} ranks`, async (t) => {
      const long = { id: 1, at: 0, rank: 0, stream: 'stdout' as const, text: 'x'.repeat(500) };
      const start = dashboardStart(
        { ...shape, ranks },
        {
          logs: [long, { ...long, id: 2, rank: -1, text: 'The job has failed.' }],
          news: eventsOf(shape),
          hasControl: true,
          canRecord: true,
        },
      );
      const { page } = await show(t, start, { width: 400, height: 800 });
      await page.click('tr.rank');
      const [shown, all] = await page.evaluate(() => {
        const { clientWidth, scrollWidth } = document.documentElement;
        return [clientWidth, scrollWidth];
      });
      assert.ok(all <= shown, `${all} pixels in a window of ${shown}`);
      const table = await page.evaluate(() => {
        const { clientWidth = 0, scrollWidth = 0 } = document.getElementById('ranks-scroll') ?? {};
        return scrollWidth - clientWidth;
      });
      assert.ok(table <= 0, `the table is ${table} pixels too wide`);
      const gap = await page.evaluate(() => {
        const side = (part: string) =>
          document.querySelector(`.line[data-id="2"] ${part}`)?.getBoundingClientRect();
        return (side('.text')?.left ?? 0) - (side('.from')?.right ?? 0);
      });
      assert.ok(gap >= 4, `the name of the launcher is ${gap} pixels from its line`);
    });
  }

  test('is light or dark as the system is, or as the reader chose, also after a reload', async (t) => {
    const { page } = await show(t);
    const background = () => colourOf(page, 'body', 'backgroundColor');
    await page.emulateMedia({ colorScheme: 'light' });
    const light = await background();
    await page.emulateMedia({ colorScheme: 'dark' });
    const dark = await background();
    assert.notEqual(light, dark);
    await page.keyboard.press('t');
    assert.equal(await textOf(page, '#theme'), 'Theme: light');
    assert.equal(await background(), light);
    await page.click('#theme');
    await page.emulateMedia({ colorScheme: 'light' });
    await page.reload();
    assert.equal(await textOf(page, '#theme'), 'Theme: dark');
    assert.equal(await background(), dark);
    await page.click('#theme');
  });

  for (const scheme of ['light', 'dark'] as const) {
    test(`texts stand out from what is behind them: ${scheme}`, async (t) => {
      const error: LogLine = { id: 99, at: 0, rank: 0, stream: 'stderr', text: 'Error: no' };
      const start = dashboardStart(shape, {
        logs: [...logLines(shape, 5), error],
        news: eventsOf(shape),
        hasControl: true,
      });
      const { page } = await show(t, start);
      await page.emulateMedia({ colorScheme: scheme });
      const places = [
        '#headline',
        '#figures dt',
        'td.words',
        '.line .text',
        '.line time',
        '.line.error .text',
        '#stop',
        'a',
        '.chip',
      ];
      for (const place of places) {
        const contrast = await contrastOf(page, place);
        assert.ok(contrast >= 4.5, `${place}: ${contrast.toFixed(2)}`);
      }
    });
  }
});

async function textOf(page: Page, selector: string): Promise<string> {
  return (await page.locator(selector).first().textContent()) ?? '';
}

function textsOf(page: Page, selector: string): Promise<string[]> {
  return page.locator(selector).allTextContents();
}

async function waitForText(page: Page, selector: string, text: string): Promise<void> {
  await page.waitForFunction(
    ([place, wanted]) => document.querySelector(place as string)?.textContent?.includes(wanted as string),
    [selector, text],
  );
}

function colourOf(
  page: Page,
  selector: string,
  property: 'color' | 'backgroundColor' = 'color',
): Promise<string> {
  return page
    .locator(selector)
    .first()
    .evaluate((element, name) => getComputedStyle(element)[name], property);
}

async function clickHeatMap(page: Page, row: number, rows: number): Promise<void> {
  const map = page.locator('#heat-map');
  await map.scrollIntoViewIfNeeded();
  const { width = 0, height = 0 } = (await map.boundingBox()) ?? {};
  // Below the rows are the times.
  await map.click({ position: { x: width / 2, y: ((height - 20) / rows) * (row + 0.5) } });
}

/** By the rules of WCAG: of an element's text with the nearest background. */
function contrastOf(page: Page, selector: string): Promise<number> {
  return page
    .locator(selector)
    .first()
    .evaluate((element) => {
      const partsOf = (colour: string) => (colour.match(/[\d.]+/g) ?? []).map(Number);
      const light = (colour: string) =>
        partsOf(colour)
          .slice(0, 3)
          .map((part) => part / 255)
          .map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4))
          .reduce((sum, part, at) => sum + part * ([0.2126, 0.7152, 0.0722][at] ?? 0), 0);
      let behind: Element | null = element;
      while (behind !== null && partsOf(getComputedStyle(behind).backgroundColor)[3] === 0)
        behind = behind.parentElement;
      const lights = [
        light(getComputedStyle(element).color),
        light(getComputedStyle(behind ?? document.body).backgroundColor),
      ];
      return (Math.max(...lights) + 0.05) / (Math.min(...lights) + 0.05);
    });
}
