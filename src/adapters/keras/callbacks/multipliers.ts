// The learning-rate maths of Horovod's callbacks, as functions of plain numbers. Epochs are counted from 0 and may
// be fractions: batch b of epoch e is e + b / stepsPerEpoch.

/** How many times the initial learning rate is used at an epoch. */
export type Multiplier = (epoch: number) => number;

/** A constant multiplier: exponential decay, with factor 1 at the first epoch it is active in. */
export function exponentialMultiplier(base: number, startEpoch: number): Multiplier {
  return (epoch) => base ** (epoch - startEpoch);
}

/**
 * Gradual warm-up from initialLr / ranks to initialLr. The epoch is taken at the end of the batch, so that the last
 * batch of the last warm-up epoch has exactly initialLr.
 */
export function warmupMultiplier(ranks: number, warmupEpochs: number, stepsPerEpoch: number): Multiplier {
  return (epoch) => {
    const epochAfterBatch = epoch + 1 / stepsPerEpoch;
    return (1 / ranks) * ((epochAfterBatch * (ranks - 1)) / warmupEpochs + 1);
  };
}

/**
 * The momentum of the one step at which the learning rate changes, so that what was accumulated with the old rate
 * counts as if accumulated with the new one (Goyal et al., "Accurate, Large Minibatch SGD", §2.1).
 */
export function correctedMomentum(momentum: number, newLr: number, oldLr: number): number {
  return (momentum * newLr) / oldLr;
}
