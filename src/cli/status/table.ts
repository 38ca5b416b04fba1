// Jobs as text for a terminal: a headline for each job, and a line for each of its ranks. Pure functions.

import { basename } from 'node:path';
import { listRanks } from '../../console/list-ranks.ts';
import { plain } from '../../console/terminal-text.ts';
import type { JobView, RankView } from '../../observe/status/job-view.ts';
import type { PendingCollective, RankStatus } from '../../observe/status/rank-status.ts';
import { cut, type TextColumn, textTable } from './text-table.ts';

interface Column extends TextColumn {
  readonly cell: (view: RankView, job: { readonly all: readonly RankView[]; readonly now: number }) => string;
}

/** Shorter waits are normal. */
const minWaitMs = 200;
/** Ranks write their pages twice a second; those of other hosts arrive a second later. */
const staleAfterMs = 3000;
/** A rank that is less late is not shown as late. */
const minLateMs = 1;
/** Training that has waited for data for so long is worth a line. */
const starvedAfterMs = 10_000;

const columns: readonly Column[] = [
  { title: 'rank', align: 'right', max: 6, cell: ({ rank }) => String(rank) },
  { title: 'host', align: 'left', max: 20, cell: ifKnown(({ host }) => host) },
  { title: 'pid', align: 'right', max: 8, cell: ifKnown(({ pid }) => String(pid)) },
  { title: 'step', align: 'right', max: 10, cell: ifKnown(({ step }) => String(step)) },
  {
    title: 'samples/s',
    align: 'right',
    max: 12,
    cell: (view, { now }) => rate(view, now, 'samplesPerSecond'),
  },
  { title: 'last collective', align: 'left', max: 32, cell: ifKnown(lastText) },
  { title: 'state', align: 'left', max: 52, cell: (view, { now }) => stateText(view, now) },
  { title: 'bytes/s', align: 'right', max: 12, cell: (view, { now }) => rate(view, now, 'bytesPerSecond') },
  { title: 'memory', align: 'right', max: 10, cell: ifKnown(({ rssBytes }) => bytes(rssBytes)) },
  { title: 'late', align: 'right', max: 14, cell: (view, { all }) => lateText(view, all) },
  { title: 'data', align: 'right', max: 6, isOptional: true, cell: dataText },
  {
    title: 'age',
    align: 'right',
    max: 8,
    cell: (view, { now }) => (view.status ? seconds(ageOf(view, now)) : ''),
  },
];

/** A cell that is empty as long as nothing is known about the rank. */
function ifKnown(cell: (status: RankStatus) => string): Column['cell'] {
  return ({ status }) => (status === undefined ? '' : cell(status));
}

/** `now`: Date.now(). Ends with a newline. */
export function renderJobs(jobs: readonly JobView[], now: number): string {
  return jobs.map((job) => renderJob(job, now)).join('\n');
}

function renderJob(job: JobView, now: number): string {
  const rows = job.ranks.map((view) => columns.map(({ cell }) => cell(view, { all: job.ranks, now })));
  // In an elastic job, the failure of a generation is the reason for a reset.
  const failure =
    job.failure === undefined || job.generation !== undefined
      ? []
      : [`failed: ${cut(plain(job.failure), 300)}`];
  const notes = [...metricsLines(job.ranks), ...starvedLines(job.ranks, now), ...resetLines(job, now)];
  return `${[headline(job, now), ...failure, ...textTable(columns, rows), ...notes].join('\n')}\n`;
}

/** 'metrics of rank 0: loss 0.2314, accuracy 0.91'. Those of the first rank that has some: callbacks average them over all ranks. */
function metricsLines(ranks: readonly RankView[]): string[] {
  const view = ranks.find(({ status }) => (status?.metrics ?? []).length > 0);
  const metrics = view?.status?.metrics ?? [];
  if (view === undefined) return [];
  // From another host, NaN has come as text.
  const shown = metrics.map(([name, value]) => `${plain(name)} ${Number(Number(value).toPrecision(4))}`);
  return [`metrics of rank ${view.rank}: ${cut(shown.join(', '), 300)}`];
}

/** '3 %': how long its training waits for data. */
function dataText({ status, presence }: RankView): string {
  if (presence !== 'here' || status?.data === undefined) return '';
  return `${Math.round(100 * status.data.share)} %`;
}

/** 'ranks 0, 1 have waited for data for 25 s, rank 0 for 34 % of the time: …' Ranks mostly starve for the same reason. */
function starvedLines(ranks: readonly RankView[], now: number): string[] {
  const starved = ranks.flatMap((view) => {
    const { starvedMs, share = 0, advice = '' } = view.status?.data ?? {};
    const isFresh = view.presence === 'here' && ageOf(view, now) < staleAfterMs;
    return isFresh && starvedMs !== undefined && starvedMs >= starvedAfterMs
      ? [{ rank: view.rank, starvedMs, share, advice }]
      : [];
  });
  const [first, ...others] = starved.sort((a, b) => b.share - a.share);
  if (first === undefined) return [];
  const who = listRanks(starved.map(({ rank }) => rank).sort((a, b) => a - b));
  const most = others.length === 0 ? '' : `rank ${first.rank} `;
  const share = `${most}${Math.round(100 * first.share)} % of the time`;
  const verb = others.length === 0 ? 'has' : 'have';
  return [
    `data: ${who} ${verb} been waiting for data for ${seconds(first.starvedMs)}, ${share}: ${cut(plain(first.advice), 400)}`,
  ];
}

/** '12 s ago: rank 1 on a was killed by SIGKILL; 2 ranks, 140 ms, 1 step repeated (generation 2)' */
function resetLines({ news }: JobView, now: number): string[] {
  if (news === undefined || news.lastResets.length === 0) return [];
  const shown = news.lastResets.map(({ at, what, size, tookMs, repeatedSteps, generation }) => {
    const cost = [
      count(size, 'rank'),
      `${tookMs} ms`,
      ...(repeatedSteps === 0 ? [] : [`${count(repeatedSteps, 'step')} repeated`]),
    ];
    const when = `${seconds(Math.max(now - at, 0))} ago`;
    return `  ${when}: ${cut(plain(what), 300)}; ${cost.join(', ')} (generation ${generation})`;
  });
  return ['last resets:', ...shown];
}

/** 'job 1a2b3c4d: 4 ranks on 2 hosts, 1,024 samples/s, train.js' */
function headline({ id, command, ranks, generation, news }: JobView, now: number): string {
  const hosts = new Set(ranks.flatMap(({ status }) => status?.host ?? []));
  const samples = ranks.reduce((sum, view) => sum + freshRate(view, now, 'samplesPerSecond'), 0);
  const parts = [
    `${count(ranks.length, 'rank')}${hosts.size === 0 ? '' : ` on ${count(hosts.size, 'host')}`}`,
    ...(generation === undefined ? [] : [`generation ${generation}`]),
    ...(news === undefined ? [] : newsParts(news)),
    ...(samples > 0 ? [`${amount(samples)} samples/s`] : []),
    ...(command === '' ? [] : [cut(plain(scriptOf(command)), 100)]),
  ];
  return `job ${plain(id)}: ${parts.join(', ')}`;
}

function newsParts({ resets, standbys, pause }: NonNullable<JobView['news']>): string[] {
  return [
    ...(resets === 0 ? [] : [count(resets, 'reset')]),
    ...(standbys === 0 ? [] : [`${count(standbys, 'worker')} standing by`]),
    ...(pause === undefined ? [] : [plain(pause)]),
  ];
}

/** Options of Node that take the next word as their value. */
const nodeOptionsWithValue: ReadonlySet<string> = new Set([
  '--import',
  '--require',
  '-r',
  '--loader',
  '--experimental-loader',
  '--conditions',
  '-C',
]);

/** The script and its arguments, without Node and its options, which horovodrun adds for TypeScript. */
function scriptOf(command: string): string {
  const [program = '', ...words] = command.split(' ');
  if (basename(program) !== 'node') return command;
  let at = 0;
  while (words[at]?.startsWith('-')) at += nodeOptionsWithValue.has(words[at] as string) ? 2 : 1;
  const hasCode = words.slice(0, at).some((word) => /^(-[ep]+|--eval|--print)(=|$)/.test(word));
  return hasCode || at >= words.length ? command : words.slice(at).join(' ').replace(/^\.\//, '');
}

function lastText({ last }: RankStatus): string {
  if (last === undefined) return '';
  // Names given by Horovod start with the kind.
  const name = last.name.startsWith(last.kind) ? last.name : `${last.kind} ${last.name}`;
  return last.state === 'failed' ? `${name} (failed)` : name;
}

function stateText(view: RankView, now: number): string {
  const { presence, end, status, activity } = view;
  if (presence === 'left') return 'shut down';
  if (presence === 'lost') return end ?? 'ended';
  if (presence === 'starting') return 'not connected yet';
  if (activity === 'stopped') return 'stopped (SIGSTOP or a debugger)';
  if (status === undefined) return 'starting';
  const age = ageOf(view, now);
  const [oldest] = status.pending;
  if (oldest !== undefined && oldest.waitedMs + age >= minWaitMs) return waitText(oldest, age);
  // A blocking wait writes its page as well, so a rank without news is outside Horovod's code.
  if (age >= staleAfterMs) return silenceText(activity, age);
  const idleMs = status.idleSince === undefined ? 0 : now - status.idleSince;
  return idleMs < staleAfterMs ? '' : silenceText('idle', idleMs);
}

function silenceText(activity: RankView['activity'], ageMs: number): string {
  if (activity === 'busy') return `computing for ${seconds(ageMs)}`;
  return activity === 'idle' ? `idle in other code for ${seconds(ageMs)}` : 'no update';
}

function waitText({ label, waitedMs, missing }: PendingCollective, ageMs: number): string {
  const whom = missing.length === 0 ? '' : ` for ${listRanks(missing)}`;
  return `waiting ${seconds(waitedMs + ageMs)}${whom}: ${label}`;
}

/** How long the others have been waiting for it, or else how late it was in each of the last steps. */
function lateText(view: RankView, all: readonly RankView[]): string {
  if (view.presence !== 'here') return '';
  const waits = all.flatMap(({ status }) => status?.pending ?? []);
  const waitedMs = waits
    .filter(({ missing }) => missing.includes(view.rank))
    .reduce((max, { waitedMs }) => Math.max(max, waitedMs), 0);
  if (waitedMs >= minWaitMs) return seconds(waitedMs);
  const own = view.status?.waitMsPerStep;
  if (own === undefined) return '';
  // The rank that the others wait for is the one that waits least.
  const longest = Math.max(...all.flatMap(({ status }) => status?.waitMsPerStep ?? []));
  return longest - own < minLateMs ? '' : `${amount(longest - own)} ms/step`;
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
