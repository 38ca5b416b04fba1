// Starts ranks of the portable transport as processes (portable-rank.ts), on one or several "hosts" with a control block each. Acts
// as their launcher and host watch: forwards messages, and records exits on every host.

import { type ChildProcess, fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { ControlBlock } from '../../src/control/control-block.ts';
import { JobSecret } from '../../src/settings/job-secret.ts';
import type { Order, Report, Scene } from './portable-rank.ts';

export interface Rank {
  readonly process: ChildProcess;
  readonly reports: Report[];
  /** Resolves with the first report of that kind. */
  next<K extends Report['kind']>(kind: K): Promise<Extract<Report, { kind: K }>>;
  send(order: Order): void;
  readonly ended: Promise<void>;
}

export interface StageOptions {
  /** The host of each rank. */
  readonly hosts: readonly number[];
  readonly scene: Scene;
  /** False: exits are not recorded in the control blocks of other hosts, as if there were no host watch. */
  readonly isWatched?: boolean;
}

const rankScript = fileURLToPath(import.meta.resolve('./portable-rank.js'));

/** Starts one process per rank, all on one host, and kills those that are left at the end. */
export function withRanks(
  ranks: number,
  scene: Scene,
  body: (ranks: Rank[]) => Promise<void>,
): Promise<void> {
  return withHosts({ hosts: new Array<number>(ranks).fill(0), scene }, body);
}

export async function withHosts(
  { hosts, scene, isWatched = true }: StageOptions,
  body: (ranks: Rank[]) => Promise<void>,
): Promise<void> {
  const controls = new Map([...new Set(hosts)].map((host) => [host, ControlBlock.create(hosts.length)]));
  const secret = JobSecret.generate().revealForEnvironment();
  const all: Rank[] = [];
  const texts = new Map<number, string[]>();
  const onReport = (rank: number, report: Report): void => {
    if (report.kind !== 'tell') return;
    const known = texts.get(report.id) ?? [];
    known[rank] = report.text;
    texts.set(report.id, known);
    if (Object.keys(known).length < hosts.length) return;
    for (const other of all) other.send({ kind: 'told', id: report.id, texts: known });
  };
  for (const [rank, host] of hosts.entries()) {
    const own = controls.get(host) as ControlBlock;
    const args = [String(rank), String(hosts.length), own.path, scene, JSON.stringify(hosts), secret];
    const hearing = isWatched ? [...controls.values()] : [own];
    all.push(startRank(rank, args, hearing, onReport));
  }
  try {
    await body(all);
  } finally {
    for (const rank of all) rank.process.kill('SIGKILL');
    await Promise.all(all.map(({ ended }) => ended));
    for (const control of controls.values()) control.close();
  }
}

function startRank(
  rank: number,
  args: readonly string[],
  controls: readonly ControlBlock[],
  onReport: (rank: number, report: Report) => void,
): Rank {
  const child = fork(rankScript, args);
  const reports: Report[] = [];
  const waiting = new Map<string, (report: Report) => void>();
  let fail = (_error: Error): void => {};
  const died = new Promise<never>((_resolve, reject) => {
    fail = reject;
  });
  died.catch(() => {});
  child.on('message', (report: Report) => {
    reports.push(report);
    waiting.get(report.kind)?.(report);
    onReport(rank, report);
  });
  const ended = new Promise<void>((resolve) => {
    child.on('exit', (code, signal) => {
      for (const control of controls) {
        control.recordExit(rank, signal === null ? { code: code ?? 0 } : { signal });
      }
      fail(new Error(`rank ${rank} ended (${code ?? signal}) after ${JSON.stringify(reports)}`));
      resolve();
    });
  });
  return {
    process: child,
    reports,
    ended,
    send: (order) => {
      if (child.connected) child.send(order);
    },
    next: async (kind) => {
      const known = reports.find((report) => report.kind === kind);
      const coming = new Promise<Report>((resolve) => waiting.set(kind, resolve));
      return (await (known ?? Promise.race([coming, died]))) as Extract<Report, { kind: typeof kind }>;
    },
  };
}
