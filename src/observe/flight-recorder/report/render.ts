// The report as text: the verdict first, then what each rank was doing.

import { plain } from '../../../console/terminal-text.ts';
import { isInternal, type RequestKind } from '../../../engine/description.ts';
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
    `Job ${first.job}${first.generation === undefined ? '' : `, generation ${first.generation}`}: ${first.size} ranks, flight records of ${dumps.length}, written ${new Date(first.atMs).toISOString()} (transport ${first.transport}, horovod ${first.versions?.['horovod'] ?? '?'}).`,
    ...notes.map((note) => `Note: ${note}`),
    '',
    ...verdict(report),
    '',
    ...table(dumps),
  ];
  if (missing.length > 0) {
    lines.push(
      '',
      `No flight record of ${listOf(missing)}. What the other ranks knew about ${missing.length === 1 ? 'it' : 'them'}:`,
    );
    lines.push(...missing.map((rank) => `  ${hearsay(dumps, rank)}`));
    lines.push(
      'Ranks on other hosts write to their own host. Copy their directories here and list all of them.',
    );
  }
  const stragglers = dumps.find((dump) => dump.stragglers !== undefined)?.stragglers;
  if (stragglers !== undefined) lines.push('', stragglers);
  return `${lines.map(plain).join('\n')}\n`;
}

export function verdict({ dumps, finding }: Report): string[] {
  const errors = dumps.flatMap(({ error }) => (error === undefined ? [] : [error.message]));
  const said = errors.length === 0 ? [] : [`The ranks failed with: ${errors[0]}`];
  const { kind, name, processSet, sides, culprits } = finding;
  const what = `${JSON.stringify(name)}${processSet === 0 ? '' : ` (process set ${processSet})`}`;
  const culprit = culprits.length === 0 ? [] : [`Culprit: ${listOf(culprits)}.`];
  switch (kind) {
    case 'different':
      return [
        `First mismatch: the ranks called ${what} differently.`,
        ...sides.map((side) => `  ${sideText(side, dumps)}`),
        ...(culprit.length > 0 ? culprit : [undecided(sides)]),
      ];
    case 'absent': {
      const absent = sides.flatMap(({ record, ranks }) => (record === undefined ? ranks : []));
      return [
        `First mismatch: ${listOf(absent)} did not call ${what}.`,
        ...sides.map((side) => `  ${sideText(side, dumps)}`),
        ...(culprit.length > 0 ? culprit : [undecided(sides)]),
      ];
    }
    case 'lost':
      return [...said, ...culprit.map((text) => `${text} It was lost. There was no mismatch before that.`)];
    case 'failed':
      return [...said, 'There is no mismatch in the flight records.', ...culprit];
    case 'none':
      return ['No mismatch: the flight records of the ranks agree.'];
  }
}

function undecided(sides: readonly Side[]): string {
  return sides.length > 1
    ? 'Culprit: one of them; no side has a majority.'
    : 'They differ in something that flight records do not contain, such as scales or compression. The error of the call says what it is.';
}

function sideText({ ranks, record, what }: Side, dumps: readonly FlightDump[]): string {
  if (record === undefined) {
    const doing = ranks.slice(0, 4).map((rank) => {
      const dump = dumps.find((each) => each.rank === rank);
      return dump === undefined ? '' : ` Rank ${rank}: ${doingOf(dump).join(', ')}.`;
    });
    return `${listOf(ranks)} did not call it.${doing.join('')}`;
  }
  const dump = dumps.find((each) => each.rank === ranks[0]) as FlightDump;
  const site = record.callSite === undefined ? '' : `, called at ${record.callSite}`;
  const isWaiting = record.state === 'pending' || record.state === 'running';
  const waited = isWaiting ? `${record.state}${ageOf(record.submittedAtMs, dump, ' for')}` : record.state;
  return `${listOf(ranks)}: ${what} (number ${record.sequence}), ${waited}${site}.`;
}

const headers = ['rank', 'host', 'pid', 'written on', 'step', 'collectives', 'activity', 'call site'];

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
    const whom = missing.length === 0 ? '' : ` for ${listOf(missing)}`;
    return withSite(
      waiting,
      `waiting${ageOf(waiting.submittedAtMs, dump, '')}${whom} in ${labelOf(waiting)}`,
    );
  }
  const last = dump.records.findLast(({ kind }) => !isInternal({ kind: kind as RequestKind }));
  if (last === undefined) return ['no collective yet'];
  const label = labelOf(last);
  const ended = last.state === 'failed' ? `failed in ${label} (${last.error ?? '?'})` : `finished ${label}`;
  return withSite(last, `${ended}${ageOf(last.finishedAtMs, dump, '', ' ago')}`);
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
