// What horovodrun says about the resets of an elastic job: a line for each, a summary at the end, and the report if the job fails.

import { failureReport } from '../failure-report/report.ts';
import { exitCodeOf, exitingRank, findRootCause, type RankEnd } from '../failure-report/root-cause.ts';
import { ranksText } from '../job-parts/rank-record.ts';
import type { Loss, Order, Reset } from './driver-state.ts';

interface EndedWorker {
  readonly atEnd: RankEnd;
  /** With all of its output. */
  readonly later: () => RankEnd;
}

export class JobStory {
  readonly #say: (text: string) => void;
  readonly #lines: string[] = [];
  #lost = 0;
  #tookMs = 0;
  #failure: (Order & { kind: 'fail' }) | undefined;
  /** Since the last reset. */
  #ended: EndedWorker[] = [];

  constructor(say: (text: string) => void) {
    this.#say = say;
  }

  tell(order: Order): void {
    if (order.kind === 'reset') {
      const line = describeReset(order);
      this.#lines.push(line);
      this.#lost += order.lost.filter(({ isWanted }) => !isWanted).length;
      this.#tookMs += order.tookMs;
      this.#ended = [];
      this.#say(`${line}.`);
    }
    if (order.kind === 'too-few')
      this.#say(`${ranksText(order.available)} left, and --min-np is ${order.min}: waiting for more.`);
    if (order.kind === 'fail') this.#failure = order;
  }

  /** `rank`: that it had last. */
  ended(end: RankEnd, rank: number, later: () => RankEnd): void {
    const name = rank === end.rank ? `rank ${rank}` : `rank ${rank} (worker ${end.rank})`;
    this.#ended.push({ atEnd: { ...end, name }, later });
  }

  /** `exitCode`: of a worker that failed after the job was finished, or 0. */
  ending(exitCode: number): { exitCode: number; report?: string } {
    const ends = this.#ended.map(({ atEnd, later }) => {
      const { stderrTail, uncaught } = later();
      return { ...atEnd, stderrTail, uncaught };
    });
    const survived =
      this.#lines.length === 0 ? [] : ['Resets before that:', ...this.#lines.map((line) => `  ${line}`)];
    const cause = findRootCause(ends);
    const code = this.#failure?.code;
    if (
      code === 'ERR_HVD_RESET_LIMIT' ||
      code === 'ERR_HVD_TOO_FEW_RANKS' ||
      (code !== undefined && cause === undefined)
    ) {
      const losses = ends
        .filter(({ endedBy }) => endedBy === undefined)
        .map((end) => `  ${describeLastLoss(end)}`);
      const head = `The job has failed: ${this.#failure?.message}`;
      return { exitCode: 1, report: [head, ...losses, ...survived, 'Exit code: 1'].join('\n') };
    }
    if (cause !== undefined && (code !== undefined || exitCode !== 0)) {
      const why = this.#failure === undefined ? [] : [`It could not continue: ${this.#failure.message}`];
      const report = [failureReport(cause, ends), ...why, ...survived].join('\n');
      return { exitCode: exitCodeOf(exitingRank(cause, ends).end) || 1, report };
    }
    if (this.#lost === 0) return { exitCode };
    const losses = `${this.#lost} lost rank${this.#lost === 1 ? '' : 's'}`;
    const resets = `${this.#lines.length} reset${this.#lines.length === 1 ? '' : 's'}`;
    return {
      exitCode,
      report: `the job has finished in spite of ${losses}: ${resets}, ${Math.round(this.#tookMs)} ms altogether.`,
    };
  }
}

/** 'rank 1 on a was killed by SIGKILL; 2 ranks continue after 140 ms (generation 2)' */
export function describeReset({ lost, joined, size, tookMs, generation }: Reset): string {
  const changes = [
    ...lost.map(describeLoss),
    ...(joined.length === 0
      ? []
      : [
          `${joined.length === 1 ? 'rank' : 'ranks'} ${joined.join(', ')} ${joined.length === 1 ? 'has' : 'have'} joined`,
        ]),
  ];
  const what = changes.length === 0 ? 'the ranks have formed anew' : changes.join('; ');
  const verb = size === 1 ? 'continues' : 'continue';
  return `${what}; ${ranksText(size)} ${verb} after ${Math.round(tookMs)} ms (generation ${generation})`;
}

function describeLoss({ rank, host, how }: Loss): string {
  return `rank ${rank} on ${host} ${how.replace(/[.,]$/, '')}`;
}

function describeLastLoss({ name, rank, hostname, end, lost }: RankEnd): string {
  const how = lost ?? ('signal' in end ? `was killed by ${end.signal}` : `exited with code ${end.code}`);
  return `${name ?? `rank ${rank}`} on ${hostname} ${how}`;
}
