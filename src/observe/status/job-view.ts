// The view of a job from its control blocks on this machine: one row for each rank, on any host. Only reads, and tolerates incomplete
// data.

import { existsSync, readFileSync } from 'node:fs';
import { ControlBlock, describeEnd } from '../../control/control-block.ts';
import { type Activity, activityOf, sampleActivity } from '../../control/process-activity.ts';
import { decodeJobNews, type JobNews } from '../../rendezvous/driver/job-news.ts';
import { decodeHostUse, type HostUse } from '../hosts/host-use.ts';
import type { FoundBlock } from './find-jobs.ts';
import { decodeRankStatus, type RankStatus } from './rank-status.ts';

/** 'starting': nothing is known about it yet. */
export type Presence = 'starting' | 'here' | 'left' | 'lost';

export interface RankView {
  /** As in HOROVOD_RANK. */
  readonly rank: number;
  readonly presence: Presence;
  /** For a lost rank: 'was killed by SIGKILL'. */
  readonly end?: string | undefined;
  /** Whether it runs on this machine. */
  readonly isLocal: boolean;
  /** Since its last page; 'unknown' for ranks of other hosts. */
  readonly activity: Activity;
  readonly status?: RankStatus | undefined;
}

export interface JobView {
  readonly id: string;
  /** The command of the first rank on this machine. */
  readonly command: string;
  readonly ranks: readonly RankView[];
  /** By name. Hosts of which nothing is known yet are left out. */
  readonly hosts: readonly HostUse[];
  /** Why it has failed or will fail. */
  readonly failure?: string | undefined;
  /** Of the ranks, in an elastic job. */
  readonly generation?: number | undefined;
  /** What the launcher of an elastic job says. */
  readonly news?: JobNews | undefined;
}

/** What several blocks of one job say; undefined: there is none yet. */
export function joinViews(views: readonly (JobView | undefined)[]): JobView | undefined {
  const known = views.filter((view) => view !== undefined);
  return known.length === 0 ? undefined : known.reduce(merge);
}

/** Jobs with at least one rank. Blocks that can no longer be read are left out. */
export function readJobs(blocks: readonly FoundBlock[]): JobView[] {
  const jobs = new Map<string, JobView>();
  for (const found of blocks) {
    const view = readBlock(found);
    if (view === undefined) continue;
    const known = jobs.get(view.id);
    // Two hosts of a job may be the same machine.
    jobs.set(view.id, known === undefined ? view : merge(known, view));
  }
  return [...jobs.values()].filter(isRunning).sort((a, b) => (a.id < b.id ? -1 : 1));
}

/** An elastic job may have no rank for a moment, or wait for some. */
function isRunning({ ranks, news }: JobView): boolean {
  return ranks.some(({ presence }) => presence === 'here') || (news !== undefined && isAlive(news.pid));
}

function isAlive(pid: number): boolean {
  return existsSync(`/proc/${pid}`);
}

export function readBlock({ path, mark, isForeign }: FoundBlock): JobView | undefined {
  let block: ControlBlock;
  try {
    block = ControlBlock.open(path, { access: 'read' });
  } catch {
    return undefined;
  }
  try {
    return viewOf(block, mark, isForeign ? readForeignRank : readRank);
  } finally {
    block.close();
  }
}

/**
 * The job of a block that stays open and is looked at again and again. Waits for nothing, so that a launcher may do it. `mark`: its name as
 * long as no rank has said which job it is. Undefined: it cannot be read.
 */
export function lookAt(block: ControlBlock, mark: string, isForeign = false): JobView | undefined {
  return viewOf(block, mark, isForeign ? readForeignRank : readRankNow);
}

function viewOf(
  block: ControlBlock,
  mark: string,
  read: (block: ControlBlock, rank: number) => RankView,
): JobView | undefined {
  try {
    const ranks = Array.from({ length: block.ranks }, (_, rank) => read(block, rank));
    const known = ranks.find(({ status }) => status !== undefined);
    const local = ranks.find(({ isLocal, presence }) => isLocal && presence === 'here');
    const pid = local === undefined || read === readForeignRank ? 0 : block.pid(local.rank);
    const { generation } = block;
    const news = generation === 0 ? undefined : block.readNews();
    return {
      id: known?.status?.job ?? mark.slice(0, 8),
      command: pid === 0 ? '' : commandOf(pid),
      ranks,
      hosts: newestOf(readHosts(block)),
      failure: block.failure()?.message,
      ...(generation === 0 ? {} : { generation }),
      ...(news === undefined ? {} : { news: decodeJobNews(news.text) }),
    };
  } catch {
    return undefined;
  }
}

/** Only from the control block, without reading the state of the process. */
function readForeignRank(block: ControlBlock, rank: number): RankView {
  const status = readPage(block, rank);
  const isLocal = block.pid(rank) !== 0;
  const exit = block.exit(rank);
  const common = { rank, isLocal, activity: 'unknown' as const, status };
  if (block.state(rank) === 'left') return { ...common, presence: 'left' };
  if (exit !== undefined) return { ...common, presence: 'lost', end: describeEnd(exit) };
  return { ...common, presence: isLocal || status !== undefined ? 'here' : 'starting' };
}

/** A launcher, or whoever reaps a process, may be about to write down how it ended: until then it is `ended`, however it did. */
function readRankNow(block: ControlBlock, rank: number): RankView {
  const pid = block.pid(rank);
  // Of another host: what is known of its end stands in the block.
  if (pid === 0) return readRank(block, rank);
  const view = readForeignRank(block, rank);
  if (view.presence !== 'here') return view;
  const now = sampleActivity(pid, Date.now());
  if (now !== undefined) return { ...view, activity: activitySince(view.status, now) };
  return hasProc() ? { ...view, presence: 'lost', end: describeEnd(undefined), activity: 'ended' } : view;
}

/** Systems without /proc cannot tell who has ended. */
function hasProc(): boolean {
  return existsSync('/proc/self/stat');
}

function readPage(block: ControlBlock, rank: number): RankStatus | undefined {
  const page = block.readStatus(rank);
  return page === undefined ? undefined : decodeRankStatus(page.text);
}

function readRank(block: ControlBlock, rank: number): RankView {
  const status = readPage(block, rank);
  const pid = block.pid(rank);
  const isLocal = pid !== 0;
  const loss = block.lossOf(rank);
  if (loss !== undefined) {
    const hasLeft = loss.code === 'ERR_HVD_SHUT_DOWN';
    const { signal, exitCode } = loss;
    const end = signal !== undefined ? { signal } : exitCode !== undefined ? { code: exitCode } : undefined;
    const presence = hasLeft ? 'left' : 'lost';
    return {
      rank,
      presence,
      end: hasLeft ? undefined : describeEnd(end),
      isLocal,
      activity: 'ended',
      status,
    };
  }
  const isKnown = isLocal || status !== undefined;
  return {
    rank,
    isLocal,
    status,
    presence: isKnown ? 'here' : 'starting',
    activity: isLocal ? activitySince(status, sampleActivity(pid, Date.now())) : 'unknown',
  };
}

function merge(a: JobView, b: JobView): JobView {
  const { generation: before = 0 } = a;
  const { generation: after = 0 } = b;
  // The launcher holds the block of a generation until it knows that of the next one.
  if (before !== after) {
    const [older, newer] = before < after ? [a, b] : [b, a];
    return { ...newer, news: newer.news ?? older.news };
  }
  const byRank = new Map(a.ranks.map((view) => [view.rank, view]));
  for (const view of b.ranks) {
    const known = byRank.get(view.rank);
    if (known === undefined || isBetter(view, known)) byRank.set(view.rank, view);
  }
  return {
    id: a.id,
    command: a.command || b.command,
    ranks: [...byRank.values()].sort((x, y) => x.rank - y.rank),
    hosts: newestOf([...a.hosts, ...b.hosts]),
    failure: a.failure ?? b.failure,
    ...(after === 0 ? {} : { generation: after, news: a.news ?? b.news }),
  };
}

function readHosts(block: ControlBlock): HostUse[] {
  return Array.from({ length: block.ranks }, (_, rank) => block.readHost(rank)).flatMap((page) => {
    const use = page === undefined ? undefined : decodeHostUse(page.text);
    return use === undefined ? [] : [use];
  });
}

/** The first rank of a host may change as ranks come and go, and its page with it. */
function newestOf(uses: readonly HostUse[]): HostUse[] {
  const byName = new Map<string, HostUse>();
  for (const use of uses) {
    const known = byName.get(use.host);
    if (known === undefined || use.takenAt > known.takenAt) byName.set(use.host, use);
  }
  return [...byName.values()].sort((a, b) => (a.host < b.host ? -1 : 1));
}

/** The information of its own host takes precedence. */
function isBetter(view: RankView, known: RankView): boolean {
  if (view.isLocal !== known.isLocal) return view.isLocal;
  return (view.status?.updatedAt ?? 0) > (known.status?.updatedAt ?? 0);
}

function activitySince(status: RankStatus | undefined, now: ReturnType<typeof sampleActivity>): Activity {
  const before =
    status?.cpuMs === undefined ? undefined : { state: '', cpuMs: status.cpuMs, atMs: status.updatedAt };
  return activityOf(before, now);
}

function commandOf(pid: number): string {
  return read(`/proc/${pid}/cmdline`).split('\0').join(' ').trim();
}

function read(path: string): string {
  try {
    return existsSync(path) ? readFileSync(path, 'utf8') : '';
  } catch {
    return '';
  }
}
