// What programs are told about their job while it runs: a view of all ranks twice a second, and each line of output. Watching never changes
// the job: a callback that throws is not called again, and its error is said.

import type { JobView } from '../../observe/status/job-view.ts';
import type { OutputLine } from '../output/line-reader.ts';

export type OnOutput = (rank: number, stream: 'stdout' | 'stderr', line: string) => void;
export type OnStatus = (view: JobView) => void;

/** Ranks write their pages as often. */
const lookMs = 500;

export class JobWatch {
  readonly #tell: OnStatus;
  #timer: NodeJS.Timeout | undefined;
  #look: () => JobView | undefined = () => undefined;

  /** `ours` is not the user's, and does not throw. */
  constructor(onStatus: OnStatus | undefined, say: (text: string) => void, ours: OnStatus = () => undefined) {
    const theirs = onStatus === undefined ? () => undefined : guarded(onStatus, 'onStatus', say);
    this.#tell = (view) => {
      ours(view);
      theirs(view);
    };
  }

  /** `look`: at the job. */
  begin(look: () => JobView | undefined): void {
    this.#look = look;
    this.#once();
    this.#timer = setInterval(() => this.#once(), lookMs);
  }

  /** The job is over: a last look. */
  end(): void {
    clearInterval(this.#timer);
    this.#once();
  }

  #once(): void {
    const view = this.#look();
    if (view !== undefined) this.#tell(view);
  }
}

export function lineListener(
  onOutput: OnOutput | undefined,
  say: (text: string) => void,
): ((line: OutputLine) => void) | undefined {
  if (onOutput === undefined) return undefined;
  const tell = guarded(onOutput, 'onOutput', say);
  return ({ rank, stream, text }) => tell(rank, stream, text);
}

function guarded<A extends readonly unknown[]>(
  callback: (...args: A) => void,
  name: string,
  say: (text: string) => void,
): (...args: A) => void {
  let hasFailed = false;
  return (...args) => {
    if (hasFailed) return;
    try {
      callback(...args);
    } catch (error) {
      hasFailed = true;
      say(`${name} has thrown an error and is not called again: ${(error as Error)?.stack ?? String(error)}`);
    }
  };
}
