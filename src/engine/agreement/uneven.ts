// Whether ranks are at different points of their training, in words: the most common reason why some wait for gradients and others
// for something else is that they have different numbers of batches. Every rank computes the same text from the same lists.

import type { TrainingPosition } from '../step-clock.ts';

/** `positions[i]` is of rank `ranks[i]`; undefined if it does not train. */
type Positions = readonly (TrainingPosition | undefined)[];

/**
 * 'Rank 0 ended epoch 1 after 3 batches, and rank 1 is in batch 4 of epoch 1. Give …'. Undefined if all are at the same point,
 * or that of a rank is not known.
 */
export function unevenText(positions: Positions, ranks: readonly number[]): string | undefined {
  const known = positions.filter((position) => position !== undefined);
  if (known.length < positions.length) return undefined;
  const hasEpochs = known.every(({ epoch }) => epoch !== undefined);
  const groups = new Map<string, { ranks: number[]; position: TrainingPosition }>();
  known.forEach((position, i) => {
    const place = placeOf(position, hasEpochs);
    const group = groups.get(place) ?? { ranks: [], position };
    group.ranks.push(ranks[i] as number);
    groups.set(place, group);
  });
  if (groups.size < 2) return undefined;
  const texts = [...groups.values()].map((group) => sentence(group.ranks, group.position, hasEpochs));
  const [last, ...others] = texts.reverse() as [string, ...string[]];
  const facts = `${others.reverse().join(', ')}, and ${last}.`;
  return `${facts.charAt(0).toUpperCase()}${facts.slice(1)} ${advice(known)}`;
}

/**
 * True if they cannot come together again: a rank is in a batch that another one does not have, because it has ended that epoch
 * already or has gone on to the next.
 */
export function isProven(positions: Positions): boolean {
  const known = positions.filter((position) => position !== undefined);
  return known.some((other) => {
    const { epoch, batches = 0, isInStep } = other;
    if (epoch === undefined || !isInStep) return false;
    return known.some(
      (one) =>
        (one.epoch ?? 0) > epoch ||
        (one.epoch === epoch && one.isEpochOver === true && batches >= (one.batches ?? 0)),
    );
  });
}

function placeOf(position: TrainingPosition, hasEpochs: boolean): string {
  const { steps, isInStep, epoch, batches, isEpochOver, isOver } = position;
  return hasEpochs
    ? JSON.stringify([isOver, epoch, isEpochOver, batches, isInStep])
    : JSON.stringify([steps, isInStep]);
}

function sentence(
  ranks: readonly number[],
  { steps, isInStep, epoch, batches = 0, isEpochOver, isOver }: TrainingPosition,
  hasEpochs: boolean,
): string {
  const isOne = ranks.length === 1;
  const who = isOne ? `rank ${ranks[0]}` : `ranks ${ranks.slice(0, -1).join(', ')} and ${ranks.at(-1)}`;
  const [is, has] = isOne ? ['is', 'has'] : ['are', 'have'];
  if (!hasEpochs) {
    return isInStep ? `${who} ${is} in step ${steps + 1}` : `${who} ${has} ended ${count(steps, 'step')}`;
  }
  if (isOver === true) return `${who} ended training with epoch ${epoch}`;
  if (isEpochOver === true) return `${who} ended epoch ${epoch} after ${count(batches, 'batch', 'es')}`;
  if (isInStep) return `${who} ${is} in batch ${batches + 1} of epoch ${epoch}`;
  return `${who} ${has} ended ${count(batches, 'batch', 'es')} of epoch ${epoch}`;
}

function advice(positions: readonly TrainingPosition[]): string {
  const lastEpoch = Math.max(...positions.map(({ epoch = 0 }) => epoch));
  if (positions.some(({ isOver, epoch = 0 }) => isOver === true && epoch < lastEpoch)) {
    return (
      'All ranks have to train for the same number of epochs: if they stop early, let them decide by the same metrics ' +
      '(MetricAverageCallback before EarlyStopping).'
    );
  }
  return (
    'All ranks need the same number of batches: cut the data with shardTensors(), or set stepsPerEpoch. In your own loop, ' +
    'ranks that run out of data can also call join().'
  );
}

function count(n: number, what: string, plural = 's'): string {
  return `${n} ${what}${n === 1 ? '' : plural}`;
}
