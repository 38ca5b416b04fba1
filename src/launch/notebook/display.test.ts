// Where a job is shown, and how often.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type KernelDisplay, openDisplay } from './kernel-display.ts';
import { PacedDisplay } from './paced-display.ts';
import type { CellContent } from './progress-box.ts';

const content = (text: string): CellContent => ({ html: `<b>${text}</b>`, text });

test("in Deno's kernel, a box is replaced in place, with a text beside it", async () => {
  const sent: [type: string, content: unknown][] = [];
  const scope = {
    Deno: { jupyter: { broadcast: async (type: string, what: unknown) => void sent.push([type, what]) } },
  };
  const display = openDisplay('auto', assert.fail, scope);
  assert.equal(display.kind, 'box');
  for (const text of ['a', 'b', 'c']) await display.show(content(text));
  const [[, first] = []] = sent;
  const { display_id: id } = (first as { transient: { display_id: string } }).transient;
  assert.match(id, /^horovod-[0-9a-f]{12}$/);
  assert.deepEqual(
    sent,
    (['display_data', 'update_display_data', 'update_display_data'] as const).map((type, index) => {
      const text = 'abc'[index] as string;
      const data = { 'text/html': `<b>${text}</b>`, 'text/plain': text };
      return [type, { data, metadata: {}, transient: { display_id: id } }];
    }),
  );
});

test('a kernel that is ending harms nobody', async () => {
  const gone = () => {
    throw new Error('the kernel is gone');
  };
  const deno = openDisplay('auto', assert.fail, { Deno: { jupyter: { broadcast: gone } } });
  await deno.show(content('a'));
  const rejecting = openDisplay('auto', assert.fail, {
    Deno: { jupyter: { broadcast: async () => gone() } },
  });
  await rejecting.show(content('a'));
  await openDisplay({ html: gone }, assert.fail).show(content('a'));
});

test("a display of tslab is given, and 'text' and other kernels get lines", async () => {
  const shown: string[] = [];
  const display = openDisplay({ html: (html) => shown.push(html) }, assert.fail);
  assert.equal(display.kind, 'box');
  await display.show(content('a'));
  assert.deepEqual(shown, ['<b>a</b>']);
  const lines: string[] = [];
  for (const wanted of ['auto', 'text'] as const) {
    const text = openDisplay(wanted, (line) => lines.push(line), {});
    assert.equal(text.kind, 'text');
    await text.show(content('same'));
    await text.show(content('same'));
  }
  // Deno outside of a kernel throws where its Jupyter functions are read.
  const { kind } = openDisplay('auto', assert.fail, {
    Deno: Object.defineProperty({}, 'jupyter', { get: assert.fail }),
  });
  assert.equal(kind, 'text');
  assert.deepEqual(lines, ['same', 'same']);
  await openDisplay('none', assert.fail, {}).show(content('a'));
});

test('a box is sent at most four times a second, one at a time, and the last one always', async () => {
  let now = 0;
  const timers: { at: number; run: () => void }[] = [];
  const clock = {
    nowMs: () => now,
    after(ms: number, run: () => void) {
      const timer = { at: now + ms, run };
      timers.push(timer);
      return () => void timers.splice(timers.indexOf(timer) >>> 0, 1);
    },
  };
  const sent: string[] = [];
  let arrive = () => {};
  const display: KernelDisplay = {
    kind: 'box',
    show({ text }) {
      sent.push(text);
      return new Promise((resolve) => {
        arrive = resolve;
      });
    },
  };
  const later = async (ms: number) => {
    now += ms;
    for (const timer of timers.filter(({ at }) => at <= now)) {
      timers.splice(timers.indexOf(timer), 1);
      timer.run();
    }
    await new Promise((resolve) => setImmediate(resolve));
  };
  let version = 0;
  const paced = new PacedDisplay(display, () => content(String(version)), clock);
  const change = () => {
    version += 1;
    paced.changed();
  };
  for (let count = 0; count < 5; count++) change();
  await later(0);
  assert.deepEqual(sent, ['5']);
  for (let count = 0; count < 5; count++) change();
  await later(1000);
  assert.deepEqual(sent, ['5'], 'the first has not arrived');
  arrive();
  await later(0);
  await later(0);
  assert.deepEqual(sent, ['5', '10']);
  arrive();
  await later(0);
  change();
  await later(249);
  assert.deepEqual(sent, ['5', '10']);
  await later(1);
  assert.deepEqual(sent, ['5', '10', '11']);
  change();
  const ended = paced.end();
  arrive();
  await later(0);
  arrive();
  await ended;
  await later(1000);
  assert.deepEqual(sent, ['5', '10', '11', '12']);
});
