// The job that `horovod dashboard` shows: on this machine by its control block, on another one through `horovod status` over ssh.

import { existsSync } from 'node:fs';
import { hostname } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { deferred } from '../../launch/deferred.ts';
import { JobSearch } from '../../observe/dashboard/sampler.ts';
import { type Found, findBlocks } from '../../observe/status/find-jobs.ts';
import { type JobView, readJobs } from '../../observe/status/job-view.ts';
import { runOverSsh } from '../status/over-ssh.ts';
import type { DashboardOptions } from './options.ts';

export interface FoundJob {
  readonly first: JobView;
  look(): JobView | undefined;
  /** Whether it has ended. */
  isOver(): boolean;
  close(): void;
}

/** Why there is none. */
export interface NoJob {
  readonly problem: string;
}

/** A job that has just started says only with its first page who it is. */
const idWithinMs = 3000;
const againMs = 200;

export async function findLocalJob(directory: string, wanted: string | undefined): Promise<FoundJob | NoJob> {
  const deadline = performance.now() + idWithinMs;
  let found = findBlocks(directory);
  let jobs = jobsAmong(found, wanted);
  while (jobs.length === 0 && found.blocks.length > 0 && performance.now() < deadline) {
    await sleep(againMs);
    found = findBlocks(directory);
    jobs = jobsAmong(found, wanted);
  }
  const [first, ...others] = jobs;
  if (first === undefined) {
    const what = wanted === undefined ? '' : ` whose id starts with ${wanted}`;
    const [hidden] = found.hidden;
    const other =
      hidden === undefined
        ? ''
        : ` You cannot see jobs of other users; process ${hidden.pid} may belong to one.`;
    return { problem: `you have no running job on ${hostname()}${what}.${other}` };
  }
  if (others.length > 0) return { problem: severalText(jobs) };
  const search = new JobSearch({ directory, isWanted: ({ id }) => id === first.id });
  let last = first;
  return {
    first,
    look() {
      last = search.look() ?? last;
      return last;
    },
    isOver: () => isOver(last),
    close: () => search.close(),
  };
}

function jobsAmong({ blocks }: Found, wanted: string | undefined): JobView[] {
  return readJobs(blocks).filter(({ id, ranks }) => {
    const isNamed = ranks.some(({ status }) => status !== undefined);
    return isNamed && (wanted === undefined || id.startsWith(wanted));
  });
}

export function isOver({ ranks, news }: Pick<JobView, 'ranks' | 'news'>): boolean {
  if (ranks.some(({ presence }) => presence === 'here' || presence === 'starting')) return false;
  // An elastic job may have no rank for a moment.
  return news === undefined || !existsSync(`/proc/${news.pid}`);
}

export interface RemoteSearch extends Pick<DashboardOptions, 'job' | 'sshPort' | 'sshIdentityFile'> {
  readonly host: string;
  readonly environment: NodeJS.ProcessEnv;
  /** Prints what ssh and the other machine say. */
  readonly say: (text: string) => void;
}

/** Views come once a second, as lines of JSON. */
export async function findRemoteJob(search: RemoteSearch): Promise<FoundJob | NoJob> {
  const { host, job, sshPort, sshIdentityFile, environment, say } = search;
  const abort = new AbortController();
  const first = deferred<FoundJob | NoJob>();
  let last: JobView | undefined;
  let isEnded = false;
  let rest = '';
  const take = (line: string) => {
    const jobs = jobsIn(line);
    const [one, ...others] = jobs;
    if (one === undefined) return;
    if (last === undefined && others.length > 0) {
      first.resolve({ problem: severalText(jobs) });
      abort.abort();
      return;
    }
    const before = last;
    last = before === undefined ? one : (jobs.find(({ id }) => id === before.id) ?? before);
    first.resolve({
      first: last,
      look: () => last,
      isOver: () => isEnded,
      close: () => abort.abort(),
    });
  };
  const argv = ['status', '--json', '--watch', '1', ...(job === undefined ? [] : ['--job', job])];
  const call = {
    host,
    argv,
    port: sshPort,
    identityFile: sshIdentityFile,
    environment,
    caller: 'horovod dashboard',
    signal: abort.signal,
  };
  const ended = runOverSsh(call, {
    out(text) {
      const lines = (rest + text).split('\n');
      rest = lines.pop() ?? '';
      for (const line of lines) take(line);
    },
    error: say,
  });
  void ended.then(() => {
    isEnded = true;
    first.resolve({
      problem: `there is no running job${job === undefined ? '' : ` ${job}`} of yours on ${host}.`,
    });
  });
  return first.promise;
}

function jobsIn(line: string): readonly JobView[] {
  try {
    const { jobs } = JSON.parse(line) as { jobs?: unknown };
    return Array.isArray(jobs) ? (jobs as JobView[]) : [];
  } catch {
    return []; // A greeting of the other machine.
  }
}

function severalText(jobs: readonly JobView[]): string {
  const list = jobs.map(({ id, command }) => `  ${id}  ${command}`).join('\n');
  return `several jobs are running; choose one with --job:\n${list}`;
}
