// What the compiler must accept and refuse of set-up, process sets and errors. Never run; see collectives.test-d.ts.

import {
  addProcessSet,
  allreduce,
  crossRank,
  crossSize,
  cudaBuilt,
  flightRecord,
  globalProcessSet,
  glooBuilt,
  glooEnabled,
  HorovodError,
  init,
  isHomogeneous,
  isInitialized,
  localRank,
  localSize,
  mpiBuilt,
  mpiEnabled,
  nativeBuilt,
  ncclBuilt,
  ProcessSet,
  type ProcessSetWorld,
  rank,
  removeProcessSet,
  shutdown,
  size,
} from 'horovod';

const evens = new ProcessSet([0, 2]);
const firstOfEachHost = ({ hostOf }: ProcessSetWorld) =>
  [...new Set(hostOf)].map((host) => hostOf.indexOf(host));
export const firsts: ProcessSet = new ProcessSet(firstOfEachHost);
// @ts-expect-error every rank has to choose the same ranks
new ProcessSet(({ rank }) => [rank]);

await init();
await init({ processSets: [evens], ranks: [0, 1], signal: new AbortController().signal, timeoutMs: 5_000 });
await init({ processSets: 'dynamic' });
// @ts-expect-error 'dynamic' is the only word
await init({ processSets: 'static' });
// @ts-expect-error misspelt option
await init({ timeout: 5_000 });

export const numbers: number[] = [rank(), size(), localRank(), localSize(), crossRank(), crossSize()];
export const facts: boolean[] = [
  isInitialized(),
  isHomogeneous(),
  nativeBuilt(),
  mpiBuilt(),
  mpiEnabled(),
  glooBuilt(),
  glooEnabled(),
  cudaBuilt(),
  ncclBuilt(),
];

export const id: number | null = evens.id;
export const members: readonly number[] = globalProcessSet.ranks;
export const odds: ProcessSet = await addProcessSet([1, 3]);
export const again: ProcessSet = await addProcessSet(evens);
export const isGone: boolean = await removeProcessSet(odds);
export const averaged: Float32Array = await allreduce(new Float32Array(1), { processSet: evens });
// @ts-expect-error a list of ranks is not a process set
await allreduce(new Float32Array(1), { processSet: [0, 2] });
// @ts-expect-error ranks are numbers
new ProcessSet(['0', '1']);
// @ts-expect-error the id is given by the job
evens.id = 3;

try {
  await shutdown();
} catch (error) {
  // @ts-expect-error a caught value is unknown until it is tested
  error.code;
  if (HorovodError.is(error)) {
    export_(error.code === 'ERR_HVD_PEER_LOST', error.rank, error.tensor);
    // @ts-expect-error no such code
    export_(error.code === 'ERR_HVD_NO_SUCH_CODE');
  }
}

declare function export_(...values: unknown[]): void;

export const history: unknown[] = flightRecord();
