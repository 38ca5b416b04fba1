// The box in a cell: what it shows, that nothing in it becomes markup, and how large it gets.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { statusOf } from '../../../test/support/status-examples.ts';
import type { JobView, RankView } from '../../observe/status/job-view.ts';
import type { RankStatus } from '../../observe/status/rank-status.ts';
import { JobProgress } from './job-progress.ts';
import { boxText, maxBoxBytes, progressBox } from './progress-box.ts';

const start = 1_000_000;

function viewOf(
  size: number,
  at: number,
  each: (rank: number) => Partial<RankStatus & RankView> = () => ({}),
): JobView {
  const ranks = Array.from({ length: size }, (_, rank): RankView => {
    const { presence = 'here', end, activity = 'busy', ...status } = each(rank);
    return {
      rank,
      presence,
      end,
      activity,
      isLocal: true,
      status: statusOf({ rank, updatedAt: at, ...status }),
    };
  });
  return { id: 'job', command: 'train.ipynb', ranks, hosts: [] };
}

function progressOf(size = 2): JobProgress {
  return new JobProgress('train.ipynb', size, start);
}

test('a box shows steps, the loss as a curve, samples per second, ranks and the last lines', () => {
  const progress = progressOf();
  for (let step = 1; step <= 20; step++)
    progress.see(
      viewOf(2, start + 100 * step, () => ({
        step,
        stepOf: 40,
        epoch: 1,
        epochs: 3,
        metrics: [
          ['loss', 1 / step],
          ['accuracy', 0.5],
        ],
        rates: { stepsPerSecond: 10, samplesPerSecond: 320, bytesPerSecond: 0 },
      })),
    );
  for (let line = 1; line <= 12; line++) progress.logs.add(1, 'stdout', `line ${line}`);
  progress.link({ title: 'Dashboard', url: 'http://127.0.0.1:4000/?token=ab' });
  const { html, text } = progressBox(progress.content(start + 2000));
  assert.equal(
    text,
    'train.ipynb on 2 ranks: 2 ranks train; nothing holds them up; epoch 1 of 3, step 20 of 40, loss 0.05, accuracy 0.5, 640 samples/s, 2.0 s left; 2.0 s',
  );
  assert.match(html, /width:50\.0%/);
  assert.match(html, /<polyline points="4\.0,4\.0 /);
  assert.match(html, /loss from 1 to 0\.05, steps 1 to 20/);
  assert.equal(html.match(/■/g)?.length, 2);
  assert.match(html, /2 at work/);
  assert.match(html, /\[1\]<\/span> line 3\n.*\[1\]<\/span> line 12<\/pre>/s);
  assert.doesNotMatch(html, /line 2\n/);
  assert.match(
    html,
    /<a href="http:\/\/127\.0\.0\.1:4000\/\?token=ab" target="_blank" rel="noopener noreferrer">Dashboard<\/a>/,
  );
});

test('text of ranks and users is never markup', () => {
  const evil = '<script>alert("1")</script><img src=x onerror=alert(2)>\x1b[31m';
  const progress = new JobProgress(evil, 1, start);
  progress.see(viewOf(1, start, () => ({ metrics: [[evil.slice(0, 40), 1]], presence: 'lost', end: evil })));
  progress.see(
    viewOf(1, start, () => ({ metrics: [[evil.slice(0, 40), 2]], step: 3, presence: 'lost', end: evil })),
  );
  progress.logs.add(0, 'stderr', evil);
  progress.note(evil);
  progress.link({ title: evil, url: 'http://127.0.0.1/"><script>' });
  progress.link({ title: 'script', url: 'javascript:alert(3)' });
  const before = progressBox(progress.content(start)).html;
  progress.end('failed', start, evil);
  for (const html of [before, progressBox(progress.content(start)).html]) {
    assert.doesNotMatch(html, /<script|<img|javascript:/);
    assert.ok(!html.includes('\x1b'));
    // Nothing but what we write ourselves.
    const tags = new Set(html.match(/<[a-z]+/g));
    for (const tag of tags)
      assert.match(tag, /^<(div|b|span|a|details|summary|pre|svg|title|rect|g|polyline)$/);
    assert.doesNotMatch(html, / on\w+=(?!alert)/);
  }
  assert.match(before, /&lt;script&gt;alert\(&quot;1&quot;\)/);
});

test('a loss that is no number is a gap, and is named', () => {
  const progress = progressOf(1);
  const losses = [3, 2, Number.NaN, 2.5, 1, Number.POSITIVE_INFINITY];
  for (const [step, loss] of losses.entries())
    progress.see(viewOf(1, start, () => ({ step: step + 1, metrics: [['loss', loss]] })));
  const { html, text } = progressBox(progress.content(start));
  assert.equal(html.match(/<polyline/g)?.length, 2);
  assert.match(html, /loss from 3 to 1, steps 1 to 5, Infinity at 2 of 6 points/);
  assert.match(text, /loss Infinity/);
  assert.doesNotMatch(html, /NaN,|,NaN/);
});

test('a loss that is never a number is said without a curve', () => {
  const progress = progressOf(1);
  for (const step of [1, 2])
    progress.see(viewOf(1, start, () => ({ step, metrics: [['loss', Number.NaN]] })));
  const { html } = progressBox(progress.content(start));
  assert.match(html, /loss, NaN at 2 of 2 points/);
  assert.doesNotMatch(html, /<svg/);
});

test('64 ranks, long lines and a long error fit into 20 kB', () => {
  const progress = progressOf(64);
  for (let step = 1; step <= 5000; step++)
    progress.see(
      viewOf(step < 5000 ? 1 : 64, start, (rank) => ({
        step,
        metrics: [['loss', Math.sin(step)]],
        ...(rank === 63 ? { presence: 'lost' as const, end: 'was killed by SIGKILL' } : {}),
      })),
    );
  for (let line = 0; line < 10; line++) progress.logs.add(line, 'stdout', '"<&>😀'.repeat(100_000));
  for (let count = 0; count < 9; count++) progress.note('"'.repeat(5000));
  const running = progress.content(start);
  assert.ok((running.curve?.points.length ?? 0) <= 201);
  const { html } = progressBox(running);
  assert.ok(Buffer.byteLength(html) <= maxBoxBytes, String(Buffer.byteLength(html)));
  assert.equal(html.match(/title="rank \d+: /g)?.length, 64);
  assert.match(html, /63 at work, 1 lost/);
  progress.end('failed', start, '"'.repeat(100_000));
  assert.ok(Buffer.byteLength(progressBox(progress.content(start)).html) <= maxBoxBytes);
});

test('of more ranks than there is room for, the others are counted', () => {
  const progress = progressOf(1000);
  progress.see(viewOf(1000, start));
  const { html } = progressBox(progress.content(start));
  assert.ok(Buffer.byteLength(html) <= maxBoxBytes);
  assert.match(html, /and 872 more.*1000 at work/);
});

test('who is late or lost has a line, and more than a colour', () => {
  const progress = progressOf(4);
  const pending = [{ label: 'allreduce "grad"', waitedMs: 4000, missing: [3] }];
  progress.see(viewOf(4, start, (rank) => (rank === 3 ? {} : { pending })));
  const { html, text } = progressBox(progress.content(start));
  assert.match(text, /rank 3 has kept the others waiting for 4\.0 s in allreduce "grad"/);
  assert.match(html, /◨.*◨.*◨.*▲.*3 waiting, 1 late/s);
});

test('before anything is known, and at the end', () => {
  const progress = progressOf(4);
  assert.equal(boxText(progress.content(start + 500)), 'train.ipynb on 4 ranks: starting; 0.5 s');
  // mpirun tells nothing but output.
  progress.logs.add(0, 'stdout', 'here');
  assert.equal(boxText(progress.content(start + 900)), 'train.ipynb on 4 ranks: running; 0.9 s');
  progress.link({ title: 'TensorBoard', url: 'http://127.0.0.1:6006/' });
  progress.end('done', start + 1000);
  const content = progress.content(start + 9000);
  assert.equal(boxText(content), 'train.ipynb on 4 ranks: done; 1.0 s');
  // What it leads to has ended with the job.
  assert.doesNotMatch(progressBox(content).html, /<a /);
});

test('logs are those of a rank as it printed them, or of all ranks with prefixes', () => {
  const progress = progressOf(2);
  progress.logs.add(1, 'stdout', 'a');
  progress.logs.add(0, 'stderr', 'b');
  progress.logs.add(1, 'stdout', '');
  assert.equal(progress.logText(1), 'a\n\n');
  assert.equal(progress.logText(), '[1]<stdout>:a\n[0]<stderr>:b\n[1]<stdout>:\n');
  assert.equal(progress.logText(7), '');
});
