// The report as an HTML page in a single file.

import {
  adviceOn,
  count,
  type FindingsTable,
  inPercent,
  largestTensors,
  longestOperations,
  type RankShares,
  sharesOf,
} from './findings.ts';
import { escapeText, legend, mostDrawnRanks, shareBars, stepChart, strips } from './html-charts.ts';
import { styleSheet } from './html-style.ts';
import { contentPolicy, timelineScript, timelineSection } from './html-timeline.ts';
import { verdicts } from './print.ts';
import type { TraceSummary } from './summary.ts';
import type { TimelineData } from './timeline-data.ts';
import { inBytes, inTime } from './units.ts';

export interface PageOptions {
  /** A script that runs in the page as well, and may ask the page's own server for data. */
  readonly servedScript?: string | undefined;
}

export function htmlReport(
  summary: TraceSummary,
  title: string,
  data: TimelineData,
  { servedScript }: PageOptions = {},
): string {
  const shares = summary.ranks.map(sharesOf);
  const steps = stepChart(summary.ranks);
  const hidden = shares.length - mostDrawnRanks;
  const scripts = [timelineScript(), ...(servedScript === undefined ? [] : [servedScript])];
  const policy = contentPolicy(scripts, servedScript === undefined ? "'none'" : "'self'");
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<title>${escapeText(title)}</title>
<style>${styleSheet}</style>
</head>
<body>
<h1>${escapeText(title)}</h1>
${facts(summary, shares)}
${advice(shares)}
<h2>Where the time went</h2>
${legend()}
${shareBars(shares)}
${hidden > 0 ? `<p class="soft">The first ${mostDrawnRanks} ranks; the table below has all.</p>` : ''}
${verdicts(shares)
  .map((line) => `<p class="soft">${escapeText(line)}</p>`)
  .join('\n')}
<h2>Over time</h2>
<p class="soft">One strip for each rank, from the start of the timeline to its end.</p>
${strips(summary)}
${steps === '' ? '' : `<h2>Step time</h2>\n<p class="soft">How long each step took, by number of the step.</p>\n${steps}`}
${timelineSection(data)}
<h2>Ranks</h2>
${ranksTable(shares)}
<h2>Operations that took longest</h2>
<p class="soft">All ranks together.</p>
${table(longestOperations(summary, 20))}
<h2>Largest tensors</h2>
${table(largestTensors(summary, 20))}
${scripts.map((script) => `<script type="module">${script}</script>`).join('\n')}
</body>
</html>
`;
}

function facts(summary: TraceSummary, shares: readonly RankShares[]): string {
  const { command, version, startedAt, ranks } = summary;
  const hosts = new Map(
    ranks.map(({ name, cores }) => [/\((.*), pid \d+\)$/.exec(name)?.[1] ?? name, cores]),
  );
  const cores = [...hosts.values()].reduce<number>((sum, each) => sum + (each ?? 0), 0);
  const steps = Math.max(0, ...shares.map(({ rank }) => rank.steps));
  const stepUs = shares.reduce((sum, { rank }) => sum + rank.stepUs, 0);
  const allSteps = shares.reduce((sum, { rank }) => sum + rank.steps, 0);
  const samples = shares.reduce((sum, { rank }) => sum + rank.samples, 0);
  const span = Math.max(0, summary.toUs - summary.fromUs);
  const known: [string, string | undefined][] = [
    ['Command', command],
    [
      'Ranks',
      `${ranks.length} on ${count(hosts.size, 'host')}${cores > 0 ? `, ${count(cores, 'core')}` : ''}`,
    ],
    ['Started', startedAt && `${startedAt.toISOString().replace('T', ' ').slice(0, 19)} UTC`],
    ['Time', inTime(span)],
    ['Steps', steps === 0 ? undefined : `${steps}, ${inTime(stepUs / allSteps)} each`],
    [
      'Samples',
      samples === 0 ? undefined : `${Math.round(samples / (span / 1e6)).toLocaleString('en-US')} / s`,
    ],
    ['Horovod', version],
  ];
  const entries = known
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => `<div><dt>${name}</dt><dd>${escapeText(String(value))}</dd></div>`);
  return `<dl class="facts">${entries.join('')}</dl>`;
}

function advice(shares: readonly RankShares[]): string {
  const lines = adviceOn(shares).map((line) => `<li>${escapeText(line)}</li>`);
  if (lines.length === 0 && shares.length > 1) lines.push('<li class="good">Nothing stands out.</li>');
  return lines.length === 0 ? '' : `<ul class="advice">${lines.join('\n')}</ul>`;
}

function ranksTable(shares: readonly RankShares[]): string {
  const head = ['rank', 'time', 'compute', 'exposed comm.', 'waiting', 'operations', 'bytes'];
  return table({
    head: [...head, 'steps', 'step', 'longest step'],
    rows: shares.map(({ rank, spanUs, computeUs, exposedUs, waitingUs }) => [
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
  });
}

function table({ head, rows }: FindingsTable): string {
  if (rows.length === 0) return '<p>None.</p>';
  const cells = (row: readonly string[], tag: string) =>
    row.map((text) => `<${tag}>${escapeText(text)}</${tag}>`).join('');
  const body = rows.map((row) => `<tr>${cells(row, 'td')}</tr>`).join('\n');
  return `<div class="scroll"><table><thead><tr>${cells(head, 'th')}</tr></thead><tbody>${body}</tbody></table></div>`;
}
