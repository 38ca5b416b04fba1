// Handwritten digits, read and augmented by the workers of a data service. Start the service in one terminal, and train in another:
//
//   npx horovodrun -np 2 horovod compute-worker /tmp/compute.json
//   npx horovodrun -np 2 examples/data/mnist-data-service.ts /tmp/compute.json
//
// With `compute-worker --dispatcher-side training`, dispatchers run in the training processes. There is a train function for either side.

import { resolve } from 'node:path';
import type * as tf from '@tensorflow/tfjs';
import { TfDataServiceConfig, tfRecordDataset } from 'horovod/data';
import * as hvd from 'horovod/keras';
import { backends, oneOf, readCommand, wholeNumber } from '../command-line.ts';
import { train as trainWithComputeSide } from './mnist-data-service-compute-side.ts';
import { type Digit, features, toBatch } from './mnist-data-service-model.ts';
import { train as trainWithTrainingSide } from './mnist-data-service-training-side.ts';
import { writeMnist } from './mnist-files.ts';

const usage = `horovodrun -np <ranks> examples/data/mnist-data-service.ts [options] <config>

  <config>           the file that \`horovod compute-worker\` has written
  --reuse-dataset    all ranks together see every image once in an epoch, and not each rank
  --round-robin      with --reuse-dataset: all batches of a step come from the same worker, in a fixed order
  --keep-service     do not end the service after training
  --folder <path>    where the TFRecord files are, on a file system that the workers share (default: mnist-tfrecord)
  --images <n>       write so many training images (default: 60000)
  --epochs <n>       number of epochs (default: 1)
  --batch-size <n>   images per batch (default: 64)
  --backend <name>   ${backends.join(', ')} (default: auto)`;

const { options, operands } = readCommand(
  usage,
  {
    'reuse-dataset': { type: 'boolean', default: false },
    'round-robin': { type: 'boolean', default: false },
    'keep-service': { type: 'boolean', default: false },
    folder: { type: 'string', default: 'mnist-tfrecord' },
    images: { type: 'string', default: '60000' },
    epochs: { type: 'string', default: '1' },
    'batch-size': { type: 'string', default: '64' },
    backend: { type: 'string', default: 'auto' },
  },
  ['config'],
);
const folder = resolve(options.folder);

await hvd.init();
await hvd.setBackend(oneOf('--backend', options.backend, backends));
await writeMnist(folder, 'train', wholeNumber('--images', options.images));
await writeMnist(folder, 'test', 2000);

const config = await TfDataServiceConfig.read(operands[0] as string, { waitForFileCreation: true });
const train = config.dispatcherSide === 'compute' ? trainWithComputeSide : trainWithTrainingSide;
const model = await train(config, {
  files: `${folder}/train-*.tfrecord`,
  batchSize: wholeNumber('--batch-size', options['batch-size']),
  epochs: wholeNumber('--epochs', options.epochs),
  reuseDataset: options['reuse-dataset'],
  roundRobin: options['round-robin'],
});

const testing = tfRecordDataset(`${folder}/test-*.tfrecord`, { uneven: 'drop' })
  .parseExample<Digit>(features)
  .batch(64);
const [, accuracy] = (await model.evaluateDataset(hvd.tensors(testing).map(toBatch), {})) as tf.Scalar[];
const all = await hvd.allreduce(Float32Array.of((accuracy as tf.Scalar).dataSync()[0] as number));
if (hvd.rank() === 0) {
  console.log(`test accuracy ${(100 * (all[0] as number)).toFixed(2)} %`);
  if (!options['keep-service']) {
    const service = config.computeClient();
    await service.shutdown();
    await service.close();
  }
}
await hvd.shutdown();
