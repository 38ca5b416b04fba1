// `horovod/testing`: ranks for the tests of your own code, in one process (runRanks) or as real processes (spawnRanks),
// and faults to test what happens when a rank fails.

export type { Fault } from './faults.ts';
export { RanksFailed } from './run-contexts.ts';
export { type RankFunctions, type RunRanksOptions, runRanks } from './run-ranks.ts';
export {
  type HorovodrunProcess,
  type SpawnRanksOptions,
  type SpawnRanksResult,
  spawnRanks,
  startHorovodrun,
} from './spawn-ranks.ts';
