// pinGpu(): one GPU for this rank, for scripts that mpirun or srun starts. horovodrun does the same with --pin-gpus, before the rank starts.

import * as tf from '@tensorflow/tfjs';
import { HorovodError } from '../../../errors.ts';
import { processEnvironment, showGpus } from '../../../settings/environment.ts';
import { listedGpus, planGpus } from '../../../settings/gpus.ts';
import { localPlace } from '../../context.ts';

/**
 * Sets CUDA_VISIBLE_DEVICES so that this rank sees one GPU of its host, chosen by localRank(), and returns that. Call it after init() and
 * before setBackend(). A rank that sees one GPU already, for example from --pin-gpus or from Slurm, keeps it.
 */
export function pinGpu(): string {
  const { localRank, localSize } = localPlace();
  const visible = processEnvironment()['CUDA_VISIBLE_DEVICES'];
  const [only, ...others] = visible === undefined ? [] : listedGpus(visible);
  if (only !== undefined && others.length === 0) return only;
  if (tf.findBackend('tensorflow') !== null) {
    throw new HorovodError(
      'ERR_HVD_INVALID_ARGUMENT',
      'pinGpu(): TensorFlow runs already, with all GPUs that it saw. Call pinGpu() after init() and before setBackend().',
    );
  }
  const gpu = planGpus(visible, localSize, 'pinGpu()')[localRank] as string;
  showGpus(gpu);
  return gpu;
}
