// What horovodrun says about the resets of an elastic job: a line for each, a summary at the end, and the report if the job fails.

import type { DriverState, Order } from '../../rendezvous/driver/driver-state.ts';
import type { JobNews } from '../../rendezvous/driver/job-news.ts';
import { SurvivedLosses } from '../../rendezvous/driver/survived-losses.ts';
import { failureReport } from '../failure-report/report.ts';
import { exitCodeOf, exitingRank, findRootCause, type RankEnd } from '../failure-report/root-cause.ts';
import { ranksText } from '../job-parts/rank-record.ts';

interface EndedWorker {
  readonly atEnd: RankEnd;
  /** With all of its output. */
  readonly later: () => RankEnd;
}

export class JobStory {
  readonly #say: (text: string) => void;
  readonly #survived = new SurvivedLosses();
  #failure: (Order & { kind: 'fail' }) | undefined;
  /** Since the last reset. */
  #ended: EndedWorker[] = [];

  constructor(say: (text: string) => void) {
    this.#say = say;
  }

  tell(order: Order): void {
    if (order.kind === 'reset') {
      this.#say(`${this.#survived.add(order)}.`);
      this.#ended = [];
    }
    if (order.kind === 'too-few')
      this.#say(`${ranksText(order.available)} left, and --min-np is ${order.min}: waiting for more.`);
    if (order.kind === 'fail') this.#failure = order;
  }

  /** What `horovod status` shows. */
  news(state: DriverState): Omit<JobNews, 'pid'> {
    return this.#survived.news(state);
  }

  /** `rank`: that it had last. */
  ended(end: RankEnd, rank: number, later: () => RankEnd): void {
    const name = rank === end.rank ? `rank ${rank}` : `rank ${rank} (worker ${end.rank})`;
    this.#ended.push({ atEnd: { ...end, name }, later });
  }

  /** `exitCode`: of a worker that failed after the job was finished, or 0. */
  ending(exitCode: number): { exitCode: number; report?: string; cause?: RankEnd } {
    const ends = this.#ended.map(({ atEnd, later }) => {
      const { stderrTail, uncaught } = later();
      return { ...atEnd, stderrTail, uncaught };
    });
    const survived = this.#survived.before();
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
      return { exitCode: exitCodeOf(exitingRank(cause, ends).end) || 1, report, cause };
    }
    const summary = this.#survived.summary();
    return summary === undefined ? { exitCode } : { exitCode, report: summary };
  }
}

function describeLastLoss({ name, rank, hostname, end, lost }: RankEnd): string {
  const how = lost ?? ('signal' in end ? `was killed by ${end.signal}` : `exited with code ${end.code}`);
  return `${name ?? `rank ${rank}`} on ${hostname} ${how}`;
}
