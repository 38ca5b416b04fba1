// `horovod/testing`: ranks for tests, in one process (runRanks) or as real processes (spawnRanks).

export type { ContextLimits, HorovodContext, World } from '../context/context.ts';
export * as collectives from '../operations/collectives.ts';
export { prepareAllreduce } from '../operations/prepared.ts';
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
