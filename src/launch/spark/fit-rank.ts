// What every rank of fitOnParquet() calls: the functions of the user become a model and callbacks, and the adapter trains.

import {
  type ParquetTraining,
  type TrainedOnParquet,
  trainOnParquet,
} from '../../adapters/keras/parquet/train-on-parquet.ts';
import { type BackendName, setBackend } from '../../adapters/tensorflow/backend/set-backend.ts';
import { init, shutdown } from '../../context/default/default-context.ts';
import type { Callee } from '../run/call.ts';
import { loadCallee } from '../run/load-callee.ts';

export interface FitCall {
  readonly training: ParquetTraining;
  readonly backend: BackendName;
  /** Undefined: the model is read from training.modelLocation. */
  readonly model: Callee | undefined;
  readonly callbacks: Callee | undefined;
}

export default async function fitOnThisRank(call: FitCall): Promise<TrainedOnParquet> {
  const made = async (callee: Callee | undefined) => callee && (await loadCallee(callee))();
  await init();
  await setBackend(call.backend);
  const trained = await trainOnParquet(call.training, {
    makeModel: () => made(call.model),
    makeCallbacks: () => made(call.callbacks),
  });
  await shutdown();
  return trained;
}
