// What both train functions of mnist-data-service.ts use: the model, the features of a record, and what becomes of a batch.

import * as tf from '@tensorflow/tfjs';
import { type Features, FixedLenFeature } from 'horovod/data';
import type { Tensor } from 'horovod/tensorflow';
import { classes, imageSize } from './mnist.ts';

export interface TrainOptions {
  readonly files: string;
  readonly batchSize: number;
  readonly epochs: number;
  readonly reuseDataset: boolean;
  readonly roundRobin: boolean;
}

export interface Digit {
  readonly image: Tensor;
  readonly label: Tensor;
}

export const features: Features = {
  image: FixedLenFeature([imageSize, imageSize, 1], 'uint8'),
  label: FixedLenFeature([], 'int32'),
};

/** Bytes become numbers from 0 to 1 in the training process: as bytes they are a quarter as long on the network. */
export function toBatch({ image, label }: { image: tf.Tensor; label: tf.Tensor }): {
  xs: tf.Tensor;
  ys: tf.Tensor;
} {
  return { xs: tf.div(image, 255), ys: tf.cast(label, 'float32') };
}

export function createModel(): tf.Sequential {
  return tf.sequential({
    layers: [
      tf.layers.conv2d({
        inputShape: [imageSize, imageSize, 1],
        filters: 8,
        kernelSize: 5,
        strides: 2,
        activation: 'relu',
      }),
      tf.layers.conv2d({ filters: 16, kernelSize: 5, strides: 2, activation: 'relu' }),
      tf.layers.flatten(),
      tf.layers.dense({ units: 64, activation: 'relu' }),
      tf.layers.dense({ units: classes, activation: 'softmax' }),
    ],
  });
}
