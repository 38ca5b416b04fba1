// --pin-gpus: each rank sees one GPU. CUDA renumbers the GPUs of CUDA_VISIBLE_DEVICES, so it is GPU 0 in every rank.

import { HorovodError } from '../../errors.ts';

/** The value of CUDA_VISIBLE_DEVICES for each local rank. `visible` is the launcher's own value. */
export function planGpus(visible: string | undefined, ranks: number): string[] {
  if (visible === undefined) return Array.from({ length: ranks }, (_, localRank) => String(localRank));
  const listed = visible.split(',').map((entry) => entry.trim());
  // CUDA stops at the first invalid entry: '0,-1,1' is GPU 0 only.
  const end = listed.findIndex((entry) => entry === '' || /^-\d/.test(entry));
  const gpus = end < 0 ? listed : listed.slice(0, end);
  if (gpus.length >= ranks) return gpus.slice(0, ranks);
  throw new HorovodError(
    'ERR_HVD_SETTING',
    `--pin-gpus: CUDA_VISIBLE_DEVICES="${visible}" lists ${gpus.length} GPU${gpus.length === 1 ? '' : 's'}, but ${ranks} ranks need one each. ` +
      'List more GPUs, start fewer ranks, or omit --pin-gpus to share them.',
  );
}
