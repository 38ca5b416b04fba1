// Jobs as text for a terminal: a headline for each job, and a line for each of its ranks. Pure functions.

import { amountText, bytesText } from '../../console/amounts.ts';
import { plain } from '../../console/terminal-text.ts';
import type { JobView, RankView } from '../../observe/status/job-view.ts';
import type { RankStatus } from '../../observe/status/rank-status.ts';
import {
  ageOf,
  countText,
  freshRate,
  lastText,
  lateText,
  scriptOf,
  secondsText,
  staleAfterMs,
  starvedText,
  stateText,
} from '../../observe/status/rank-words.ts';
import { hostLines, percentText } from './host-table.ts';
import { cut, type TextColumn, textTable } from './text-table.ts';

interface Column extends TextColumn {
  readonly cell: (view: RankView, job: { readonly all: readonly RankView[]; readonly now: number }) => string;
}

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
  { title: 'cpu', align: 'right', max: 8, isOptional: true, cell: cpuText },
  { title: 'memory', align: 'right', max: 10, cell: ifKnown(({ rssBytes }) => bytesText(rssBytes)) },
  { title: 'late', align: 'right', max: 14, cell: (view, { all }) => lateText(view, all) },
  { title: 'data', align: 'right', max: 6, isOptional: true, cell: dataText },
  {
    title: 'age',
    align: 'right',
    max: 8,
    cell: (view, { now }) => (view.status ? secondsText(ageOf(view, now)) : ''),
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
  const notes = [
    ...hostLines(job.hosts, now),
    ...metricsLines(job.ranks),
    ...starvedLines(job.ranks, now),
    ...resetLines(job, now),
  ];
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

function starvedLines(ranks: readonly RankView[], now: number): string[] {
  const text = starvedText(ranks, now);
  return text === undefined ? [] : [`data: ${cut(plain(text), 500)}`];
}

/** '12 s ago: rank 1 on a was killed by SIGKILL; 2 ranks, 140 ms, 1 step repeated (generation 2)' */
function resetLines({ news }: JobView, now: number): string[] {
  if (news === undefined || news.lastResets.length === 0) return [];
  const shown = news.lastResets.map(({ at, what, size, tookMs, repeatedSteps, generation }) => {
    const cost = [
      countText(size, 'rank'),
      `${tookMs} ms`,
      ...(repeatedSteps === 0 ? [] : [`${countText(repeatedSteps, 'step')} repeated`]),
    ];
    const when = `${secondsText(Math.max(now - at, 0))} ago`;
    return `  ${when}: ${cut(plain(what), 300)}; ${cost.join(', ')} (generation ${generation})`;
  });
  return ['last resets:', ...shown];
}

/** 'job 1a2b3c4d: 4 ranks on 2 hosts, 1,024 samples/s, train.js' */
function headline({ id, command, ranks, generation, news }: JobView, now: number): string {
  const hosts = new Set(ranks.flatMap(({ status }) => status?.host ?? []));
  const samples = ranks.reduce((sum, view) => sum + freshRate(view, now, 'samplesPerSecond'), 0);
  const parts = [
    `${countText(ranks.length, 'rank')}${hosts.size === 0 ? '' : ` on ${countText(hosts.size, 'host')}`}`,
    ...(generation === undefined ? [] : [`generation ${generation}`]),
    ...(news === undefined ? [] : newsParts(news)),
    ...(samples > 0 ? [`${amountText(samples)} samples/s`] : []),
    ...(command === '' ? [] : [cut(plain(scriptOf(command)), 100)]),
  ];
  return `job ${plain(id)}: ${parts.join(', ')}`;
}

function newsParts({ resets, standbys, pause }: NonNullable<JobView['news']>): string[] {
  return [
    ...(resets === 0 ? [] : [countText(resets, 'reset')]),
    ...(standbys === 0 ? [] : [`${countText(standbys, 'worker')} standing by`]),
    ...(pause === undefined ? [] : [plain(pause)]),
  ];
}

function rate(view: RankView, now: number, name: 'samplesPerSecond' | 'bytesPerSecond'): string {
  const value = freshRate(view, now, name);
  if (value === 0) return '';
  return name === 'bytesPerSecond' ? bytesText(value) : amountText(value);
}

/** '150 %': it uses one and a half processors. */
function cpuText(view: RankView, { now }: { readonly now: number }): string {
  const { status, presence } = view;
  if (presence !== 'here' || status?.busyCores === undefined || ageOf(view, now) >= staleAfterMs) return '';
  return percentText(status.busyCores);
}
