// The report as a page: one file that needs nothing else, with a picture of all ranks over time.

import { inBytes, inPercent, inTime, largestTensors, type RankShares, sharesOf } from './findings.ts';
import { count, verdicts } from './print.ts';
import type { Picture, TraceSummary } from './summary.ts';

const colours = {
  compute: '#4c9a6a',
  communication: '#3d6fb5',
  waiting: '#d98c3a',
  other: '#d7dbe0',
} as const;
const labels = {
  compute: 'compute (forward, backpropagation, update)',
  communication: 'communication',
  waiting: 'waiting for other ranks',
  other: 'other',
} as const;
type Colour = keyof typeof colours;

const width = 1000;
const nameWidth = 230;
const rowHeight = 34;
const mostRanks = 128;

export function htmlReport(summary: TraceSummary, title: string): string {
  const shares = summary.ranks.map(sharesOf).slice(0, mostRanks);
  const span = Math.max(0, summary.toUs - summary.fromUs);
  const began = summary.startedAt === undefined ? '' : `, starting at ${summary.startedAt.toISOString()}`;
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escapeText(title)}</title>
<style>
body { font: 15px/1.5 system-ui, sans-serif; color: #1d2530; background: #fff; margin: 2rem auto; max-width: 1080px; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin: 0 0 .25rem; } h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; }
p { margin: .25rem 0 .5rem; } svg { width: 100%; height: auto; display: block; } svg text { font: 12px system-ui, sans-serif; fill: #1d2530; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; } th, td { text-align: right; padding: .25rem .6rem; border-bottom: 1px solid #e6e9ed; }
th:first-child, td:first-child { text-align: left; max-width: 24rem; overflow-wrap: anywhere; } th { font-weight: 600; }
.legend span { display: inline-block; margin-right: 1.2rem; } .legend i { display: inline-block; width: .8rem; height: .8rem; margin-right: .4rem; vertical-align: -1px; }
@media (prefers-color-scheme: dark) { body { background: #14181d; color: #dfe5ec; } svg text { fill: #dfe5ec; } th, td { border-color: #2b333d; } }
</style>
</head>
<body>
<h1>${escapeText(title)}</h1>
<p>${count(summary.ranks.length, 'rank')} over ${inTime(span)}${began}.</p>
${verdicts(shares)
  .map((line) => `<p>${escapeText(line)}</p>`)
  .join('\n')}
<h2>Where the time went</h2>
<p class="legend">${legend()}</p>
${bars(shares)}
<h2>Over time</h2>
<p>Each strip is one rank. From bottom to top: compute, communication, waiting.</p>
${strips(summary)}
<h2>Ranks</h2>
${table(
  [
    'rank',
    'time',
    'compute',
    'exposed communication',
    'waiting',
    'operations',
    'bytes',
    'steps',
    'step',
    'longest step',
  ],
  shares.map(({ rank, spanUs, computeUs, exposedUs, waitingUs }) => [
    rank.name,
    inTime(spanUs),
    computeUs === undefined ? 'unknown' : inPercent(computeUs, spanUs),
    inPercent(exposedUs, spanUs),
    inPercent(waitingUs, spanUs),
    String(rank.operations),
    inBytes(rank.bytes),
    String(rank.steps),
    rank.steps === 0 ? '–' : inTime(rank.stepUs / rank.steps),
    rank.steps === 0 ? '–' : inTime(rank.longestStepUs),
  ]),
)}
<h2>Operations that took longest</h2>
${table(
  ['operation', 'kind', 'count', 'total', 'each', 'waiting', 'bytes each'],
  summary.operations
    .slice(0, 20)
    .map((each) => [
      each.name,
      each.kind,
      String(each.count),
      inTime(each.totalUs),
      inTime(each.totalUs / each.count),
      inPercent(each.waitUs, each.totalUs),
      inBytes(each.bytes / each.count),
    ]),
)}
<h2>Largest tensors</h2>
${table(
  ['operation', 'bytes', 'dtype', 'shape', 'each'],
  largestTensors(summary, 20).map((each) => [
    each.name,
    inBytes(each.mostBytes),
    each.dtype,
    each.shape,
    inTime(each.totalUs / each.count),
  ]),
)}
</body>
</html>
`;
}

function legend(): string {
  return (Object.keys(colours) as Colour[])
    .map((kind) => `<span><i style="background:${colours[kind]}"></i>${labels[kind]}</span>`)
    .join('');
}

/** One bar for each rank, cut by shares. */
function bars(shares: readonly RankShares[]): string {
  const longest = Math.max(1, ...shares.map(({ spanUs }) => spanUs));
  const rows = shares.map(({ rank, spanUs, computeUs, exposedUs, waitingUs, otherUs }, row) => {
    // Of the exposed part, the waiting comes first; hidden waiting is not in the way of anything.
    const waiting = Math.min(waitingUs, exposedUs);
    const parts: [Colour, number][] = [
      ['compute', computeUs ?? 0],
      ['communication', exposedUs - waiting],
      ['waiting', waiting],
      ['other', otherUs],
    ];
    const y = row * rowHeight + 6;
    let x = nameWidth;
    const drawn = parts.map(([kind, us]) => {
      const length = ((width - nameWidth) * us) / longest;
      const share = `${labels[kind]}: ${inTime(us)}, ${inPercent(us, spanUs)}`;
      const bar = `<rect x="${fixed(x)}" y="${y}" width="${fixed(length)}" height="22" fill="${colours[kind]}"><title>${escapeText(`${rank.name} – ${share}`)}</title></rect>`;
      x += length;
      return length > 0 ? bar : '';
    });
    return `<text x="0" y="${y + 15}">${escapeText(shorten(rank.name))}</text>${drawn.join('')}`;
  });
  return svg(rows.length * rowHeight + 6, rows, 'Shares of time of each rank');
}

function strips(summary: TraceSummary): string {
  const ranks = summary.ranks.slice(0, mostRanks);
  const binUs = Math.max(...ranks.map(({ picture }) => picture.binUs), 1);
  for (const { picture } of ranks) picture.widenTo(binUs);
  const bins = Math.max(1, Math.ceil(summary.toUs / binUs));
  const rows = ranks.map(({ name, picture }, row) => {
    const y = row * rowHeight + 4;
    const text = `<text x="0" y="${y + 17}">${escapeText(shorten(name))}</text>`;
    const ground = `<rect x="${nameWidth}" y="${y}" width="${width - nameWidth}" height="26" fill="${colours.other}"/>`;
    return `${text}${ground}${strip(picture, bins, y)}`;
  });
  const axisY = ranks.length * rowHeight + 16;
  const ticks = [0, 0.25, 0.5, 0.75, 1].map((part) => {
    const x = nameWidth + part * (width - nameWidth);
    const anchor = part === 0 ? 'start' : part === 1 ? 'end' : 'middle';
    return `<text x="${fixed(x)}" y="${axisY}" text-anchor="${anchor}">${inTime(part * bins * binUs)}</text>`;
  });
  return svg(axisY + 8, [...rows, ...ticks], 'What each rank did over time');
}

/** One path for each colour: hundreds of bins are few bytes. */
function strip(picture: Picture, bins: number, top: number): string {
  const height = 26;
  const binWidth = (width - nameWidth) / bins;
  const { compute, communication, waiting } = picture.filled;
  const paths: Record<'compute' | 'communication' | 'waiting', string> = {
    compute: '',
    communication: '',
    waiting: '',
  };
  for (let bin = 0; bin < bins; bin++) {
    const waited = Math.min((waiting[bin] as number) / picture.binUs, 1);
    const moved = Math.max(0, Math.min((communication[bin] as number) / picture.binUs, 1) - waited);
    const computed = Math.min((compute[bin] as number) / picture.binUs, 1 - Math.min(1, waited + moved));
    let bottom = top + height;
    for (const [kind, share] of [
      ['compute', computed],
      ['communication', moved],
      ['waiting', waited],
    ] as const) {
      if (share <= 0) continue;
      const tall = share * height;
      paths[kind] +=
        `M${fixed(nameWidth + bin * binWidth)} ${fixed(bottom - tall)}h${fixed(binWidth)}v${fixed(tall)}h${fixed(-binWidth)}z`;
      bottom -= tall;
    }
  }
  return (Object.keys(paths) as (keyof typeof paths)[])
    .map((kind) => (paths[kind] === '' ? '' : `<path d="${paths[kind]}" fill="${colours[kind]}"/>`))
    .join('');
}

function svg(height: number, parts: readonly string[], label: string): string {
  return `<svg viewBox="0 0 ${width} ${height}" role="img" aria-label="${label}" xmlns="http://www.w3.org/2000/svg">${parts.join('\n')}</svg>`;
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  if (rows.length === 0) return '<p>None.</p>';
  const cells = (row: readonly string[], tag: string) =>
    row.map((text) => `<${tag}>${escapeText(text)}</${tag}>`).join('');
  return `<table><thead><tr>${cells(head, 'th')}</tr></thead><tbody>${rows.map((row) => `<tr>${cells(row, 'td')}</tr>`).join('\n')}</tbody></table>`;
}

function shorten(name: string): string {
  return name.length > 34 ? `${name.slice(0, 33)}…` : name;
}

function fixed(value: number): string {
  return String(Math.round(value * 100) / 100);
}

function escapeText(text: string): string {
  const marks: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' };
  return text.replace(/[&<>"]/g, (mark) => marks[mark] as string);
}
