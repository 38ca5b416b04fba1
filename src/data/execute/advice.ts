// What to do when the training loop waits for data: the stage that is busiest, and what makes it faster. Pure.

/** How a pipeline runs. */
export interface Advice {
  /** Compute threads; 0: everything runs in the main thread. */
  readonly threads: number;
  readonly interleave: number;
  readonly memoryMb: number;
  /** Stages of the reader thread; the first waits for files. */
  readonly readerStages: readonly string[];
  /** Stages that run in the main thread, because their functions were given as such. */
  readonly localStages: readonly string[];
}

/** A stage that is less busy than this does not hold the others up. */
const busyShare = 0.6;

/** `shares`: how busy each stage was, from 0 to 1; those of the compute threads take turns in the same threads. */
export function adviceOn(shares: ReadonlyMap<string, number>, advice: Advice): string {
  const { threads, interleave, memoryMb, readerStages, localStages } = advice;
  const computing = [...shares].filter(
    ([stage]) => !readerStages.includes(stage) && !localStages.includes(stage),
  );
  const groups = [
    { kind: 'read', stages: [...shares].filter(([stage]) => stage === readerStages[0]) },
    { kind: 'unpack', stages: [...shares].filter(([stage]) => readerStages.indexOf(stage) > 0) },
    { kind: 'compute', stages: computing },
    { kind: 'local', stages: [...shares].filter(([stage]) => localStages.includes(stage)) },
  ].map(({ kind, stages }) => {
    const sorted = stages.sort(([, a], [, b]) => b - a);
    return { kind, stage: sorted[0]?.[0] ?? '', share: sorted.reduce((sum, [, share]) => sum + share, 0) };
  });
  const [worst] = groups.sort((a, b) => b.share - a.share);
  if (worst === undefined || worst.stage === '') return 'no stage has reported yet.';
  const busy = `${worst.stage} is the busiest stage (${Math.round(100 * Math.min(1, worst.share))} %).`;
  if (threads === 0 && worst.kind !== 'local') {
    return `${busy} Everything runs in the main thread, because HOROVOD_DATA_THREADS is 0: leave it out.`;
  }
  if (worst.share < busyShare) {
    return `${busy} No stage is busy all the time: raise prefetch(), and HOROVOD_DATA_MEMORY_MB (${memoryMb}) if batches are large.`;
  }
  switch (worst.kind) {
    case 'read':
      return `${busy} The files come slowly: raise interleave (${interleave} at a time), or copy them to a faster place.`;
    case 'unpack':
      return worst.stage === unpackStage
        ? `${busy} One thread decompresses and checks records: write the files without compression, or do less work on other ranks of this host.`
        : `${busy} One thread of this rank makes the elements: do less there, or more in map(), which has ${threadsText(threads)}.`;
    case 'local':
      return `${busy} It runs in the main thread: give its function as exported(module, name), and threads will run it.`;
    default:
      return `${busy} Raise HOROVOD_DATA_THREADS (${threads}) if there are idle cores, or do less there.`;
  }
}

/** The work of the reader that is not reading. */
export const unpackStage = 'unpack';

function threadsText(threads: number): string {
  return threads === 1 ? '1 thread' : `${threads} threads`;
}
