import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { keepOutput } from '../../../../test/support/command-output.ts';
import { run as horovod } from '../../../cli/main.ts';
import { Intervals } from './intervals.ts';
import { StepSeries } from './step-series.ts';
import { Picture } from './summary.ts';

interface Scope {
  after(fn: () => void): void;
}

function directoryOf(t: Scope): string {
  const directory = mkdtempSync(join(tmpdir(), 'hvd-report-'));
  t.after(() => rmSync(directory, { recursive: true }));
  return directory;
}

async function run(...argv: string[]): Promise<{ code: number; out: string; error: string }> {
  const output = keepOutput();
  const code = await horovod(['timeline', ...argv], output);
  return { code, ...output.said };
}

const opening =
  '{"name":"process_name","ph":"M","ts":0,"pid":0,"tid":0,"args":{"start_time_since_epoch_in_micros":1000000}}';
const rankName = (rank: number) =>
  `{"name":"process_name","ph":"M","ts":0,"pid":${rank + 1},"tid":0,"args":{"name":"rank ${rank} (host<${rank}>, pid 9)","cores":1}}`;
const slice = (rank: number, tid: number, name: string, ts: number, dur: number, args: object = {}) =>
  JSON.stringify({ name, cat: 'allreduce', ph: 'X', ts, dur, pid: rank + 1, tid, args });

/** Rank 1 is slow: rank 0 waits 60 of 100 ms for it. */
function twoRanks(): string[] {
  const events = [opening, rankName(0), rankName(1)];
  for (const rank of [0, 1]) {
    const wait = rank === 0 ? 60_000 : 1000;
    const compute = 100_000 - wait - 10_000;
    events.push(
      slice(rank, 2, 'FORWARD', 0, compute / 2),
      slice(rank, 2, 'BACKPROP', compute / 2, compute / 2),
    );
    events.push(slice(rank, 2, 'EXPOSED_COMMUNICATION', compute, wait + 10_000));
    events.push(slice(rank, 1, 'step 1', 0, 100_000, { samples: 32 }));
    const args = { kind: 'allreduce', dtype: 'float32', shape: '[1000]', bytes: 4000 };
    events.push(slice(rank, 10, 'dense<1>/kernel', compute, wait + 10_000, args));
    events.push(slice(rank, 10, 'NEGOTIATE_ALLREDUCE', compute, wait));
    events.push(slice(rank, 10, 'ALLREDUCE', compute + wait, 10_000));
  }
  return events;
}

test('the report says where the time went, who is slow and what is large', async (t) => {
  const directory = directoryOf(t);
  const file = join(directory, 'trace.json');
  const page = join(directory, 'report.html');
  writeFileSync(file, `[\n${twoRanks().join(',\n')}\n]\n`);
  const { code, out, error } = await run('report', file, '--html', page);
  assert.equal(code, 0, error);
  assert.match(out, /^Timeline: 2 ranks over 100 ms/);
  assert.match(out, /rank 0 \(host<0>, pid 9\) +100 ms +30\.0 % +70\.0 % +60\.0 %/);
  assert.match(out, /rank 1 \(host<1>, pid 9\) +100 ms +89\.0 % +11\.0 % +1\.0 %/);
  assert.match(
    out,
    /Slowest: rank 1 .*the other ranks wait 59\.0 ms longer than it does \(59\.0 % of the time\)/,
  );
  assert.match(out, /dense<1>\/kernel +allreduce +2 +81\.0 ms +40\.5 ms +75\.3 % +3\.9 KiB/);
  const html = readFileSync(page, 'utf8');
  assert.match(html, /<svg /);
  assert.match(html, /dense&lt;1&gt;\/kernel/);
  assert.ok(!/(src|href)=|url\(|@import|^import /m.test(html), 'it needs nothing from elsewhere');
  assert.match(html, /default-src &#39;none&#39;;|default-src 'none';/);
  const { out: json } = await run('report', file, '--json');
  const figures = JSON.parse(json) as { ranks: { waitingUs: number; steps: number; samples: number }[] };
  assert.deepEqual(
    figures.ranks.map(({ waitingUs, steps, samples }) => [waitingUs, steps, samples]),
    [
      [60_000, 1, 32],
      [1000, 1, 32],
    ],
  );
});

test('the page has head, advice, percentages, step times and one step, and nothing takes 0 µs', async (t) => {
  const directory = directoryOf(t);
  const file = join(directory, 'trace.json');
  const page = join(directory, 'report.html');
  const [, ...events] = twoRanks();
  const first = JSON.parse(opening) as { args: object };
  const origin = { ...first, args: { ...first.args, version: '9.8.7', command: 'train.ts --epochs <3>' } };
  const second = [slice(0, 1, 'step 2', 100_000, 50_000), slice(0, 2, 'BACKPROP', 110_000, 30_000)];
  writeFileSync(file, `[\n${[JSON.stringify(origin), ...events, ...second].join(',\n')}\n]\n`);
  const { code, error } = await run('report', file, '--html', page);
  assert.equal(code, 0, error);
  const html = readFileSync(page, 'utf8');
  assert.match(html, /<dt>Command<\/dt><dd>train\.ts --epochs &lt;3&gt;<\/dd>/);
  assert.match(html, /<dd>2 on 2 hosts, 2 cores<\/dd>/);
  assert.match(html, /<dd>9\.8\.7<\/dd>/);
  assert.match(html, /<dd>1970-01-01 00:00:01 UTC<\/dd>/);
  assert.match(html, /<ul class="advice"><li>Slowest: rank 1 /);
  assert.match(html, /<span class="compute"[^>]*>89 %<\/span>/);
  assert.match(html, /<h2>Step time<\/h2>[\s\S]*<svg class="chart"/);
  assert.match(html, /<h2 id="timeline">Timeline<\/h2>[\s\S]*"names":\[[^\]]*"BACKPROP"/);
  assert.match(html, /<div class="name" title="rank 1 \(host&lt;1&gt;, pid 9\)">rank 1 <small>/);
  assert.doesNotMatch(html, /\b0 µs/);
});

/** Ranks on one host with one core, whose steps have one allreduce and no phases. */
function plainRanks(steps: number, stepUs: number, waits: readonly number[], workUs: number): string[] {
  const name = (rank: number) => rankName(rank).replace(`host<${rank}>`, 'host');
  const events = [opening, ...waits.map((_, rank) => name(rank))];
  for (const [rank, wait] of waits.entries()) {
    for (let step = 0; step < steps; step++) {
      const over = (step + 1) * stepUs;
      const from = over - wait - workUs;
      const args = { kind: 'allreduce', dtype: 'float32', shape: '[10]', bytes: 40 };
      events.push(slice(rank, 10, 'grad', from, over - from, args));
      if (wait > 0) events.push(slice(rank, 10, 'NEGOTIATE_ALLREDUCE', from, wait));
      events.push(slice(rank, 1, `step ${step + 1}`, step * stepUs, stepUs));
    }
  }
  return events;
}

test('advice: a larger batch for short steps, no more ranks than cores, and nobody blamed for 4 %', async (t) => {
  const directory = directoryOf(t);
  const file = join(directory, 'trace.json');
  const page = join(directory, 'report.html');
  writeFileSync(file, `[\n${plainRanks(50, 300, [12, 0], 114).join(',\n')}\n]\n`);
  const short = (await run('report', file)).out;
  assert.match(short, /A step takes 300 µs, of which 40 % is communication: use a larger batch/);
  assert.match(short, /2 ranks share 1 core on host and slow each other down/);
  assert.doesNotMatch(short, /Slowest/);
  assert.match(short, /No rank keeps the others waiting for long/);
  // The straggler computes 97 % of the time, outside of anything that Horovod knows.
  writeFileSync(file, `[\n${plainRanks(50, 100_000, [60_000, 0], 3000).join(',\n')}\n]\n`);
  const late = await run('report', file, '--html', page);
  assert.match(late.out, /Slowest: rank 1/);
  assert.doesNotMatch(late.out, /larger batch/);
  assert.match(
    readFileSync(page, 'utf8'),
    /<span class="script"[^>]*title="other code of your script: [^"]*">97 %</,
  );
});

test('step times keep their averages when there are too many to show', () => {
  const series = new StepSeries();
  for (let step = 0; step < 2000; step++) series.add(step * 10, step === 0 ? 500 : 10);
  assert.ok(series.points.length <= 400);
  assert.ok((series.points[0] as number) > 10);
  assert.deepEqual([...new Set(series.points.slice(1))], [10]);
  assert.equal(series.typical?.durationUs, 10);
  assert.equal(new StepSeries().typical, undefined);
});

test('a file whose end is missing gives what it has', async (t) => {
  const file = join(directoryOf(t), 'trace.json');
  const whole = `[\n${twoRanks().join(',\n')}\n]\n`;
  for (const text of [whole.slice(0, -3), whole.slice(0, -20)]) {
    writeFileSync(file, text);
    const { code, out, error } = await run('report', file);
    assert.equal(code, 0);
    assert.match(error, /the end of .* is missing/);
    assert.match(out, /Timeline: 2 ranks/);
  }
});

test('files that are not timelines are rejected', async (t) => {
  const directory = directoryOf(t);
  const file = join(directory, 'trace.json');
  for (const [text, expected] of [
    ['', /cannot read .*: it is empty\./],
    ['  \n', /it contains only white space/],
    ['hello', /it is not a timeline/],
    ['{"traceEvents":[]}', /it is not a timeline/],
    ['[{"a":1}]', /event 1 is invalid/],
    ['[{"ph":"X"} x]', /damaged after event 1/],
    ['[{"ph":}]', /event 1 is not JSON/],
    ['[{"ph":"X","name":"foreign","ts":1,"dur":1,"pid":1,"tid":1}]', /is not a Horovod timeline/],
    [`[${'{"ph":"X","name":"'}${'x'.repeat(2 << 20)}`, /larger than 1 MiB/],
  ] as const) {
    writeFileSync(file, text);
    const { code, error } = await run('report', file);
    assert.equal(code, 1, text.slice(0, 50));
    assert.match(error, expected);
  }
  assert.match((await run('report', '/nonexistent.json')).error, /there is no such file/);
  assert.match((await run('report', directory)).error, /it is a directory/);
  writeFileSync(file, `[${opening}]`);
  const { code, out } = await run('report', file);
  assert.equal(code, 0);
  assert.match(out, /0 ranks/);
  const unwritable = await run('report', file, '--html', '/nonexistent/x.html');
  assert.equal(unwritable.code, 1);
  assert.match(unwritable.error, /cannot write \/nonexistent\/x\.html/);
});

test('a wrong call exits with 2, and --help with 0', async () => {
  for (const [argv, expected] of [
    [[], /expected "report FILE" or "open FILE"/],
    [['show', 'f'], /not "show"/],
    [['report'], /FILE is missing/],
    [['report', 'a', 'b'], /expected one file; unexpected b/],
    [['report', 'a', '--colour'], /--colour/],
    [['report', 'a', '--speedscope'], /report has no option --speedscope/],
    [['open', 'a', '--json'], /open has no option --json/],
    [['open', 'a', '--port', '70000'], /--port: expected a port/],
  ] as const) {
    const { code, error } = await run(...argv);
    assert.equal(code, 2);
    assert.match(error, expected);
  }
  assert.match((await run('--help')).out, /^Usage: horovod timeline report FILE/);
});

test('intervals count once where they overlap, whatever their order', () => {
  const intervals = new Intervals();
  for (const [from, to] of [
    [0, 10],
    [20, 30],
    [5, 12],
    [11, 21],
    [40, 41],
    [2, 3],
    [7, 7],
  ] as const) {
    intervals.add(from, to);
  }
  assert.equal(intervals.length, 31);
  const many = new Intervals();
  for (let i = 0; i < 5000; i++) many.add(2 * i, 2 * i + 1);
  assert.equal(many.length, 5000);
});

test('a picture keeps its sums when its bins grow', () => {
  const picture = new Picture();
  picture.add('compute', 0, 1500);
  picture.add('compute', 1e6, 1e6 + 500);
  const sum = picture.filled.compute.reduce((total, each) => total + each, 0);
  assert.equal(sum, 2000);
  assert.equal(picture.binUs, 2000);
});
