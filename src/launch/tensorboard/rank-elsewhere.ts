// TensorBoard runs beside the launcher, and summaries are written beside rank 0.

import { isLocal } from '../../files/location.ts';
import type { HostPlan } from '../job-request.ts';

/** What the user has to know if these are two machines. */
export function rankElsewhereText({ slots, remoteNames }: HostPlan, dir: string): string | undefined {
  const first = slots[0]?.hostname ?? '';
  if (!remoteNames.has(first) || !isLocal(dir)) return undefined;
  return `Rank 0 runs on ${first} and writes the summaries there. TensorBoard runs here: give --tensorboard-logdir (HOROVOD_TENSORBOARD_DIR) a folder that both share, or look at them there: \`ssh -L 6006:127.0.0.1:6006 ${first} tensorboard --logdir ${dir} --port 6006\`.`;
}
