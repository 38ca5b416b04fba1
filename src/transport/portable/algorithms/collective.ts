// Which algorithm runs an operation.

import type {
  AllgatherOperation,
  AllreduceOperation,
  AlltoallOperation,
  BroadcastOperation,
  ReducescatterOperation,
  TransportOperation,
} from '../../transport.ts';
import { allreduce } from './allreduce.ts';
import { alltoallInside } from './alltoall.ts';
import type { Collective, Exchange } from './exchange.ts';
import { allgather, broadcast } from './gather.ts';
import { reducescatter } from './reducescatter.ts';

/** One function for each kind of operation but the barrier, which the posts alone complete. */
export interface Algorithms<On> {
  allreduce(exchange: On, operation: AllreduceOperation): Collective;
  reducescatter(exchange: On, operation: ReducescatterOperation): Collective;
  allgather(exchange: On, operation: AllgatherOperation): Collective;
  broadcast(exchange: On, operation: BroadcastOperation): Collective;
  alltoall(exchange: On, operation: AlltoallOperation): Collective;
}

/** Those for members of one host. cluster/algorithms.ts has those for several hosts. */
export const hostAlgorithms: Algorithms<Exchange> = {
  allreduce,
  reducescatter,
  allgather,
  broadcast,
  alltoall: alltoallInside,
};

export function collectiveOf<On>(
  algorithms: Algorithms<On>,
  exchange: On,
  operation: TransportOperation,
): Collective {
  switch (operation.kind) {
    case 'allreduce':
      return algorithms.allreduce(exchange, operation);
    case 'reducescatter':
      return algorithms.reducescatter(exchange, operation);
    case 'allgather':
      return algorithms.allgather(exchange, operation);
    case 'broadcast':
      return algorithms.broadcast(exchange, operation);
    case 'alltoall':
      return algorithms.alltoall(exchange, operation);
    case 'barrier':
      return { totalBytes: 0, payloadBytes: 0, writePayload() {}, *run() {} };
  }
}
