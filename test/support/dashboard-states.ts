// Jobs as a dashboard's server describes them, for tests of its page and for the pictures of the guide: a training on two hosts in
// which one rank is slow, at any moment. Nothing is random, so that a page always looks the same.

import type {
  DashboardStart,
  Headline,
  JobEvent,
  LogLine,
  RankSample,
  Sample,
} from '../../src/observe/dashboard/messages.ts';
import type { HostUse } from '../../src/observe/hosts/host-use.ts';

export interface JobShape {
  readonly ranks: number;
  readonly samples: number;
  /** Of the first sample. */
  readonly from?: number;
  /** From this sample on it keeps the others waiting. */
  readonly slowRank?: number;
  readonly slowFrom?: number;
}

const startedAt = Date.UTC(2026, 10, 19, 9, 30, 0);
const everyMs = 2000;
const stepsPerSample = 8;
const steps = 4000;
const gibi = 1024 ** 3;
const ranksPerHost = 4;

/** Between -1 and 1, and always the same for the same numbers. */
function noise(a: number, b: number): number {
  const x = Math.sin(a * 12.9898 + b * 78.233) * 43758.5453;
  return (x - Math.floor(x)) * 2 - 1;
}

export function dashboardStart(shape: JobShape, more: Partial<DashboardStart> = {}): DashboardStart {
  const samples = Array.from({ length: shape.samples }, (_, at) => sampleAt(shape, at));
  return {
    job: {
      id: '3f9a1c2e',
      command: `horovodrun -np ${shape.ranks} ${shape.ranks > 8 ? '--hostfile hosts' : '-H gpu-a:4,gpu-b:4'} --dashboard train.ts`,
      startedAt,
      hosts: hostNames(shape.ranks).map((host) => ({ host, slots: ranksPerHost })),
      settings: [
        { name: '--fusion-threshold-mb', value: '32' },
        { name: '--autotune', value: 'on' },
      ],
      versions: [
        { name: 'horovod', value: '0.1.0' },
        { name: 'node', value: '20.20.2' },
        { name: 'transport', value: 'shm and tcp' },
      ],
      links: [{ title: 'TensorBoard', url: 'http://127.0.0.1:6006/' }],
    },
    samples,
    news: [],
    logs: [],
    hasControl: false,
    ...more,
  };
}

/** The same job, in the moment in which this rank is killed. */
export function killed(start: DashboardStart, rank: number): DashboardStart {
  const last = start.samples.at(-1) as Sample;
  const { host = '' } = last.ranks[rank] ?? {};
  const text = 'was killed by SIGKILL';
  const ranks = last.ranks.map(
    (each): RankSample =>
      each.rank === rank
        ? { ...each, presence: 'lost', tone: 'bad', text, stepMs: undefined, samplesPerSecond: 0 }
        : { ...each, tone: 'idle', text: `waits for rank ${rank} in allreduce "block_4/conv/kernel"` },
  );
  const headline: Headline = { ...last.headline, tone: 'bad', text: `rank ${rank} on ${host} ${text}` };
  const event: JobEvent = {
    id: 100,
    at: last.at,
    kind: 'lost',
    tone: 'bad',
    rank,
    text: `Rank ${rank} (${host}, pid 41284) was killed by SIGKILL in step ${last.headline.step + 1}.`,
    report: 'rank 12 was killed by SIGKILL\n  its last operation: allreduce "block_4/conv/kernel"',
  };
  return {
    ...start,
    samples: [...start.samples.slice(0, -1), { ...last, headline, ranks }],
    news: [...start.news, event],
  };
}

export function sampleAt(shape: JobShape, at: number): Sample {
  const { ranks, slowRank, slowFrom = 0 } = shape;
  const isSlow = slowRank !== undefined && at >= slowFrom;
  const own = Array.from({ length: ranks }, (_, rank) => ownMs(rank, at, isSlow && rank === slowRank));
  const slowest = Math.max(...own);
  const transferMs = 9 + noise(at, 1) * 1.5;
  const stepMs = slowest + transferMs;
  const step = (at + 1) * stepsPerSample;
  const metrics = metricsAt(step);
  const views = own.map((ms, rank) =>
    rankView({ rank, at, ms, slowest, stepMs, transferMs, step, isSlow, shape }),
  );
  return {
    at: timeOf(shape, at),
    headline: headlineOf({ shape, step, stepMs, slowest, own, isSlow }),
    ranks: views.map((view) => ({ ...view, metrics })),
    hosts: hostNames(ranks).map((host, index) => hostUse(host, index, timeOf(shape, at))),
    metrics,
  };
}

function timeOf({ from = 0 }: JobShape, at: number): number {
  return startedAt + 20_000 + (from + at) * everyMs;
}

function ownMs(rank: number, at: number, isSlow: boolean): number {
  return (84 + noise(rank, at) * 5 + noise(at, 7) * 3) * (isSlow ? 1.55 : 1);
}

function metricsAt(step: number): Sample['metrics'] {
  const done = step / 900;
  return {
    loss: 0.12 + 2.2 * Math.exp(-done * 1.6) + noise(step, 3) * 0.09 * Math.exp(-done * 0.6),
    accuracy: 0.97 - 0.85 * Math.exp(-done * 1.9) + noise(step, 4) * 0.018,
    lr: 0.008 * Math.min(1, step / 160) * 0.5 * (1 + Math.cos((Math.PI * step) / steps)),
  };
}

interface Moment {
  readonly rank: number;
  readonly at: number;
  readonly ms: number;
  readonly slowest: number;
  readonly stepMs: number;
  readonly transferMs: number;
  readonly step: number;
  readonly isSlow: boolean;
  readonly shape: JobShape;
}

function rankView({
  rank,
  at,
  ms,
  slowest,
  stepMs,
  transferMs,
  step,
  isSlow,
  shape,
}: Moment): Omit<RankSample, 'metrics'> {
  const { slowRank } = shape;
  const isSlowest = isSlow && rank === slowRank;
  const waits = isSlow && !isSlowest && (rank + at) % 3 === 0;
  return {
    rank,
    host: hostNames(shape.ranks)[Math.floor(rank / ranksPerHost)] as string,
    pid: 41_200 + rank * 7,
    presence: 'here',
    tone: isSlowest ? 'slow' : 'good',
    text: isSlowest
      ? 'trains; the others wait for it'
      : waits
        ? `waits for rank ${slowRank} in allreduce "block_4/conv/kernel"`
        : 'trains',
    step,
    stepMs,
    waitMs: slowest - ms,
    exposedMs: slowest - ms + transferMs,
    samplesPerSecond: (32 / stepMs) * 1000,
    bytesPerSecond: (102e6 / stepMs) * 1000,
    ...(isSlowest ? { late: `${Math.round(slowest - slowest / 1.55)} ms/step` } : {}),
    last: 'allreduce DistributedOptimizer.1.0.0',
    dataShare: 0.04,
    busyCores: 0.97 + noise(rank, at + 5) * 0.03,
    rssBytes: (1.31 + rank * 0.013 + noise(rank, at) * 0.002) * gibi,
  };
}

interface Summary {
  readonly shape: JobShape;
  readonly step: number;
  readonly stepMs: number;
  readonly slowest: number;
  readonly own: readonly number[];
  readonly isSlow: boolean;
}

function headlineOf({ shape, step, stepMs, slowest, own, isSlow }: Summary): Headline {
  const middle = [...own].sort((a, b) => a - b)[Math.floor(own.length / 2)] as number;
  const share = Math.round(((slowest - middle) / stepMs) * 100);
  const waiting = own.reduce((sum, ms) => sum + slowest - ms, 0) / own.length;
  return {
    tone: isSlow ? 'slow' : 'good',
    text: isSlow
      ? `rank ${shape.slowRank} keeps the others waiting, ${share} % of a step`
      : `${shape.ranks} ranks train`,
    step,
    steps,
    epoch: Math.floor(step / 400) + 1,
    epochs: 10,
    secondsLeft: ((steps - step) * stepMs) / 1000,
    samplesPerSecond: (shape.ranks * 32 * 1000) / stepMs,
    exposedShare: (waiting + 9) / stepMs,
    dataShare: 0.04,
  };
}

function hostNames(ranks: number): string[] {
  const letters = 'abcdefghijklmnopqrstuvwxyz';
  return Array.from({ length: Math.ceil(ranks / ranksPerHost) }, (_, at) => `gpu-${letters[at]}`);
}

function hostUse(host: string, index: number, takenAt: number): HostUse {
  const busy = 4.1 + index * 0.3 + noise(index, takenAt / everyMs) * 0.3;
  return {
    host,
    takenAt,
    processors: { cores: 16, busyCores: busy },
    memory: { totalBytes: 64 * gibi, availableBytes: (64 - 14.5 - index * 2) * gibi, limit: 'machine' },
    gpus: [0, 1].map((gpu) => ({
      index: gpu,
      name: 'NVIDIA L4',
      busyShare: 0.86 + noise(gpu, takenAt / everyMs + index) * 0.08,
      usedBytes: 17.2 * gibi,
      totalBytes: 24 * gibi,
    })),
  };
}

/** As ranks of this job print them. */
export function logLines(shape: JobShape, count: number, firstId = 1): LogLine[] {
  return Array.from({ length: count }, (_, i) => {
    const id = firstId + i;
    const rank = id % shape.ranks;
    const step = Math.floor(id / shape.ranks) * 4;
    return {
      id,
      at: startedAt + 20_000 + Math.floor(id / shape.ranks) * 1000,
      rank,
      stream: 'stdout',
      text: `epoch ${1 + Math.floor(step / 400)}  step ${step}  loss ${(2.3 * Math.exp(-step / 700)).toFixed(4)}`,
    };
  });
}

export function eventsOf(shape: JobShape): JobEvent[] {
  const { slowRank = 3 } = shape;
  return [
    {
      id: 1,
      at: startedAt + 96_000,
      kind: 'checkpoint',
      tone: 'good',
      rank: 0,
      text: 'Checkpoint of step 400 written to checkpoints/epoch-1 in 0.8 s.',
    },
    {
      id: 2,
      at: startedAt + 190_000,
      kind: 'straggler',
      tone: 'slow',
      rank: slowRank,
      text: `Rank ${slowRank} on gpu-a has been slower than the others for 30 steps: 131 ms of its own per step, the others 85 ms.`,
      report: [
        `rank ${slowRank} (gpu-a, pid 41221)`,
        '  step 744   own 131.2 ms   waits   0.4 ms',
        '  step 745   own 130.8 ms   waits   0.3 ms',
        'rank 0 (gpu-a, pid 41200)',
        '  step 744   own  84.9 ms   waits  46.7 ms',
      ].join('\n'),
    },
    {
      id: 3,
      at: startedAt + 241_000,
      kind: 'timeline',
      tone: 'good',
      text: 'A timeline of 50 steps has been recorded.',
      href: 'timeline.html',
    },
  ];
}
