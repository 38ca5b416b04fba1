// One GPU for each rank of a host (--pin-gpus, pinGpu()). CUDA renumbers the GPUs of CUDA_VISIBLE_DEVICES, so it is GPU 0 in every rank.

import { HorovodError } from '../errors.ts';

/** The value of CUDA_VISIBLE_DEVICES for each local rank. `visible` is the value so far, `asked` how the user asked for it. */
export function planGpus(visible: string | undefined, ranks: number, asked = '--pin-gpus'): string[] {
  if (visible === undefined) return Array.from({ length: ranks }, (_, localRank) => String(localRank));
  const gpus = listedGpus(visible);
  if (gpus.length >= ranks) return gpus.slice(0, ranks);
  throw new HorovodError(
    'ERR_HVD_SETTING',
    `${asked}: CUDA_VISIBLE_DEVICES="${visible}" lists ${gpus.length} GPU${gpus.length === 1 ? '' : 's'}, but ${ranks} ranks need one each. ` +
      'List more GPUs, start fewer ranks, or share them: omit ' +
      `${asked}.`,
  );
}

/** The GPUs that CUDA would use. It stops at the first invalid entry: '0,-1,1' is GPU 0 only. */
export function listedGpus(visible: string): string[] {
  const listed = visible.split(',').map((entry) => entry.trim());
  const end = listed.findIndex((entry) => entry === '' || /^-\d/.test(entry));
  return end < 0 ? listed : listed.slice(0, end);
}
