// Batch normalization over the batches of all ranks: in training, mean and variance are those of all samples of this step, and
// the gradient flows through them to every rank. So N ranks with a part of a batch each compute what one rank computes with
// the whole batch, even if the parts differ in size: moments are weighted by the number of samples (as in Horovod's PyTorch
// layer, unlike its TensorFlow layer). A rank that has joined counts as one without samples.
//
// One allreduce forward (count, sum and sum of squares per channel) and one backward (two sums per channel). The
// gradients of gamma and beta stay local, as those of any weight: DistributedOptimizer reduces them.

import * as tf from '@tensorflow/tfjs';
import { invalid } from '../../operations/check-options.ts';
import { allreduceSync } from '../../operations/collectives.ts';
import { Sum } from '../../tensor/reduce-op.ts';
import { currentContext, size } from '../context.ts';
import { valuesOf } from './tensor-operands.ts';

/** The options of tf.layers.batchNormalization(), and `fused`, which is rejected if true, as in Horovod for Python. */
export type SyncBatchNormalizationConfig = NonNullable<Parameters<typeof tf.layers.batchNormalization>[0]> & {
  fused?: boolean | null;
};

/** What of tfjs's BatchNormalization is used here; its class is not exported, and its fields are private. */
interface BatchNormalization extends tf.layers.Layer {
  axis: number;
  momentum: number;
  epsilon: number;
  gamma?: tf.LayerVariable;
  beta?: tf.LayerVariable;
  movingMean: tf.LayerVariable;
  movingVariance: tf.LayerVariable;
}

type Inputs = tf.Tensor | tf.Tensor[];
type CallOptions = { [name: string]: unknown };
type BatchNormalizationClass = new (config: SyncBatchNormalizationConfig) => BatchNormalization;

// From the table by which models are loaded: to make a layer, just to get its class, would use up a layer's name.
const Base = tf.serialization.SerializationMap.getMap().classNameMap[
  'BatchNormalization'
]?.[0] as unknown as BatchNormalizationClass;

class SyncBatchNormalizationLayer extends Base {
  static readonly className: string = 'SyncBatchNormalization';

  constructor(config: SyncBatchNormalizationConfig = {}) {
    if (config.fused === true || config.fused === null) {
      throw invalid(
        'SyncBatchNormalization',
        'fused: true is not supported, because ranks exchange moments between the fused steps',
      );
    }
    super(config);
  }

  override call(inputs: Inputs, options: CallOptions): Inputs {
    if (options['training'] !== true) return super.call(inputs, options);
    // The plain layer needs both gamma and beta in training.
    if (size() === 1 && this.gamma !== undefined && this.beta !== undefined)
      return super.call(inputs, options);
    const input = Array.isArray(inputs) ? (inputs[0] as tf.Tensor) : inputs;
    return tf.tidy(() => {
      const layout = layoutOf(input.shape, this.axis);
      const moments = globalMoments(input, layout);
      this.#follow(this.movingMean, moments.mean);
      this.#follow(this.movingVariance, moments.variance);
      const { channels } = layout;
      const gamma = this.gamma?.read() ?? tf.ones([channels]);
      const beta = this.beta?.read() ?? tf.zeros([channels]);
      return normalize(input, gamma, beta, moments, this.epsilon, layout);
    });
  }

  #follow(moving: tf.LayerVariable, value: tf.Tensor): void {
    const old = moving.read();
    moving.write(tf.sub(old, tf.mul(tf.sub(old, value), 1 - this.momentum)));
  }
}

tf.serialization.registerClass(
  SyncBatchNormalizationLayer as unknown as Parameters<typeof tf.serialization.registerClass>[0],
);

/** Makes the layer, as tf.layers.batchNormalization() does; `new` is allowed. */
interface SyncBatchNormalizationFactory {
  (config?: SyncBatchNormalizationConfig): tf.layers.Layer;
  new (config?: SyncBatchNormalizationConfig): tf.layers.Layer;
  readonly className: string;
}

/** Batch normalization over the batches of all ranks; the options of tf.layers.batchNormalization(). */
export const SyncBatchNormalization: SyncBatchNormalizationFactory = Object.assign(
  // A function and no arrow, so that it can be called with and without `new`.
  function makeLayer(config?: SyncBatchNormalizationConfig): tf.layers.Layer {
    return new SyncBatchNormalizationLayer(config);
  },
  { className: SyncBatchNormalizationLayer.className },
) as unknown as SyncBatchNormalizationFactory;

interface Layout {
  readonly channels: number;
  /** All axes but the channels'. */
  readonly reduced: number[];
  /** A row of channels in this shape broadcasts over the input. */
  readonly broadcastShape: number[];
}

interface Moments {
  readonly count: number;
  readonly mean: tf.Tensor;
  readonly variance: tf.Tensor;
}

function layoutOf(shape: readonly number[], axis: number): Layout {
  const place = axis >= 0 ? axis : axis + shape.length;
  return {
    channels: shape[place] as number,
    reduced: shape.map((_, i) => i).filter((i) => i !== place),
    broadcastShape: shape.map((length, i) => (i === place ? length : 1)),
  };
}

/** Of all ranks' inputs. In float64 between the ranks, so that E[x²] − E[x]² loses nothing that float32 can show. */
function globalMoments(input: tf.Tensor, { channels, reduced }: Layout): Moments {
  const own = tf.moments(input, reduced);
  const ownCount = channels === 0 ? 0 : input.size / channels;
  const means = valuesOf(own.mean).slice();
  const variances = valuesOf(own.variance).slice();
  const sums = new Float64Array(1 + 2 * channels);
  if (ownCount > 0) {
    sums[0] = ownCount;
    for (let c = 0; c < channels; c++) {
      const mean = means[c] as number;
      sums[1 + c] = ownCount * mean;
      sums[1 + channels + c] = ownCount * ((variances[c] as number) + mean * mean);
    }
  }
  const all = allreduceSync(currentContext(), sums, { op: Sum, inPlace: true });
  const count = all[0] as number;
  const mean = new Float32Array(channels);
  const variance = new Float32Array(channels);
  for (let c = 0; c < channels; c++) {
    const average = (all[1 + c] as number) / count;
    mean[c] = average;
    variance[c] = Math.max(0, (all[1 + channels + c] as number) / count - average * average);
  }
  return { count, mean: tf.tensor1d(mean), variance: tf.tensor1d(variance) };
}

/** (x − mean) / √(variance + ε) · gamma + beta; its gradient respects that mean and variance depend on every rank's x. */
function normalize(
  input: tf.Tensor,
  gamma: tf.Tensor,
  beta: tf.Tensor,
  { count, mean, variance }: Moments,
  epsilon: number,
  { channels, reduced, broadcastShape }: Layout,
): tf.Tensor {
  const spread = (row: tf.Tensor) => tf.reshape(row, broadcastShape);
  const scale = tf.rsqrt(tf.add(variance, epsilon));
  const normalized = (x: tf.Tensor, m: tf.Tensor, s: tf.Tensor) => tf.mul(tf.sub(x, spread(m)), spread(s));
  const apply = tf.customGrad((...args: (tf.Tensor | tf.GradSaveFunc)[]) => {
    const [x, g, b, save] = args as [tf.Tensor, tf.Tensor, tf.Tensor, tf.GradSaveFunc];
    save([x, g, mean, scale]);
    const value = tf.add(tf.mul(normalized(x, mean, scale), spread(g)), spread(b));
    const gradFunc = (dy: tf.Tensor, saved: tf.Tensor[]) => {
      const [savedX, savedGamma, savedMean, savedScale] = saved as [
        tf.Tensor,
        tf.Tensor,
        tf.Tensor,
        tf.Tensor,
      ];
      const xhat = normalized(savedX, savedMean, savedScale);
      const dbeta = tf.sum(dy, reduced);
      const dgamma = tf.sum(tf.mul(dy, xhat), reduced);
      const sums = new Float64Array(2 * channels);
      sums.set(valuesOf(dbeta) as Float32Array);
      sums.set(valuesOf(dgamma) as Float32Array, channels);
      const all = Float32Array.from(
        allreduceSync(currentContext(), sums, { op: Sum, inPlace: true }),
        (sum) => sum / count,
      );
      const meanDy = spread(tf.tensor1d(all.slice(0, channels)));
      const meanDyXhat = spread(tf.tensor1d(all.slice(channels)));
      const centred = tf.sub(tf.sub(dy, meanDy), tf.mul(xhat, meanDyXhat));
      const dx = tf.mul(centred, spread(tf.mul(savedGamma, savedScale)));
      return [dx, dgamma, dbeta];
    };
    return { value, gradFunc };
  });
  return apply(input, gamma, beta);
}
