// The report as text, for a terminal.

import { plain } from '../../../console/terminal-text.ts';
import {
  adviceOn,
  count,
  type FindingsTable,
  inPercent,
  largestTensors,
  longestOperations,
  type RankShares,
  sharesOf,
  slowestRank,
} from './findings.ts';
import type { TraceSummary } from './summary.ts';
import { inBytes, inTime } from './units.ts';

const mostRanks = 64;
const mostRows = 10;

export function printReport(summary: TraceSummary): string {
  const shares = summary.ranks.map(sharesOf);
  const lines: string[] = [];
  const span = Math.max(0, summary.toUs - summary.fromUs);
  const began = summary.startedAt === undefined ? '' : `, starting at ${summary.startedAt.toISOString()}`;
  const of = summary.command === undefined ? '' : ` of ${plain(summary.command)}`;
  lines.push(`Timeline${of}: ${count(shares.length, 'rank')} over ${inTime(span)}${began}.`, '');
  lines.push('Where the time went:');
  lines.push(...rankTable(shares));
  lines.push('', ...adviceOn(shares), ...verdicts(shares));
  lines.push('', 'Operations that took longest (all ranks together):');
  lines.push(...table(longestOperations(summary, mostRows)));
  const largest = largestTensors(summary, mostRows);
  if (largest.rows.length > 0) lines.push('', 'Largest tensors:', ...table(largest));
  return `${lines.join('\n')}\n`;
}

function rankTable(shares: readonly RankShares[]): string[] {
  const rows = shares
    .slice(0, mostRanks)
    .map(({ rank, spanUs, computeUs, exposedUs, waitingUs, otherUs }) => [
      rank.name,
      inTime(spanUs),
      computeUs === undefined ? 'unknown' : inPercent(computeUs, spanUs),
      inPercent(exposedUs, spanUs),
      inPercent(waitingUs, spanUs),
      inPercent(otherUs, spanUs),
      String(rank.operations),
      inBytes(rank.bytes),
      rank.steps === 0 ? '–' : inTime(rank.stepUs / rank.steps),
    ]);
  const head = ['', 'time', 'compute', 'exposed comm.', 'waiting', 'other', 'operations', 'bytes', 'step'];
  const rest = shares.length > mostRanks ? [`… and ${shares.length - mostRanks} more ranks`] : [];
  return [...table({ head, rows }), ...rest];
}

/** What the figures mean. */
export function verdicts(shares: readonly RankShares[]): string[] {
  const lines: string[] = [];
  if (shares.length > 1 && slowestRank(shares) === undefined) {
    lines.push('No rank keeps the others waiting for long.');
  }
  if (shares.some(({ isExposedTold }) => !isExposedTold)) {
    lines.push(
      'Compute is only known for DistributedOptimizer and similar. Without it, all communication counts as exposed, and "waiting" is a part of it.',
    );
  } else {
    lines.push(
      '"Exposed" is communication that does not overlap with backpropagation. "Waiting" is the part of all communication, exposed or not, that was spent waiting for other ranks.',
    );
  }
  const errors = shares.reduce((sum, { rank }) => sum + rank.errors, 0);
  if (errors > 0) lines.push(`${count(errors, 'operation')} failed; see "error" in the timeline.`);
  const dropped = shares.reduce((sum, { rank }) => sum + rank.dropped, 0);
  if (dropped > 0)
    lines.push(`${count(dropped, 'event')} are missing because they came faster than they could be written.`);
  return lines;
}

/** Aligns the first column left and the others right. Long texts are truncated. */
function table({ head, rows }: FindingsTable): string[] {
  const cut = (text: string) => (text.length > 48 ? `${text.slice(0, 47)}…` : text);
  const cells = [head, ...rows].map((row) => row.map((text) => cut(plain(text))));
  const widths = (cells[0] ?? []).map((_, column) =>
    Math.max(...cells.map((row) => (row[column] ?? '').length)),
  );
  return cells.map((row) =>
    `  ${row.map((text, column) => (column === 0 ? text.padEnd(widths[column] ?? 0) : text.padStart(widths[column] ?? 0))).join('  ')}`.trimEnd(),
  );
}
