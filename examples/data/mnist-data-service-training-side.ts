// The train function for dispatchers on the training side. Compare it with mnist-data-service-compute-side.ts: only the lines about the
// data service differ.

import * as tf from '@tensorflow/tfjs';
import { distribute, exported, type TfDataServiceConfig, tfDataService, tfRecordDataset } from 'horovod/data';
import * as hvd from 'horovod/keras';
import { createModel, type Digit, features, type TrainOptions, toBatch } from './mnist-data-service-model.ts';

export async function train(config: TfDataServiceConfig, options: TrainOptions): Promise<tf.LayersModel> {
  const { files, batchSize, epochs, reuseDataset, roundRobin } = options;
  const service = await tfDataService(config, hvd.rank());
  const dataset = tfRecordDataset(files, { shuffle: { seed: 1, pool: 10_000 } })
    .parseExample<Digit>(features)
    .map<Digit>(exported(new URL('./shift.ts', import.meta.url), 'shift', { pixels: 2 }))
    .batch(batchSize)
    .apply(
      distribute({
        service: service.dispatcherAddress,
        jobName: reuseDataset ? 'job' : undefined,
        ...(roundRobin ? { consumerIndex: hvd.rank(), numConsumers: hvd.size() } : {}),
      }),
    );
  const model = createModel();
  model.compile({
    optimizer: hvd.DistributedOptimizer(tf.train.adam(0.001 * hvd.size())),
    loss: 'sparseCategoricalCrossentropy',
    metrics: ['accuracy'],
  });
  await model.fitDataset(hvd.tensors(dataset).map(toBatch), {
    epochs,
    verbose: 0,
    callbacks: hvd.callbacks.list([hvd.callbacks.BroadcastGlobalVariablesCallback(0)]),
  });
  await service.close();
  return model;
}
