// `horovod/testing`: ranks for tests. In one process (runRanks), as real processes (spawnRanks), and the suite
// that every data plane passes (describePlane).

export * as collectives from '../context/collectives.ts';
export type { ContextLimits, HorovodContext, World } from '../context/context.ts';
export { prepareAllreduce } from '../context/prepared.ts';
export { MemoryHub, type MemoryPlane } from '../plane/memory/memory-plane.ts';
export type {
  DataPlane,
  GroupSpec,
  Job,
  Outcome,
  PlaneGroup,
  PlaneOperation,
  Round,
} from '../plane/plane.ts';
export { describePlane } from './plane-conformance.ts';
export { type MakeWorld, openGroups, type PlaneWorld } from './plane-world.ts';
export {
  type RankBody,
  type RankExtras,
  RanksFailed,
  type RunRanksOptions,
  runRanks,
} from './run-ranks.ts';
export {
  type HorovodrunProcess,
  type SpawnRanksOptions,
  type SpawnRanksResult,
  spawnRanks,
  startHorovodrun,
} from './spawn-ranks.ts';
