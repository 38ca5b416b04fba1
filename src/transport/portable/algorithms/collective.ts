// Which algorithm runs an operation.

import type { TransportOperation } from '../../transport.ts';
import { allgather, broadcast } from './gather.ts';
import { allreduce } from './allreduce.ts';
import { alltoall } from './alltoall.ts';
import type { Collective, Exchange } from './exchange.ts';
import { reducescatter } from './reducescatter.ts';

export function collectiveOf(exchange: Exchange, operation: TransportOperation): Collective {
  switch (operation.kind) {
    case 'allreduce':
      return allreduce(exchange, operation);
    case 'reducescatter':
      return reducescatter(exchange, operation);
    case 'allgather':
      return allgather(exchange, operation);
    case 'broadcast':
      return broadcast(exchange, operation);
    case 'alltoall':
      return alltoall(exchange, operation);
    case 'barrier':
      return { totalBytes: 0, payloadBytes: 0, writePayload() {}, *run() {} };
  }
}
