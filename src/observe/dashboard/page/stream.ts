// The connection to the server: an EventSource, which connects again by itself after most failures, and what it does not do: it also
// tries again when the server answers with an error, and when nothing has come for so long that the connection must be dead, as it is
// after the computer has slept. The server begins each connection with all that is known, so nothing is missing afterwards.

import type { DashboardEvents } from '../messages.ts';

/** 'ended': the job has, and nothing more will come. */
export type ConnectionState = 'connecting' | 'live' | 'lost' | 'ended';

/** What this needs of an EventSource. */
export interface Source {
  readonly readyState: number;
  addEventListener(name: string, listener: (event: { readonly data?: string }) => void): void;
  close(): void;
}

export interface StreamOptions {
  readonly open: () => Source;
  readonly onEvent: <K extends keyof DashboardEvents>(name: K, event: DashboardEvents[K]) => void;
  readonly onState: (state: ConnectionState) => void;
  readonly now?: () => number;
  /** A connection without events for so long is given up. Default: 20 s. */
  readonly silenceMs?: number;
}

const names = ['start', 'sample', 'logs', 'news', 'end'] as const;
const closed = 2;
const maxDelayMs = 15_000;

export class Stream {
  readonly #options: Required<StreamOptions>;
  #source: Source | undefined;
  #state: ConnectionState = 'connecting';
  #lastAt = 0;
  #failures = 0;
  #retryAt: number | undefined;

  constructor(options: StreamOptions) {
    this.#options = { now: () => Date.now(), silenceMs: 20_000, ...options };
    this.#connect();
  }

  get state(): ConnectionState {
    return this.#state;
  }

  /** To be called every second or so, and when the page becomes visible again. */
  check(): void {
    if (this.#state === 'ended') return;
    const now = this.#options.now();
    if (this.#retryAt !== undefined) {
      if (now >= this.#retryAt) this.#connect();
    } else if (now - this.#lastAt > this.#options.silenceMs) {
      // The server may only have nothing to say: a connection that fails says so itself.
      this.#setState('connecting');
      this.#connect();
    }
  }

  close(): void {
    this.#source?.close();
    this.#source = undefined;
    this.#setState('ended');
  }

  #connect(): void {
    this.#source?.close();
    this.#retryAt = undefined;
    this.#lastAt = this.#options.now();
    const source = this.#options.open();
    this.#source = source;
    for (const name of names) {
      source.addEventListener(name, ({ data }) => {
        if (source === this.#source && data !== undefined) this.#take(name, data);
      });
    }
    source.addEventListener('error', () => {
      if (source === this.#source) this.#fail(source);
    });
  }

  #take(name: keyof DashboardEvents, data: string): void {
    this.#lastAt = this.#options.now();
    this.#failures = 0;
    const event = JSON.parse(data) as DashboardEvents[typeof name];
    this.#setState('live');
    this.#options.onEvent(name, event as never);
    const hasEnded = name === 'end' || (name === 'start' && 'end' in event && event.end !== undefined);
    if (hasEnded) this.close();
  }

  #fail(source: Source): void {
    this.#setState('lost');
    // Otherwise the browser is trying again already.
    if (source.readyState !== closed) return;
    this.#failures += 1;
    this.#retryAt = this.#options.now() + Math.min(maxDelayMs, 500 * 2 ** this.#failures);
  }

  #setState(state: ConnectionState): void {
    if (this.#state === state) return;
    this.#state = state;
    this.#options.onState(state);
  }
}
