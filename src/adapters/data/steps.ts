// How many batches each rank takes in an epoch, and in its validation.

import { invalid } from '../../operations/check-options.ts';
import { size } from '../context.ts';

/**
 * Batches per rank and epoch: for batchesPerEpoch of fitDataset(), together with repeat(). Every rank has that many full
 * batches, whatever shard() does with the rest.
 */
export function stepsPerEpoch(samples: number, batchSize: number, ranks: number = size()): number {
  check({ samples, batchSize, ranks }, 'stepsPerEpoch()');
  return Math.max(1, Math.floor(samples / (batchSize * ranks)));
}

/**
 * Batches per rank of a validation on batches drawn at random: Horovod's rule, 3 × the steps of one rank / ranks.
 * With three times as many batches, few samples are missed, and no rank has to see them all.
 */
export function validationSteps(samples: number, batchSize: number, ranks: number = size()): number {
  check({ samples, batchSize, ranks }, 'validationSteps()');
  return Math.max(1, Math.floor((3 * Math.ceil(samples / batchSize)) / ranks));
}

function check(numbers: Record<string, number>, what: string): void {
  for (const [name, value] of Object.entries(numbers)) {
    if (Number.isInteger(value) && value >= 1) continue;
    throw invalid(what, `${name} is a whole number from 1, not ${value}`);
  }
}
