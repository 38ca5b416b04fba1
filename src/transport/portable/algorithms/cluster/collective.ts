// Which algorithm runs an operation across hosts.

import type { TransportOperation } from '../../../transport.ts';
import type { Collective } from '../exchange.ts';
import { alltoall } from './alltoall.ts';
import type { ClusterExchange } from './cluster-exchange.ts';
import { allgather, broadcast } from './gather.ts';
import { allreduce, reducescatter } from './reduce.ts';

export function clusterCollectiveOf(exchange: ClusterExchange, operation: TransportOperation): Collective {
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
