import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { traceOf } from '../../../../test/support/trace-of-ranks.ts';
import { inlineModules } from './inline-modules.ts';
import { insideOf, onAllRanks, outermost, type Place, type RankRows, rowsOf } from './page/rows.ts';
import { around, moved, ticksOf, withinEnd, zoomed } from './page/span.ts';
import type { TraceEvent } from './read-trace.ts';
import { SliceCensus, SliceCollector } from './slices.ts';
import { SummaryBuilder } from './summary.ts';
import type { TimelineData } from './timeline-data.ts';

function dataOf(events: readonly object[], maxSlices?: number): TimelineData {
  const defaults = { name: '', ts: 0, dur: 0, pid: 0, tid: 0, cat: '', args: {} };
  const all = events.map((event) => ({ ...defaults, ...event }) as TraceEvent);
  const [summary, census] = [new SummaryBuilder(), new SliceCensus()];
  for (const event of all) {
    summary.add(event);
    census.add(event);
  }
  const collector = new SliceCollector(census, { maxSlices });
  for (const event of all) collector.add(event);
  const built = summary.end();
  assert.ok(built !== undefined);
  return collector.end(built);
}

function placeOf(ranks: readonly RankRows[], data: TimelineData, rank: number, name: string): Place {
  for (const row of ranks[rank]?.rows ?? []) {
    const at = row.name.indexOf(data.names.indexOf(name));
    if (at >= 0) return { row, at };
  }
  return assert.fail(`rank ${rank} has no ${name}`);
}

const slice = (pid: number, tid: number, name: string, ts: number, dur: number, args: object = {}) => ({
  name,
  ph: 'X',
  ts,
  dur,
  pid,
  tid,
  args,
});
const ranks = (count: number) =>
  Array.from({ length: count }, (_, rank) => ({
    name: 'process_name',
    ph: 'M',
    pid: rank + 1,
    args: { name: `rank ${rank} (host, pid 9)` },
  }));

test('slices keep their nesting, to the nanosecond', () => {
  const data = dataOf([
    ...ranks(1),
    slice(1, 10, 'first', 10.001, 5.002, { kind: 'allreduce' }),
    slice(1, 10, 'NEGOTIATE_ALLREDUCE', 10.001, 3),
    slice(1, 10, 'ALLREDUCE', 13.001, 2),
    slice(1, 10, 'PACK', 13.001, 1.999),
    // It begins two nanoseconds after the one before.
    slice(1, 10, 'second', 15.005, 1, { kind: 'allreduce' }),
  ]);
  const [rank] = rowsOf(data) as [RankRows];
  assert.deepEqual(
    rank.rows.map(({ kind, depth, name, from }) => [
      kind,
      depth,
      [...name].map((id) => data.names[id]),
      [...from],
    ]),
    [
      ['operation', 0, ['first', 'second'], [10.001, 15.005]],
      ['part', 1, ['NEGOTIATE_ALLREDUCE', 'ALLREDUCE'], [10.001, 13.001]],
      ['part', 2, ['PACK'], [13.001]],
    ],
  );
  const pack = placeOf([rank], data, 0, 'PACK');
  assert.deepEqual(outermost(pack), placeOf([rank], data, 0, 'first'));
  const inner = insideOf([rank], outermost(pack)).map(({ row, at }) => data.names[row.name[at] as number]);
  assert.deepEqual(inner, ['NEGOTIATE_ALLREDUCE', 'ALLREDUCE']);
});

test('a collective is found on other ranks by the moment that all of them share, whatever a file lacks', () => {
  const args = { kind: 'allreduce' };
  const data = dataOf([
    ...ranks(3),
    slice(1, 10, 'grad', 0, 10, args),
    slice(1, 10, 'grad', 20, 10, args),
    slice(2, 10, 'grad', 8, 2, args),
    slice(2, 11, 'grad', 27, 3, args),
    // Rank 2 has the second one only, and another of another name at the same time.
    slice(3, 10, 'other', 20, 10, args),
    slice(3, 11, 'grad', 29, 1, args),
  ]);
  const all = rowsOf(data);
  const [first] = all as [RankRows];
  const times = (at: number) =>
    onAllRanks(all, { row: first.rows[0] as Place['row'], at }).map(({ row, at: other }) => [
      row.rank.rank,
      row.from[other],
    ]);
  assert.deepEqual(times(0), [
    [0, 0],
    [1, 8],
  ]);
  assert.deepEqual(times(1), [
    [0, 20],
    [1, 27],
    [2, 29],
  ]);
});

test('a page holds as many slices as it may: the longest, and the marks that matter', () => {
  const marks = [
    { name: 'RESET', ph: 'i', pid: 1, tid: 5, ts: 5 },
    { name: 'CYCLE_START', ph: 'i', pid: 1, tid: 3, ts: 6 },
  ];
  const many = [...traceOf({ ranks: 2, steps: 50, operations: 20 }), ...marks];
  const all = many.filter((event) => 'ph' in event && event.ph !== 'M').length;
  assert.equal(dataOf(many).leftOut, 0);
  const data = dataOf(many, 1000);
  const kept = data.ranks
    .flatMap(({ tracks }) => tracks)
    .reduce((sum, { slices }) => sum + slices.length / 4, 0);
  assert.ok(kept <= 1001 && kept > 500, `${kept} of ${all}`);
  assert.equal(kept + data.leftOut, all);
  assert.ok(data.minUs > 100);
  assert.ok(data.names.includes('RESET') && !data.names.includes('CYCLE_START'));
});

test('what is visible stays within the timeline, and what is under the pointer stays there', () => {
  assert.deepEqual(zoomed({ fromUs: 0, toUs: 100 }, 0.5, 0.25, 1000), { fromUs: 12.5, toUs: 62.5 });
  assert.deepEqual(zoomed({ fromUs: 900, toUs: 1000 }, 100, 0.5, 1000), { fromUs: 0, toUs: 1000 });
  assert.deepEqual(moved({ fromUs: 900, toUs: 1000 }, 5, 1000), { fromUs: 900, toUs: 1000 });
  assert.deepEqual(withinEnd({ fromUs: -50, toUs: 50 }, 1000), { fromUs: 0, toUs: 100 });
  const nearest = zoomed({ fromUs: 10, toUs: 11 }, 1e-9, 0.5, 1000);
  assert.ok(nearest.toUs - nearest.fromUs >= 0.19);
  assert.deepEqual(around({ fromUs: 0, toUs: 100 }, 500, 510, 1000), { fromUs: 455, toUs: 555 });
  assert.deepEqual(around({ fromUs: 0, toUs: 1000 }, 500, 510, 1000), { fromUs: 485, toUs: 525 });
});

test('an axis has round times, with the digits that tell them apart', () => {
  const texts = (fromUs: number, toUs: number, gapUs: number) =>
    ticksOf({ fromUs, toUs }, gapUs).map(({ text }) => text);
  assert.deepEqual(texts(0, 1e6, 0.4e6), ['0', '0.5 s', '1.0 s']);
  assert.deepEqual(texts(2_560_000, 2_580_000, 9000), ['2.56 s', '2.57 s', '2.58 s']);
  assert.deepEqual(texts(100, 1000, 300), ['0.5 ms', '1.0 ms']);
  assert.deepEqual(texts(10, 13, 0.9), ['10 µs', '11 µs', '12 µs', '13 µs']);
});

test('the modules of a page become one script, or an error says which line or name cannot be in it', (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'hvd-inline-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const write = (name: string, text: string) => writeFileSync(join(folder, name), text);
  const entry = pathToFileURL(join(folder, 'main.js'));
  write(
    'main.js',
    "import { a } from './a.js';\nimport {\n  b,\n} from './b.js';\nglobalThis.sum = a + b();\n",
  );
  write('a.js', "import { b } from './b.js';\nexport const a = b() + 1;\n//# sourceMappingURL=a.js.map");
  write('b.js', 'export function b() { return 1; }\n');
  const found: { sum?: number } = {};
  new Function('globalThis', inlineModules(entry))(found);
  assert.equal(found.sum, 3);
  write('b.js', 'export function b() { return 1; }\nconst a = 2;\n');
  assert.throws(() => inlineModules(entry), /two modules of a page have a top-level a/);
  write('b.js', "import fs from 'node:fs';\nexport function b() { return fs; }\n");
  assert.throws(() => inlineModules(entry), /cannot have this line: import fs from 'node:fs';/);
});
