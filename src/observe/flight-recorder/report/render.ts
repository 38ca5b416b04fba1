// The report as text: the verdict first, then what each rank was doing.

import { plain } from '../../../console/terminal-text.ts';
import type { DumpedRequest, FlightDump } from '../flight-dump.ts';
import type { CollectiveRecord } from '../flight-recorder.ts';
import type { Finding, Side } from './analyse.ts';
import { whatOf } from './analyse.ts';

export interface Report {
  readonly dumps: readonly FlightDump[];
  readonly notes: readonly string[];
  readonly finding: Finding;
}

export function renderReport(report: Report): string {
  const { dumps, notes } = report;
  const [first] = dumps as readonly [FlightDump, ...FlightDump[]];
  const missing = ranksWithoutDump(dumps);
  const lines = [
    `Job ${first.job}: ${first.size} ranks, dumps of ${dumps.length}, written ${new Date(first.atMs).toISOString()} (transport ${first.transport}, horovod ${first.versions?.['horovod'] ?? '?'}).`,
    ...notes.map((note) => `Note: ${note}`),
    '',
    ...verdict(report),
    '',
    ...table(dumps),
  ];
  if (missing.length > 0) {
    lines.push(
      '',
      `No dump of ${listOf(missing)}. What the others knew of ${missing.length === 1 ? 'it' : 'them'}:`,
    );
    lines.push(...missing.map((rank) => `  ${hearsay(dumps, rank)}`));
    lines.push(
      'Ranks of other hosts write theirs on their host: copy all into one directory, or name several.',
    );
  }
  const stragglers = dumps.find((dump) => dump.stragglers !== undefined)?.stragglers;
  if (stragglers !== undefined) lines.push('', stragglers);
  return `${lines.map(plain).join('\n')}\n`;
}

export function verdict({ dumps, finding }: Report): string[] {
  const errors = dumps.flatMap(({ error }) => (error === undefined ? [] : [error.message]));
  const said = errors.length === 0 ? [] : [`The ranks ended with: ${errors[0]}`];
  const { kind, name, processSet, sides, culprits } = finding;
  const where = `${JSON.stringify(name)}${processSet === 0 ? '' : ` of process set ${processSet}`}`;
  const culprit = culprits.length === 0 ? [] : [`Culprit: ${listOf(culprits)}.`];
  switch (kind) {
    case 'different':
      return [
        `First mismatch: ${where}, for which the ranks asked differently.`,
        ...sides.map((side) => `  ${sideText(side, dumps)}`),
        ...(culprit.length > 0 ? culprit : [undecided(sides)]),
      ];
    case 'absent':
      return [
        `First mismatch: ${where}, which ${listOf(culprits)} never asked for.`,
        ...sides.map((side) => `  ${sideText(side, dumps)}`),
        ...culprit,
      ];
    case 'lost':
      return [...said, ...culprit.map((text) => `${text} It was lost; no mismatch came before.`)];
    case 'failed':
      return [...said, 'The records of the ranks that have dumps agree with each other.', ...culprit];
    case 'none':
      return ['No mismatch: the records of the ranks agree with each other.'];
  }
}

function undecided(sides: readonly Side[]): string {
  return sides.length > 1
    ? 'Culprit: one of them; neither side has more ranks.'
    : 'They differ in what records do not hold, such as scales or compression: the error of the call says in what.';
}

function sideText({ ranks, record, what }: Side, dumps: readonly FlightDump[]): string {
  if (record === undefined) {
    const doing = ranks.slice(0, 4).map((rank) => {
      const dump = dumps.find((each) => each.rank === rank);
      return dump === undefined ? '' : ` Rank ${rank}: ${doingOf(dump).join(', ')}.`;
    });
    return `${listOf(ranks)} never came.${doing.join('')}`;
  }
  const dump = dumps.find((each) => each.rank === ranks[0]) as FlightDump;
  const site = record.callSite === undefined ? '' : `, called at ${record.callSite}`;
  const isWaiting = record.state === 'pending' || record.state === 'running';
  const waited = isWaiting ? `${record.state}${ageOf(record.submittedAtMs, dump, ' for')}` : record.state;
  return `${listOf(ranks)}: ${what} (number ${record.sequence}), ${waited}${site}.`;
}

const headers = ['rank', 'host', 'pid', 'dump', 'step', 'collectives', 'was doing', 'call site'];

function table(dumps: readonly FlightDump[]): string[] {
  const rows = dumps.map((dump) => {
    const { rank, host, pid, reason, step, collectives } = dump;
    const [doing, site] = doingOf(dump);
    return [rank, host, pid, reason, step, collectives, doing, site ?? ''].map(String);
  });
  const widths = headers.map((header, i) =>
    Math.max(...[header, ...rows.map((row) => row[i] as string)].map((text) => text.length)),
  );
  return [headers, ...rows].map((row) =>
    row
      .map((text, i) => text.padEnd(widths[i] as number))
      .join('  ')
      .trimEnd(),
  );
}

/** What a rank was doing when it wrote its dump, and where it was called from. */
export function doingOf(dump: FlightDump): string[] {
  const waiting = dump.records.find(({ state }) => state === 'pending' || state === 'running');
  if (waiting !== undefined) {
    const missing = dump.pending.find((request) => isOf(request, waiting))?.missing ?? [];
    const whom = missing.length === 0 ? '' : `, without ${listOf(missing)}`;
    return withSite(waiting, `in ${labelOf(waiting)}${ageOf(waiting.submittedAtMs, dump, ' for')}${whom}`);
  }
  const last = dump.records.at(-1);
  if (last === undefined) return ['no collective yet'];
  const ended = last.state === 'failed' ? `failed (${last.error ?? '?'})` : 'done';
  return withSite(last, `after ${labelOf(last)}, ${ended}${ageOf(last.finishedAtMs, dump, '', ' ago')}`);
}

function withSite({ callSite }: CollectiveRecord, text: string): string[] {
  return callSite === undefined ? [text] : [text, callSite];
}

function isOf(request: DumpedRequest, { name, processSet }: CollectiveRecord): boolean {
  return request.name === name && request.processSet === processSet;
}

function labelOf(record: CollectiveRecord): string {
  return `${whatOf(record)} "${record.name}"`;
}

/** The clock of the dump is that of its records; 0: not known. */
function ageOf(atMs: number, { clockMs }: FlightDump, before: string, after = ''): string {
  if (atMs === 0) return '';
  const ms = Math.max(clockMs - atMs, 0);
  return `${before} ${ms < 10_000 ? `${(ms / 1000).toFixed(1)}` : Math.round(ms / 1000)} s${after}`;
}

export function ranksWithoutDump(dumps: readonly FlightDump[]): number[] {
  const [first] = dumps;
  const known = new Set(dumps.map(({ rank }) => rank));
  return Array.from({ length: first?.size ?? 0 }, (_, rank) => rank).filter((rank) => !known.has(rank));
}

function hearsay(dumps: readonly FlightDump[], rank: number): string {
  const mention = new RegExp(`^rank ${rank}\\b`);
  const newest = [...dumps].sort((a, b) => b.atMs - a.atMs);
  return newest.flatMap(({ others }) => others).find((text) => mention.test(text)) ?? `rank ${rank}: nothing`;
}

function listOf(ranks: readonly number[]): string {
  return ranks.length === 1 ? `rank ${ranks[0]}` : `ranks ${ranks.join(', ')}`;
}
