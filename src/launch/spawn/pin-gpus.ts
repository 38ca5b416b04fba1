// --pin-gpus: each rank sees one GPU. CUDA numbers anew what CUDA_VISIBLE_DEVICES names, so in every rank it is GPU 0.

import { HorovodError } from '../../errors.ts';

/** The value of CUDA_VISIBLE_DEVICES for each local rank. `visible`: what the launcher itself was given. */
export function planGpus(visible: string | undefined, ranks: number): string[] {
  if (visible === undefined) return Array.from({ length: ranks }, (_, localRank) => String(localRank));
  const listed = visible.split(',').map((entry) => entry.trim());
  // CUDA stops at the first entry that is none: '0,-1,1' is GPU 0 alone.
  const end = listed.findIndex((entry) => entry === '' || /^-\d/.test(entry));
  const gpus = end < 0 ? listed : listed.slice(0, end);
  if (gpus.length >= ranks) return gpus.slice(0, ranks);
  throw new HorovodError(
    'ERR_HVD_SETTING',
    `--pin-gpus: CUDA_VISIBLE_DEVICES="${visible}" names ${gpus.length} GPU(s), and ${ranks} ranks need one each. ` +
      'Name more, start fewer ranks, or leave --pin-gpus out to share.',
  );
}
