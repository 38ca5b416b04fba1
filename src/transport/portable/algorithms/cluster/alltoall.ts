// Alltoall across hosts: that of one host (../alltoall.ts), with a message over each connection for the members elsewhere.

import type { AlltoallOperation } from '../../../transport.ts';
import { alltoall as alltoallWith } from '../alltoall.ts';
import type { Collective } from '../exchange.ts';
import { type ClusterExchange, settle, type Ticket } from './cluster-exchange.ts';

export function alltoall(exchange: ClusterExchange, operation: AlltoallOperation): Collective {
  const { seats, local, index } = exchange;
  return alltoallWith(
    exchange,
    operation,
    { local, members: seats.local },
    function* ({ pieceFor, placeFor, isInPost }) {
      const tickets: Ticket[] = [];
      for (const member of seats.remote) {
        if (!isInPost(member)) tickets.push(exchange.receive(member, placeFor(member)));
        if (!isInPost(index)) tickets.push(exchange.send(member, pieceFor(member)));
      }
      yield* settle(exchange, tickets);
    },
  );
}
