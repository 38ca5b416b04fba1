// A rank's part in tuning. Every so many steps the ranks exchange what rank 0 has decided, and all switch.
//
// NOTE [When settings change]. Ranks that plan a batch or a route with different settings would hang or mix up bytes. So
// settings change only as the result of a collective: at the end of a step, by an exchange all ranks take part in while
// none of them has anything in flight. The exchange is *optional* (engine/agreement/resolve.ts): where not all ranks come
// to it at the same point of their work (one has joined, marks more or fewer steps, or has a promise of the user's in
// flight), it is given up on all ranks, at once and by a decision they all know of; nothing changes and nobody waits. From
// there all of them count steps anew, so ranks that had lost step after a join() find it again. Where one has shut down,
// tuning ends.

import { HorovodError } from '../../errors.ts';
import type { StepMark } from '../step-clock.ts';
import type { TunableValues } from './tunables.ts';

/** What a tuner needs of its context. */
export interface TunerHost {
  readonly rank: number;
  /** Nothing of this rank is in flight, in any process set. */
  isIdle(): boolean;
  /** Gives a text and gets those of all ranks; undefined where it was given up. Blocking, where the transport can. */
  exchange(key: string, text: string): readonly string[] | undefined | Promise<readonly string[] | undefined>;
  apply(values: TunableValues): void;
  /** Tuning is over, and these values stay. On every rank. */
  settled?(values: TunableValues): void;
  nowMs(): number;
  warn(text: string): void;
}

/** Rank 0 only: what comes out of the times of steps. */
export interface Decider {
  /** Times of the steps of a sample under the settings decided last. */
  decide(stepMs: readonly number[]): Decision;
  /** All ranks have taken it over. */
  agreed(decision: Decision): void;
}

export interface Decision {
  readonly values: TunableValues;
  readonly isOver: boolean;
}

/** How the keys of exchanges begin. */
export const exchangeKey = 'horovod.autotune.';
/** The first step after a switch makes routes and buffers anew. */
const stepsToSettle = 1;
/** Attempts become rarer, by doubling, up to this often. */
const mostDoublings = 6;
const warnAfter = 3;

export class Tuner {
  readonly #host: TunerHost;
  readonly #decider: Decider | undefined;
  readonly #stepsPerSample: number;
  #steps = 0;
  #stepMs: number[] = [];
  #lastAtMs: number | undefined;
  #exchanges = 1;
  #inVain = 0;
  #decision: Decision | undefined;
  #isOver = false;
  #current: Promise<void> | undefined;

  constructor(host: TunerHost, decider: Decider | undefined, stepsPerSample: number) {
    this.#host = host;
    this.#decider = decider;
    this.#stepsPerSample = stepsPerSample;
  }

  get isOver(): boolean {
    return this.#isOver;
  }

  /** For transports that cannot block: the exchange going on has ended. */
  settled(): Promise<void> {
    return this.#current ?? Promise.resolve();
  }

  onStep({ atMs }: Pick<StepMark, 'atMs'>): void {
    if (this.#isOver || this.#current !== undefined) return;
    if (this.#lastAtMs !== undefined) this.#stepMs.push(atMs - this.#lastAtMs);
    this.#lastAtMs = atMs;
    this.#steps++;
    const interval = (this.#stepsPerSample + stepsToSettle) * 2 ** Math.min(this.#inVain, mostDoublings);
    if (this.#steps < interval) return;
    if (!this.#host.isIdle()) {
      // The others may be waiting: the next thing this rank does tells them.
      this.#restart();
      return;
    }
    this.#exchange();
  }

  /** Said on every rank, whichever of them had asked. */
  onGivenUp(): void {
    this.#exchanges++;
    this.#restart();
    if (++this.#inVain !== warnAfter || this.#host.rank !== 0) return;
    this.#host.warn(
      'autotune is on hold: the ranks do not end their steps at the same point. A rank has joined, marks more or fewer ' +
        'steps than the others, or has collectives in flight at the end of a step. All ranks keep their settings; ' +
        'autotune tries again from time to time.',
    );
  }

  #exchange(): void {
    // One that was given up is still to be agreed on: what was measured since belongs to the settings before it.
    this.#decision ??= this.#decider?.decide(this.#stepMs.slice(-this.#stepsPerSample));
    const decision = this.#decision;
    const text = decision === undefined ? '' : JSON.stringify(decision);
    try {
      const answer = this.#host.exchange(`${exchangeKey}${this.#exchanges}`, text);
      if (answer instanceof Promise) this.#takeLater(answer);
      else this.#take(answer);
    } catch (error) {
      this.#endIfLeft(error);
    }
  }

  #takeLater(answer: Promise<readonly string[] | undefined>): void {
    this.#current = answer
      .then((texts) => {
        this.#current = undefined;
        this.#take(texts);
      })
      .catch((error) => this.#endIfLeft(error));
    // Other errors of the job reach the user by the collectives that fail with them.
    this.#current.catch(() => {});
  }

  /** Process sets without the rank that has left may go on, with the settings as they are: they switch together or not at all. */
  #endIfLeft(error: unknown): void {
    if (!HorovodError.is(error) || error.code !== 'ERR_HVD_SHUT_DOWN') throw error;
    this.#isOver = true;
    if (this.#host.rank === 0)
      this.#host.warn(`autotune has ended and all ranks keep their settings: ${error.message}`);
  }

  #take(texts: readonly string[] | undefined): void {
    // Given up: onGivenUp() has been called.
    if (texts === undefined) return;
    this.#exchanges++;
    this.#inVain = 0;
    const decision = JSON.parse(texts[0] as string) as Decision;
    this.#host.apply(decision.values);
    this.#isOver = decision.isOver;
    if (decision.isOver) this.#host.settled?.(decision.values);
    const own = this.#decision;
    this.#decision = undefined;
    if (own !== undefined) this.#decider?.agreed(own);
    this.#restart();
  }

  #restart(): void {
    this.#steps = 0;
    this.#stepMs = [];
    this.#lastAtMs = this.#host.nowMs();
  }
}
