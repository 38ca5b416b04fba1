// The algorithms for groups whose members are on several hosts.

import type { Algorithms } from '../collective.ts';
import { alltoall } from './alltoall.ts';
import type { ClusterExchange } from './cluster-exchange.ts';
import { allgather, broadcast } from './gather.ts';
import { allreduce, reducescatter } from './reduce.ts';

export const clusterAlgorithms: Algorithms<ClusterExchange> = {
  allreduce,
  reducescatter,
  allgather,
  broadcast,
  alltoall,
};
