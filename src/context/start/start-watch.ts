// While ranks start: the first failure of any of them ends the start of all, with the same error. It travels through the
// store, because not all have the control block yet, and goes before its sender closes what others may be about to open.

import { decodeFailureRecord, toError, toFailureRecord } from '../../control/failure-record.ts';
import { HorovodError } from '../../errors.ts';
import type { Store } from '../../rendezvous/store/store.ts';

/** How long the launcher may take to answer, or to notice a death, when the start has failed already. */
const lastWordsMs = 1000;

export class StartWatch {
  readonly #store: Store;
  readonly #key: string;
  readonly #stop = new AbortController();
  readonly #failure = new AbortController();
  readonly #failed: Promise<never>;

  constructor(store: Store, key: string) {
    this.#store = store;
    this.#key = key;
    this.#failed = store.get(key, { signal: this.#stop.signal }).then((text) => {
      throw errorOf(text);
    });
    this.#failed.catch((error: unknown) => {
      if (!this.#stop.signal.aborted) this.#failure.abort(error);
    });
  }

  /** Aborted when the start of another rank fails, for waits that have something to close; the reason is the error. */
  get signal(): AbortSignal {
    return this.#failure.signal;
  }

  /** The outcome of `wait`, unless the start of another rank fails before. */
  guard<T>(wait: Promise<T>): Promise<T> {
    return Promise.race([wait, this.#failed]);
  }

  /** Tells the others, and gives back the failure that came first: this one, or another's. `owner` holds the files. */
  async tell(error: HorovodError, owner: number | undefined): Promise<HorovodError> {
    let first = error;
    try {
      // A file that is not there any more is the aftermath of its owner's end.
      if (error.code === 'ERR_HVD_SHARED_MEMORY' && owner !== undefined)
        first = await this.#endOf(owner, error);
      await this.#store.set(this.#key, JSON.stringify(toFailureRecord(first)), { timeoutMs: lastWordsMs });
      return first;
    } catch {
      // Somebody was quicker, or the launcher is gone.
      return this.#store.get(this.#key, { timeoutMs: lastWordsMs }).then(
        (text) => errorOf(text),
        () => first,
      );
    }
  }

  /** The start is over. */
  end(): void {
    this.#stop.abort();
  }

  async #endOf(owner: number, error: HorovodError): Promise<HorovodError> {
    try {
      return errorOf(await this.#store.get(this.#key, { from: owner, timeoutMs: lastWordsMs }));
    } catch (loss) {
      const isLoss = HorovodError.is(loss) && loss.rank === owner;
      return isLoss ? loss : error;
    }
  }
}

/** Aborted when one of them is. */
export function eitherOf(...signals: readonly (AbortSignal | undefined)[]): AbortSignal {
  return AbortSignal.any(signals.filter((signal) => signal !== undefined));
}

/** What the other ranks are told of an error that ended the start of this one, whatever it is. */
export function asStartFailure(error: unknown, rank: number): HorovodError {
  if (HorovodError.is(error)) return error;
  const text = `rank ${rank} could not start: ${error instanceof Error ? error.message : String(error)}.`;
  return new HorovodError('ERR_HVD_RENDEZVOUS', text, { rank, cause: error });
}

function errorOf(text: string): HorovodError {
  const record = decodeFailureRecord(Buffer.from(text));
  return record === undefined
    ? new HorovodError('ERR_HVD_RENDEZVOUS', 'another rank failed to start, and its error cannot be read.')
    : toError(record);
}
