// A data service as text for a terminal: a headline, a line for each job if there are several, and a line for each worker. Pure
// functions. Reports of workers and dispatchers are what these say of themselves, so their types are checked here.

import { plain } from '../../console/terminal-text.ts';
import type { JobReport, ServiceStatus, WorkerStatus } from '../../data/service/registry-messages.ts';
import { cut, type TextColumn, textTable } from './text-table.ts';

interface Column extends TextColumn {
  readonly cell: (worker: WorkerStatus, status: ServiceStatus) => string;
}

const columns: readonly Column[] = [
  { title: 'worker', align: 'left', max: 10, cell: nameOf },
  { title: 'host', align: 'left', max: 24, cell: ({ host }) => host },
  { title: 'pid', align: 'right', max: 8, cell: ({ pid }) => String(pid) },
  { title: 'batches/s', align: 'right', max: 10, cell: ({ report }) => number(report?.batchesPerSecond, 1) },
  {
    title: 'MB/s',
    align: 'right',
    max: 10,
    cell: ({ report }) => number(megabytes(report?.bytesPerSecond), 0),
  },
  { title: 'leases', align: 'right', max: 8, cell: ({ report }) => number(report?.leases, 0) },
  { title: 'arena', align: 'right', max: 6, cell: ({ report }) => percent(report?.arena) },
  { title: 'busiest stage', align: 'left', max: 40, cell: stageOf },
];

/** Ends with a newline. */
export function renderService(status: ServiceStatus): string {
  const jobs = status.dispatchers.flatMap(({ report }) => jobsOf(report));
  const [only, ...others] = jobs.map(jobText);
  const head = [
    `data service of ${cut(plain(status.host), 64)}`,
    dispatchersText(status),
    workersText(status),
    ...(others.length === 0 && only !== undefined ? [only] : []),
    ...(status.isShutDown ? ['shutting down'] : []),
  ].join(' · ');
  const list = others.length === 0 ? [] : [only as string, ...others];
  const rows = status.workers.map((worker) => columns.map(({ cell }) => cell(worker, status)));
  return `${[head, ...list, ...(rows.length === 0 ? [] : textTable(columns, rows))].join('\n')}\n`;
}

/** '4 workers', or '3 workers of 4'. */
function workersText({ workers, expected }: ServiceStatus): string {
  const all = expected.dispatchers * expected.workersPerDispatcher;
  return `${count(workers.length, 'worker')}${workers.length < all ? ` of ${all}` : ''}`;
}

function dispatchersText({ dispatchers, expected, dispatcherSide }: ServiceStatus): string {
  const alive = dispatchers.filter(({ isAlive }) => isAlive).length;
  const where = dispatcherSide === 'training' ? ' in the training job' : '';
  return `${count(alive, 'dispatcher')}${alive < expected.dispatchers ? ` of ${expected.dispatchers}` : ''}${where}`;
}

/** 'job "job" epoch 3, 61 % · 2 trainers, starved 1 %, 4 %' */
function jobText({ name, epoch, done, starved }: JobReport): string {
  const place = `job "${cut(plain(String(name)), 40)}" epoch ${number(epoch, 0)}${done === undefined ? '' : `, ${percent(done)}`}`;
  const list = Array.isArray(starved) ? starved : [];
  const waits = list.some((share) => share !== null)
    ? `, starved ${list.map((share) => (share === null ? '?' : percent(share))).join(', ')}`
    : '';
  return `${place} · ${count(list.length, 'trainer')}${waits}`;
}

function jobsOf(report: ServiceStatus['dispatchers'][number]['report']): readonly JobReport[] {
  const jobs: unknown = report?.jobs;
  return Array.isArray(jobs) ? jobs.filter((job) => typeof job === 'object' && job !== null) : [];
}

/** '3', and '3 D' where its process runs a dispatcher as well. */
function nameOf({ number, host, pid }: WorkerStatus, { dispatchers }: ServiceStatus): string {
  const isDispatcher = dispatchers.some((each) => each.isAlive && each.host === host && each.pid === pid);
  return `${number}${isDispatcher ? ' D' : ''}`;
}

function stageOf({ report }: WorkerStatus): string {
  const stage = report?.busiestStage;
  return stage === undefined ? '' : `${stage.name} ${percent(stage.share)}`;
}

function megabytes(bytes: number | undefined): number | undefined {
  return bytes === undefined ? undefined : bytes / 1e6;
}

function number(value: unknown, digits: number): string {
  return typeof value === 'number' && Number.isFinite(value) ? value.toFixed(digits) : '';
}

function percent(share: unknown): string {
  return typeof share === 'number' && Number.isFinite(share) ? `${Math.round(100 * share)} %` : '';
}

function count(amount: number, what: string): string {
  return `${amount} ${what}${amount === 1 ? '' : 's'}`;
}
