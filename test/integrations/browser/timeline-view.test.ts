// The timeline on the page of `horovod timeline report --html`, in a real browser: zoom, pan, search and choice, by mouse, keyboard and
// touch. What the picture shows is read from the line that tells the user.

import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, beforeEach, describe, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import type { Page } from 'playwright-core';
import { run as horovod } from '../../../src/cli/main.ts';
import { findBrowser, type OpenPage, startBrowser, type TestBrowser } from '../../support/browser.ts';
import { keepOutput } from '../../support/command-output.ts';
import { stepUs, traceOf } from '../../support/trace-of-ranks.ts';

const found = findBrowser();
const steps = 30;
const endMs = (steps * stepUs) / 1000;
const kernel = 'encoder/block_3/multi_head_attention/output/kernel';
const markup = '<img src=x onerror="document.title=1">&amp;</script><script>alert(1)</script>';

describe('the timeline of a report', { skip: 'reason' in found && found.reason }, () => {
  let folder: string;
  let browser: TestBrowser;
  let opened: OpenPage;
  let page: Page;

  async function reportOf(name: string, events: readonly object[]): Promise<string> {
    const [trace, html] = [join(folder, `${name}.json`), join(folder, `${name}.html`)];
    writeFileSync(trace, JSON.stringify(events));
    const output = keepOutput();
    assert.equal(await horovod(['timeline', 'report', trace, '--html', html], output), 0, output.said.error);
    return pathToFileURL(html).href;
  }

  before(async () => {
    folder = mkdtempSync(join(tmpdir(), 'hvd-timeline-view-'));
    browser = await startBrowser('path' in found ? found.path : '');
    const failed = {
      name: markup,
      cat: 'allreduce',
      ph: 'X',
      ts: steps * stepUs - 1000,
      dur: 900,
      pid: 1,
      tid: 10,
      args: { kind: 'allreduce', error: markup },
    };
    const url = await reportOf('trace', [...traceOf({ ranks: 4, steps }), failed]);
    opened = await browser.open(url, { width: 1200, height: 900 });
    page = opened.page;
  });
  after(async () => {
    await browser?.[Symbol.asyncDispose]();
    rmSync(folder, { recursive: true });
  });
  beforeEach(async () => {
    await page.locator('#search').fill('');
    await page.locator('#picture').focus();
    await page.keyboard.press('Escape');
    await page.click('#all');
    await page.locator('#picture').scrollIntoViewIfNeeded();
    await shows(0, endMs);
  });

  /** Waits until the picture shows this stretch, in milliseconds. */
  async function shows(from: number, to: number): Promise<void> {
    const near = (a: number, b: number) => Math.abs(a - b) <= 0.02 * (to - from) + 6;
    let last: readonly number[] = [];
    for (let look = 0; look < 100; look++) {
      last = await shown(page);
      if (near(last[0] as number, from) && near(last[1] as number, to)) return;
      await page.evaluate('new Promise((resolve) => requestAnimationFrame(resolve))');
    }
    assert.fail(`it shows ${last.join(' to ')} ms, not ${from} to ${to}`);
  }

  test('opens with a typical step of all ranks, drawn in the colours of the charts, without errors or requests', async () => {
    await page.click('#step');
    const [from, to] = await shown(page);
    assert.ok(Math.abs((to as number) - (from as number) - 1.1 * (stepUs / 1000)) < 10, `${from} to ${to}`);
    const drawn = await coloursOf(page);
    for (const name of ['compute', 'communication', 'waiting', 'moving'])
      assert.ok(
        drawn.some((each) => each === name),
        `${name} is drawn: ${[...new Set(drawn)].join(' ')}`,
      );
    assert.deepEqual(opened.problems, []);
  });

  test('the wheel zooms around the pointer once the timeline has been clicked, or with Ctrl, and scrolls the page otherwise', async () => {
    const { x, y, width } = await boxOf(page);
    await page.evaluate('document.activeElement.blur()');
    await page.mouse.move(x + width / 2, y + 8);
    await page.mouse.wheel(0, 5);
    await page.waitForSelector('.hint.shown');
    await shows(0, endMs);
    await page.keyboard.down('Control');
    await page.mouse.wheel(0, -240);
    await page.keyboard.up('Control');
    const [from, to] = await shown(page, ([, end]) => (end as number) < endMs - 100);
    // The pointer is right of the middle of the rows, because names are left of them.
    assert.ok((from as number) > 0 && (to as number) - (from as number) < 0.8 * endMs, `${from} to ${to}`);
    await page.mouse.click(x + width / 2, y + 8);
    await page.mouse.wheel(0, -240);
    const [later, earlier] = await shown(page, ([start]) => (start as number) > (from as number) + 50);
    assert.ok((later as number) > (from as number) && (earlier as number) < (to as number));
    const pointer = (x + width / 2 - x - 148) / (width - 148);
    const timeAt = ([start, end]: readonly number[]) =>
      (start as number) + pointer * ((end as number) - (start as number));
    assert.ok(
      Math.abs(timeAt(await shown(page)) - timeAt([0, endMs])) < 0.02 * endMs,
      'what is there stays there',
    );
  });

  test('a drag, a sideways wheel and the strip above move what is visible; it stays within the timeline', async () => {
    await page.click('#step');
    const [from, to] = (await shown(page)) as [number, number];
    const { x, y, width } = await boxOf(page);
    const rows = width - 148;
    await page.mouse.move(x + 700, y + 60);
    await page.mouse.down();
    await page.mouse.move(x + 600, y + 60, { steps: 4 });
    await page.mouse.up();
    const by = ((to - from) * 100) / rows;
    await shows(from + by, to + by);
    assert.equal(await page.locator('#chosen').isVisible(), false, 'a drag chooses nothing');
    await page.mouse.wheel(-100, 0);
    await shows(from, to);
    const strip = await page.locator('#overview').boundingBox();
    assert.ok(strip !== null);
    await page.mouse.click(strip.x + strip.width - 1, strip.y + 10);
    await shows(endMs - (to - from), endMs);
    await page.mouse.click(strip.x + 148 + rows / 2, strip.y + 10);
    await shows((endMs - to + from) / 2, (endMs + to - from) / 2);
  });

  test('keys zoom, move, show a step or all, and fill the window', async () => {
    await page.keyboard.press('+');
    await shows(endMs / 6, (5 * endMs) / 6);
    await page.keyboard.press('Home');
    await shows(0, (2 * endMs) / 3);
    await page.keyboard.press('End');
    await shows(endMs / 3, endMs);
    await page.keyboard.press('ArrowLeft');
    await shows(endMs / 3 - endMs / 10, endMs - endMs / 10);
    await page.keyboard.press('d');
    await shows(endMs / 3, endMs);
    await page.keyboard.press('-');
    await shows(0, endMs);
    await page.keyboard.press('1');
    const [from, to] = await shown(page, ([, end]) => (end as number) < endMs);
    assert.ok((to as number) - (from as number) < 200);
    await page.keyboard.press('0');
    await shows(0, endMs);
    await page.keyboard.press('f');
    const full = await page.locator('#viewer').boundingBox();
    assert.deepEqual(full, { x: 0, y: 0, width: 1200, height: 900 });
    await page.keyboard.press('Escape');
    await page.waitForSelector('#viewer:not(.full)');
  });

  test('a search counts and marks what it finds, fades the rest, and jumps from one to the next', async () => {
    await page.keyboard.press('/');
    await page.keyboard.type('BLOCK_3/');
    // Steps 4, 16 and 28 of 4 ranks.
    assert.equal(await page.textContent('#found'), '12 found');
    await drawn(page);
    const bright = (await coloursOf(page)).filter((each) => each === 'compute').length;
    assert.equal(bright, 0, 'what does not match is faded');
    await page.keyboard.press('Enter');
    assert.equal(await page.textContent('#found'), '1 of 12');
    assert.equal(await page.textContent('#chosen h3'), kernel);
    const [from, to] = await shown(page, ([, end]) => (end as number) < endMs);
    assert.ok(
      (from as number) < (4 * stepUs) / 1000 && (to as number) > (3 * stepUs) / 1000,
      `${from} to ${to}`,
    );
    await page.keyboard.press('Shift+Enter');
    assert.equal(await page.textContent('#found'), '12 of 12');
    await page.click('#next');
    assert.equal(await page.textContent('#found'), '1 of 12');
    await page.locator('#picture').focus();
    await page.keyboard.press('n');
    assert.equal(await page.textContent('#found'), '2 of 12');
    await page.keyboard.press('N');
    assert.equal(await page.textContent('#found'), '1 of 12');
    await page.locator('#search').fill('no such thing');
    assert.equal(await page.textContent('#found'), 'none');
    assert.ok(await page.locator('#next').isDisabled());
    await page.locator('#search').press('Escape');
    assert.equal(await page.textContent('#found'), '');
  });

  test('a chosen collective says who was late, what it moved and how each rank saw it', async () => {
    await page.locator('#search').fill(kernel);
    await page.locator('#search').press('Enter');
    assert.equal(await page.textContent('.cause'), 'Rank 1 was last: it came 51.2 ms after rank 0.');
    assert.deepEqual(await factsOf(page), {
      Rank: '0',
      Kind: 'allreduce',
      Tensor: 'float32 [3,3,512,512]',
      Size: '9 MiB',
      Began: '487 ms after the start',
      Took: '58.0 ms',
      'Waited for other ranks': '52.0 ms',
      'Moved and combined data': '6.0 ms, 1.5 GiB/s',
    });
    assert.deepEqual(await page.locator('.parts span').allTextContents(), [
      'waits for other ranks 52.0 ms',
      'allreduce 6.0 ms',
    ]);
    const rows = await page.locator('#chosen tbody tr').allTextContents();
    assert.deepEqual(rows, [
      'rank 1+51.2 ms800 µs6.8 ms',
      'rank 0first52.0 ms58.0 ms',
      'rank 2first52.0 ms58.0 ms',
      'rank 3first52.0 ms58.0 ms',
    ]);
    await page.click('#chosen tbody tr:first-child button');
    assert.equal((await factsOf(page))['Rank'], '1');
    await page.locator('#picture').focus();
    await page.keyboard.press(']');
    assert.match((await page.textContent('#chosen h3')) ?? '', /block_4/);
    await page.keyboard.press('Escape');
    assert.equal(await page.locator('#chosen').isVisible(), false);
  });

  test('a click chooses what is under the pointer: a step, a phase, and part of a collective', async () => {
    await page.click('#step');
    await shown(page, ([, end]) => (end as number) < endMs);
    const { x, y } = await boxOf(page);
    const names: (string | null)[] = [];
    // The rows of rank 0, from its steps to what is inside of its collectives.
    for (const below of [26 + 20 + 10, 26 + 20 + 30]) {
      await page.mouse.click(x + 500, y + below);
      names.push(await page.textContent('#chosen h3'));
    }
    assert.match(names[0] ?? '', /^step \d+$/);
    assert.equal(names[1], 'backpropagation');
    const { width } = await boxOf(page);
    await page.mouse.click(x + width - 200, y + 26 + 20 + 70);
    assert.match((await factsOf(page))['Chosen part'] ?? '', /^waits for other ranks, 52\.0 ms$/);
  });

  test('texts of a file are shown as texts, whatever is in them', async () => {
    await page.locator('#search').fill('onerror');
    await page.locator('#search').press('Enter');
    assert.equal(await page.textContent('#chosen h3'), markup);
    assert.equal((await factsOf(page))['Error'], markup);
    assert.equal(await page.locator('img').count(), 0);
    assert.equal(await page.title(), 'Timeline trace.json');
    assert.deepEqual(opened.problems, []);
  });

  test('two fingers zoom and one moves', async () => {
    const { x, y, width } = await boxOf(page);
    const session = await page.context().newCDPSession(page);
    const touch = (type: 'touchStart' | 'touchMove' | 'touchEnd', ...points: [number, number][]) =>
      session.send('Input.dispatchTouchEvent', {
        type,
        touchPoints: points.map(([dx, dy], id) => ({ x: x + dx, y: y + dy, id })),
      });
    const middle = 148 + (width - 148) / 2;
    await touch('touchStart', [middle - 50, 60], [middle + 50, 60]);
    await touch('touchMove', [middle - 100, 60], [middle + 50, 60]);
    await touch('touchMove', [middle - 100, 60], [middle + 100, 60]);
    await touch('touchEnd');
    await shows(endMs / 4, (3 * endMs) / 4);
    await touch('touchStart', [middle, 60]);
    for (const moved of [-20, -50, -80, -100]) await touch('touchMove', [middle + moved, 60]);
    await touch('touchEnd');
    const [from] = await shown(page, ([start]) => (start as number) > endMs / 4 + 50);
    assert.ok((from as number) > endMs / 4);
    await session.detach();
  });

  test('it follows the light and the dark scheme', async () => {
    const backgrounds: string[] = [];
    for (const colorScheme of ['light', 'dark'] as const) {
      await page.emulateMedia({ colorScheme });
      await drawn(page);
      backgrounds.push(await pixelAt(page, 4, 4));
    }
    await page.emulateMedia({ colorScheme: 'light' });
    assert.deepEqual(backgrounds, ['246,248,250', '27,33,40']);
  });

  test('64 ranks and 40,000 collectives: all are there, and rows that do not fit are scrolled to', async () => {
    const url = await reportOf('many', traceOf({ ranks: 64, steps: 25, operations: 25 }));
    const many = await browser.open(url, { width: 1000, height: 700 });
    await many.page.locator('#search').fill('block_');
    assert.equal(await many.page.textContent('#found'), '40000 found');
    await many.page.locator('#search').fill('block_0/bias_24');
    // Steps 1, 13 and 25.
    assert.equal(await many.page.textContent('#found'), `${3 * 64} found`);
    await many.page.locator('#search').press('Shift+Enter');
    await many.page.locator('#search').press('Shift+Enter');
    assert.match((await factsOf(many.page))['Rank'] ?? '', /^63$/);
    await drawn(many.page);
    assert.ok((await coloursOf(many.page)).includes('marked'), 'it has been scrolled to');
    await many.page.locator('#picture').focus();
    await many.page.keyboard.press('ArrowUp');
    assert.deepEqual(many.problems, []);
    await many.page.close();
  });
});

/** From and to, in milliseconds, once `isWanted`. */
async function shown(
  page: Page,
  isWanted: (shown: readonly number[]) => boolean = () => true,
): Promise<readonly number[]> {
  for (let look = 0; look < 100; look++) {
    await drawn(page);
    const text = (await page.textContent('#shown')) ?? '';
    const [from, to] = text.split(' to ') as [string, string];
    const last = [inMs(from), inMs(to)];
    if (isWanted(last)) return last;
  }
  return assert.fail(`the picture stays at ${await page.textContent('#shown')}`);
}

function inMs(text: string): number {
  const [, value, unit] = /^([\d.]+) ?(s|ms|µs|ns)?/.exec(text) ?? [];
  const units: Readonly<Record<string, number>> = { s: 1000, ms: 1, µs: 1e-3, ns: 1e-6 };
  return Number(value) * (units[unit ?? 's'] as number);
}

/** What was asked for has been drawn. */
async function drawn(page: Page): Promise<void> {
  await page.evaluate('new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))');
}

async function boxOf(page: Page): Promise<{ x: number; y: number; width: number; height: number }> {
  const box = await page.locator('#picture').boundingBox();
  assert.ok(box !== null);
  return box;
}

async function factsOf(page: Page): Promise<Record<string, string>> {
  const [terms, texts] = [
    await page.locator('#chosen dt').allTextContents(),
    await page.locator('#chosen dd').allTextContents(),
  ];
  return Object.fromEntries(terms.map((term, i) => [term, texts[i] as string]));
}

/** Names of the colours of the picture's pixels that are exactly those of the style sheet. */
async function coloursOf(page: Page): Promise<string[]> {
  return JSON.parse(
    await page.evaluate<string>(`(() => {
      const canvas = document.getElementById('picture');
      const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
      const style = getComputedStyle(document.documentElement);
      const names = new Map();
      for (const name of ['compute', 'communication', 'waiting', 'moving', 'failed', 'marked']) {
        const hex = style.getPropertyValue('--' + name).trim().slice(1);
        const full = hex.length === 3 ? [...hex].map((digit) => digit + digit).join('') : hex;
        names.set(Number.parseInt(full, 16), name);
      }
      const found = [];
      for (let i = 0; i < data.length; i += 4) {
        const name = names.get(data[i] * 65536 + data[i + 1] * 256 + data[i + 2]);
        if (name !== undefined) found.push(name);
      }
      return JSON.stringify(found);
    })()`),
  ) as string[];
}

async function pixelAt(page: Page, x: number, y: number): Promise<string> {
  return page.evaluate<string>(
    `[...document.getElementById('picture').getContext('2d').getImageData(${x}, ${y}, 1, 1).data].slice(0, 3).join()`,
  );
}
