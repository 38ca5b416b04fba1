// What the algorithms for several hosts build on: the posts of all members, slots inside the host (an Exchange of the
// local members, numbered by their place), and connections to the members of other hosts. Connections carry bytes in
// order and without headers: all sizes are known from the posts.

import type { Exchange, Posts, Steps } from '../exchange.ts';
import type { Seats } from './seats.ts';

export interface ClusterExchange extends Posts {
  readonly seats: Seats;
  /** Area of the staging memory that the running algorithm may use in addition to that of `local`. */
  readonly crossArea: number;
  readonly crossBytes: number;
  /** Whether allgather sends to one member of each host, which passes the bytes on to the others. */
  readonly gathersByHost: boolean;
  /** The members of this host. */
  readonly local: Exchange;

  /** Sends to a member of another host; the bytes must not change before the ticket is done. */
  send(member: number, bytes: Uint8Array): Ticket;
  /** Receives the next bytes from a member of another host. */
  receive(member: number, place: Uint8Array): Ticket;
  isDone(ticket: Ticket): boolean;
  /** Moves what can be moved; true if any byte was. Throws if a connection that is needed has ended. */
  pump(): boolean;
}

export type Ticket = Readonly<{ kind: 'send' | 'receive'; member: number; number: number }>;

/** Waits until all of these are done. */
export function* settle(exchange: ClusterExchange, tickets: readonly Ticket[]): Steps {
  let first = 0;
  for (;;) {
    const hasMoved = exchange.pump();
    while (first < tickets.length && exchange.isDone(tickets[first] as Ticket)) first++;
    if (first === tickets.length) return;
    yield hasMoved ? 'progress' : 'waiting';
  }
}

/**
 * Runs steps over the connections, as runSteps() does through slots: `begin` queues what a step sends and receives,
 * one step ahead; `end` is called when all of it is done. The sends of a step are done before the step ends, so memory
 * that alternates between two steps is free again when it is needed.
 */
export function* runCrossSteps(
  exchange: ClusterExchange,
  steps: number,
  begin: (step: number) => Ticket[],
  end: (step: number) => void,
): Steps {
  let next = steps > 0 ? begin(0) : [];
  for (let step = 0; step < steps; step++) {
    const current = next;
    next = step + 1 < steps ? begin(step + 1) : [];
    yield* settle(exchange, current);
    end(step);
    yield 'progress';
  }
}
