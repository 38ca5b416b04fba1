// savedDataState(): where training was in its data when a model was saved.

import type { DataState } from '../../data/order/state.ts';
import { HorovodError } from '../../errors.ts';
import { locationOf } from '../../files/location.ts';
import { readTextFile } from '../../files/read-file.ts';
import { fileSystems } from '../file-systems.ts';
import { modelJsonIn } from './model-files/location.ts';
import type { ModelJsonExtras } from './model-files/write-model.ts';

/**
 * The state of the dataset that BestModelCheckpoint({ data }) or saveModel(…, { data }) has saved with a model, for restore(); undefined
 * if there is none. Not collective: call it on every rank, or on one and broadcast.
 */
export async function savedDataState(location: string | URL): Promise<DataState | undefined> {
  const path = modelJsonIn(locationOf(location));
  try {
    const { horovod } = JSON.parse(await readTextFile(fileSystems(), path)) as ModelJsonExtras;
    return horovod?.data;
  } catch (cause) {
    const reason = HorovodError.is(cause) ? cause.detail : (cause as Error).message;
    throw new HorovodError('ERR_HVD_MODEL_FILE', `${path} cannot be read: ${reason}`, { cause });
  }
}
