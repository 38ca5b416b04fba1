// Jobs as text for a terminal: a headline for each, and a line for each of its ranks. Pure functions.

import { plain } from '../../console/terminal-text.ts';
import { listRanks } from '../../engine/agreement/resolve.ts';
import type { JobView, RankView } from '../../observe/status/job-view.ts';
import type { PendingCollective } from '../../observe/status/rank-status.ts';

interface Column {
  readonly title: string;
  readonly align: 'left' | 'right';
  /** Longer ones are cut off. */
  readonly limit: number;
  cell(view: RankView, all: readonly RankView[], now: number): string;
}

/** Younger waits are the ordinary course of things. */
const leastWaitMs = 200;
/** Pages come twice a second, those of other hosts after a second more. */
const staleAfterMs = 3000;
/** The rank that the others wait for is named from here on. */
const leastLateMs = 1;

const columns: readonly Column[] = [
  { title: 'rank', align: 'right', limit: 6, cell: ({ rank }) => String(rank) },
  { title: 'host', align: 'left', limit: 20, cell: ({ status }) => status?.host ?? '' },
  {
    title: 'pid',
    align: 'right',
    limit: 8,
    cell: ({ status }) => (status === undefined ? '' : String(status.pid)),
  },
  {
    title: 'step',
    align: 'right',
    limit: 10,
    cell: ({ status }) => (status === undefined ? '' : String(status.step)),
  },
  {
    title: 'samples/s',
    align: 'right',
    limit: 12,
    cell: (view, _, now) => rate(view, now, 'samplesPerSecond'),
  },
  { title: 'last collective', align: 'left', limit: 32, cell: ({ status }) => lastText(status) },
  { title: 'state', align: 'left', limit: 48, cell: (view, _, now) => stateText(view, now) },
  { title: 'bytes/s', align: 'right', limit: 12, cell: (view, _, now) => rate(view, now, 'bytesPerSecond') },
  {
    title: 'memory',
    align: 'right',
    limit: 10,
    cell: ({ status }) => (status === undefined ? '' : bytes(status.rssBytes)),
  },
  { title: 'late', align: 'right', limit: 14, cell: lateText },
  { title: 'age', align: 'right', limit: 8, cell: (view, _, now) => ageText(view, now) },
];

/** `now`: Date.now(). Ends with a newline. */
export function renderJobs(jobs: readonly JobView[], now: number): string {
  return jobs.map((job) => renderJob(job, now)).join('\n');
}

function renderJob(job: JobView, now: number): string {
  const rows = job.ranks.map((view) =>
    columns.map(({ cell, limit }) => cut(plain(cell(view, job.ranks, now)), limit)),
  );
  const widths = columns.map(({ title }, i) =>
    Math.max(title.length, ...rows.map((row) => (row[i] as string).length)),
  );
  const line = (cells: readonly string[]) =>
    cells
      .map((cell, i) => {
        const width = widths[i] as number;
        return columns[i]?.align === 'right' ? cell.padStart(width) : cell.padEnd(width);
      })
      .join('  ')
      .trimEnd();
  const titles = columns.map(({ title }) => title);
  const failure = job.failure === undefined ? [] : [`failed: ${cut(plain(job.failure), 300)}`];
  return `${[headline(job, now), ...failure, line(titles), ...rows.map(line)].join('\n')}\n`;
}

/** 'job 1a2b3c4d: 4 ranks on 2 hosts, 1,024 samples/s, node train.js' */
function headline({ id, command, ranks }: JobView, now: number): string {
  const hosts = new Set(ranks.flatMap(({ status }) => status?.host ?? []));
  const samples = ranks.reduce((sum, view) => sum + freshRate(view, now, 'samplesPerSecond'), 0);
  const parts = [
    `${count(ranks.length, 'rank')}${hosts.size === 0 ? '' : ` on ${count(hosts.size, 'host')}`}`,
    ...(samples > 0 ? [`${amount(samples)} samples/s`] : []),
    ...(command === '' ? [] : [cut(plain(command), 100)]),
  ];
  return `job ${plain(id)}: ${parts.join(', ')}`;
}

function lastText(status: RankView['status']): string {
  const last = status?.last;
  if (last === undefined) return '';
  // Names that Horovod gives begin with the kind.
  const name = last.name.startsWith(last.kind) ? last.name : `${last.kind} ${last.name}`;
  return last.state === 'failed' ? `${name} (failed)` : name;
}

function stateText(view: RankView, now: number): string {
  const { presence, end, status, activity } = view;
  if (presence === 'left') return 'has shut down';
  if (presence === 'lost') return end ?? 'has ended';
  if (presence === 'starting') return 'not here yet';
  if (activity === 'stopped') return 'stopped (SIGSTOP, or a debugger)';
  if (status === undefined) return 'starting';
  const age = ageOf(view, now);
  const [oldest] = status.pending;
  if (oldest !== undefined && oldest.waitedMs + age >= leastWaitMs) return waitText(oldest, age);
  // A blocking wait writes its page as well: this rank is in code that is not ours.
  return age < staleAfterMs ? '' : silenceText(activity, age);
}

function silenceText(activity: RankView['activity'], ageMs: number): string {
  if (activity === 'busy') return `computes since ${seconds(ageMs)}`;
  return activity === 'idle' ? `sleeps in other code since ${seconds(ageMs)}` : 'no news';
}

function waitText({ label, waitedMs, missing }: PendingCollective, ageMs: number): string {
  const whom = missing.length === 0 ? '' : ` for ${listRanks(missing)}`;
  return `waits ${seconds(waitedMs + ageMs)}${whom}: ${label}`;
}

/** By how much the others wait for it: now, if they do, else in each of the last steps. */
function lateText(view: RankView, all: readonly RankView[]): string {
  if (view.presence !== 'here') return '';
  const waits = all.flatMap(({ status }) => status?.pending ?? []);
  const waitedMs = waits
    .filter(({ missing }) => missing.includes(view.rank))
    .reduce((most, { waitedMs }) => Math.max(most, waitedMs), 0);
  if (waitedMs >= leastWaitMs) return seconds(waitedMs);
  const own = view.status?.waitMsPerStep;
  if (own === undefined) return '';
  // Who waits least is who the others wait for.
  const most = Math.max(...all.flatMap(({ status }) => status?.waitMsPerStep ?? []));
  return most - own < leastLateMs ? '' : `${amount(most - own)} ms/step`;
}

function ageText(view: RankView, now: number): string {
  return view.status === undefined ? '' : seconds(ageOf(view, now));
}

function rate(view: RankView, now: number, name: 'samplesPerSecond' | 'bytesPerSecond'): string {
  const value = freshRate(view, now, name);
  if (value === 0) return '';
  return name === 'bytesPerSecond' ? bytes(value) : amount(value);
}

function freshRate(view: RankView, now: number, name: 'samplesPerSecond' | 'bytesPerSecond'): number {
  const { status, presence } = view;
  if (status === undefined || presence !== 'here' || ageOf(view, now) >= staleAfterMs) return 0;
  return status.rates[name];
}

function ageOf({ status }: RankView, now: number): number {
  return status === undefined ? 0 : Math.max(now - status.updatedAt, 0);
}

function seconds(ms: number): string {
  const value = ms / 1000;
  if (value < 10) return `${value.toFixed(1)} s`;
  if (value < 600) return `${Math.round(value)} s`;
  return value < 36_000 ? `${Math.round(value / 60)} min` : `${Math.round(value / 3600)} h`;
}

/** '31 MiB' */
function bytes(value: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  const power = Math.min(Math.floor(Math.log2(Math.max(value, 1)) / 10), units.length - 1);
  return `${amount(value / 1024 ** power)} ${units[power]}`;
}

function amount(value: number): string {
  if (value >= 100) return Math.round(value).toLocaleString('en-US');
  return String(Number(value.toPrecision(3)));
}

function count(number: number, what: string): string {
  return `${number} ${what}${number === 1 ? '' : 's'}`;
}

function cut(text: string, limit: number): string {
  return text.length <= limit ? text : `${text.slice(0, limit - 1)}…`;
}
