// The page of `horovod timeline report --html` as a browser lays it out, in a wide window and in those as narrow as a phone. Long names of hosts and variables are in it, because they are what breaks a layout.

import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import type { Page } from 'playwright-core';
import { run as horovod } from '../../../src/cli/main.ts';
import { findBrowser, type OpenPage, startBrowser, type TestBrowser } from '../../support/browser.ts';
import { keepOutput } from '../../support/command-output.ts';
import { traceOf } from '../../support/trace-of-ranks.ts';

const found = findBrowser();

interface Box {
  readonly text: string;
  readonly left: number;
  readonly right: number;
  readonly top: number;
  readonly bottom: number;
  /** Where its text ends. */
  readonly textBottom: number;
  /** Lines of its text. */
  readonly lines: number;
  /** Less of the text is visible than there is. */
  readonly isCut: boolean;
}

describe('the HTML report of a timeline', { skip: 'reason' in found && found.reason }, () => {
  let folder: string;
  let url: string;
  let browser: TestBrowser;

  before(async () => {
    folder = mkdtempSync(join(tmpdir(), 'hvd-report-page-'));
    const [trace, page] = [join(folder, 'trace.json'), join(folder, 'report.html')];
    writeFileSync(trace, JSON.stringify(traceOf({ ranks: 4, steps: 30 })));
    const output = keepOutput();
    assert.equal(await horovod(['timeline', 'report', trace, '--html', page], output), 0, output.said.error);
    url = pathToFileURL(page).href;
    browser = await startBrowser('path' in found ? found.path : '');
  });
  after(async () => {
    await browser?.[Symbol.asyncDispose]();
    rmSync(folder, { recursive: true });
  });

  for (const width of [1400, 500, 400]) {
    describe(`${width} pixels wide`, () => {
      let opened: OpenPage;
      before(async () => {
        opened = await browser.open(url, { width, height: 900 });
      });
      after(() => opened.page.close());

      test('has no errors, needs nothing from elsewhere, and scrolls in one direction only', async () => {
        assert.deepEqual(opened.problems, []);
        const [shown, all] = await opened.page.evaluate<[number, number]>(
          '[document.documentElement.clientWidth, document.documentElement.scrollWidth]',
        );
        assert.ok(all <= shown, `${all} pixels in a window of ${shown}`);
      });

      test('a figure takes one line, in tables, in the head and along the axes', async () => {
        const figures = await boxesOf(opened, 'td:not(:first-child), th, .axis span, .plot .y span');
        assert.ok(figures.length > 100);
        assert.deepEqual(
          figures.filter(({ lines }) => lines > 1).map(({ text }) => text),
          [],
        );
        const facts = await boxesOf(opened, '.facts dd');
        const numbers = facts.filter(({ text }) => /^[\d,.]+ /.test(text));
        assert.ok(numbers.length >= 3, JSON.stringify(facts));
        assert.deepEqual(
          numbers.filter(({ lines }) => lines > 1).map(({ text }) => text),
          [],
        );
      });

      test('the name of a rank is readable: on one line beside a bar or above it, in a few lines in tables', async () => {
        const names = await boxesOf(opened, '.row .name');
        assert.ok(names.length >= 8);
        for (const { text, lines, left, right } of names) {
          assert.match(text, /^rank \d /);
          assert.equal(lines, 1, text);
          assert.ok(right - left >= 150, `${text}: ${right - left} pixels`);
        }
        for (const { text, lines } of await boxesOf(opened, 'td:first-child')) {
          assert.ok(lines <= Math.ceil(text.length / 12), `${text}: ${lines} lines`);
        }
      });

      test('bars and strips of the ranks have the same left and right edge and follow their names', async () => {
        const rows = await boxesOf(opened, '.row > .bar, .row > .strip');
        const names = await boxesOf(opened, '.row > .name');
        assert.equal(rows.length, names.length);
        const [first] = rows as [Box, ...Box[]];
        rows.forEach(({ left, right, top, bottom }, i) => {
          const name = names[i] as Box;
          assert.deepEqual([left, right], [first.left, first.right]);
          assert.ok(right - left > width / 2, `${right - left} pixels`);
          if (width > 640) {
            const middle = (name.top + name.bottom) / 2;
            assert.ok(name.right <= left && top <= middle && middle <= bottom);
          } else assert.ok(name.bottom <= top && top - name.bottom < 20);
        });
      });

      test('what is written on a bar fits in its part, and labels of an axis do not touch', async () => {
        const parts = (await boxesOf(opened, '.bar span')).filter(({ text }) => text !== '');
        assert.ok(parts.length >= 8);
        assert.ok(parts.every(({ text }) => /^\d+ %$/.test(text)));
        assert.deepEqual(
          parts.filter(({ isCut }) => isCut),
          [],
        );
        for (const axis of await opened.page.$$('.axis')) {
          const labels = (await boxesIn(axis, 'span')).filter(({ text }) => text !== '');
          assert.equal(labels.length, 5);
          labels.slice(1).forEach(({ text, left }, i) => {
            const before = labels[i] as Box;
            assert.ok(left - before.right >= 4, `${before.text} and ${text} touch`);
          });
        }
      });

      test('a table that is wider than the window scrolls by itself, and each is as wide as its place', async () => {
        const tables = await boxesOf(opened, 'table');
        const places = await boxesOf(opened, '.scroll');
        assert.equal(tables.length, 3);
        tables.forEach((table, i) => {
          const place = places[i] as Box;
          assert.ok(place.right <= width);
          assert.ok(table.right - table.left >= place.right - place.left - 1);
          if (width > 640) assert.ok(table.right <= place.right + 1, 'all of it is visible');
        });
      });
    });
  }
});

async function boxesOf({ page }: OpenPage, selector: string): Promise<Box[]> {
  return boxesIn(await page.waitForSelector('body'), selector);
}

type Handle = NonNullable<Awaited<ReturnType<Page['waitForSelector']>>>;

/** Of the elements of this selector inside of another one. */
async function boxesIn(handle: Handle, selector: string): Promise<Box[]> {
  return JSON.parse(await handle.evaluate<string, string>(measure as never, selector)) as Box[];
}

// A text, because it runs in the page, whose types are not ours.
const measure = new Function(
  'root',
  'selector',
  `const boxOf = (element) => {
    const { left, right, top, bottom } = element.getBoundingClientRect();
    const range = document.createRange();
    range.selectNodeContents(element);
    const bottoms = [...range.getClientRects()].filter(({ width }) => width > 0).map((each) => each.bottom).sort((a, b) => a - b);
    // Small letters beside large ones end on the same line a little higher.
    const lines = bottoms.filter((each, i) => i === 0 || each - bottoms[i - 1] > 6).length;
    const isCut = element.scrollWidth > element.clientWidth + 1;
    return { text: element.textContent.trim(), left, right, top, bottom, textBottom: bottoms.at(-1), lines, isCut };
  };
  return JSON.stringify([...root.querySelectorAll(selector)].map(boxOf));`,
);
