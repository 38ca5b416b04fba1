// What the algorithms of the portable transport across hosts stand on: posts of all members, slots inside the host (an
// Exchange of the local members, numbered by their place), and connections to the members of other hosts, on which
// bytes are sent and received in order, without headers: all sizes are known from the posts.

import type { ReduceKernels } from '../../../../tensor/wasm-reduce.ts';
import type { Exchange, Steps } from '../exchange.ts';
import type { Seats } from './seats.ts';

export interface ClusterExchange {
  readonly seats: Seats;
  readonly index: number;
  readonly size: number;
  /** Most bytes that a post carries. */
  readonly eagerBytes: number;
  readonly kernels: ReduceKernels;
  /** Area of the staging memory that the running algorithm may use besides that of `local`. */
  readonly crossArea: number;
  readonly crossBytes: number;
  /** Whether allgather sends to one member of each host, who tells the others. */
  readonly gathersByHost: boolean;
  /** The members of this host. */
  readonly local: Exchange;

  payloadBytes(member: number): number;
  payload(member: number): number;
  totalBytes(member: number): number;
  sendBytes(member: number, to: number): number;

  /** To a member of another host; the bytes must not change before the ticket is done. */
  send(member: number, bytes: Uint8Array): Ticket;
  /** The next bytes from a member of another host. */
  receive(member: number, place: Uint8Array): Ticket;
  isDone(ticket: Ticket): boolean;
  /** Moves bytes where that is possible; true if any were. Throws when a connection that is needed has ended. */
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
 * Steps over the connections, as runSteps() makes them through slots: `begin` queues what a step sends and receives,
 * one step ahead; `end` is called when all of it is done. A step's sends are over before the step ends, so memory
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
