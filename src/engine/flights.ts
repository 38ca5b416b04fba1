// What a channel has under way in the group of its transport: *flights*, each a batch and what to do at its end. Launches
// them, waits for them, takes back those that have not begun, and sorts out the errors of the transport.

import { HorovodError } from '../errors.ts';
import type { Batch, Outcome, QuickPath, TransportGroup } from '../transport/transport.ts';
import type { Request } from './request.ts';

export interface Flight {
  readonly batch: Batch;
  /** The requests it carries; none for an exchange of lists, and for what was agreed in one. */
  readonly requests: readonly Request[];
  readonly end: (outcome: Outcome) => void;
}

export class Flights {
  readonly #group: TransportGroup;
  readonly #fail: (error: HorovodError) => void;
  readonly #flights: Flight[] = [];
  #isOver = false;

  /** `fail` hears every error of the transport: none of them can be recovered from. */
  constructor(group: TransportGroup, fail: (error: HorovodError) => void) {
    this.#group = group;
    this.#fail = fail;
  }

  get isEmpty(): boolean {
    return this.#flights.length === 0;
  }

  launch(flight: Flight): void {
    this.#flights.push(flight);
    const outcome = this.attempt(() => this.#group.submit(flight.batch, (late) => this.#land(flight, late)));
    if (outcome !== undefined) this.#land(flight, outcome);
  }

  /** Takes over a quick operation that has begun by itself and goes on in the background. */
  adopt(flight: Flight, quick: QuickPath): void {
    this.#flights.push(flight);
    quick.adopt(flight.batch, (outcome) => this.#land(flight, outcome));
  }

  /** Blocks until the first flight is over. */
  waitForFirst(): void {
    const [flight] = this.#flights;
    if (flight === undefined) throw new Error('internal: a request waits and nothing is in flight');
    const outcome = this.attempt(() => this.#group.waitSync(flight.batch));
    if (outcome !== undefined) this.#land(flight, outcome);
  }

  /** Takes back every flight that has not begun. */
  takeBack(): Flight[] {
    const batches = new Set(this.#group.takeBack());
    const taken = this.#flights.filter(({ batch }) => batches.has(batch));
    for (const flight of taken) this.#remove(flight);
    return taken;
  }

  /** Nothing lands any more. */
  drop(): void {
    this.#isOver = true;
    this.#flights.length = 0;
  }

  /**
   * The outcome of a transport's call. Undefined: it is not known yet, or the call failed and `fail` has been told. Throws
   * where nothing was posted and only the caller is concerned.
   */
  attempt(call: () => Outcome | undefined): Outcome | undefined {
    try {
      return call();
    } catch (error) {
      if (!HorovodError.is(error) || error.code === 'ERR_HVD_WOULD_BLOCK') throw error;
      this.#fail(error);
      return undefined;
    }
  }

  #land(flight: Flight, outcome: Outcome | HorovodError): void {
    if (this.#isOver) return;
    this.#remove(flight);
    if (outcome instanceof HorovodError) this.#fail(outcome);
    else flight.end(outcome);
  }

  #remove(flight: Flight): void {
    const place = this.#flights.indexOf(flight);
    if (place >= 0) this.#flights.splice(place, 1);
  }
}
