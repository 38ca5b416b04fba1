// What a signal to horovodrun does to its job: the ranks get it, and SIGKILL if a second one comes.

import { signalNumber } from '../../control/process-status.ts';
import { type RankRecord, ranksText, signalRunning } from './rank-record.ts';

export class Interruption {
  readonly #say: (text: string) => void;
  readonly #endAll: (signal: NodeJS.Signals) => void;
  #signal: NodeJS.Signals | undefined;

  /** `endAll` sends the signal to every rank, and SIGKILL after a while. */
  constructor(say: (text: string) => void, endAll: (signal: NodeJS.Signals) => void) {
    this.#say = say;
    this.#endAll = endAll;
  }

  get hasCome(): boolean {
    return this.#signal !== undefined;
  }

  /** The exit code of a job that a signal has ended. */
  get exitCode(): number | undefined {
    return this.#signal === undefined ? undefined : 128 + signalNumber(this.#signal);
  }

  receive(signal: NodeJS.Signals, ranks: Iterable<RankRecord>): void {
    if (this.#signal !== undefined) {
      signalRunning(ranks, 'SIGKILL');
      return;
    }
    this.#signal = signal;
    this.#say(`received ${signal}; stopping ${ranksText([...ranks].length)}.`);
    // SIGPIPE is about our own output, and Node ignores it.
    this.#endAll(signal === 'SIGPIPE' ? 'SIGTERM' : signal);
  }
}
