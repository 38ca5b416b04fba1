// How the batches of an epoch are divided among n consumers so that all take the same number of steps. *First come, first
// served*: each consumer has a quota. *Round robin*: batches are dealt in rounds of n, one for each consumer, in an order that
// depends on nothing but the batches that are left. What n does not divide follows `uneven`: 'pad' and 'exact' repeat batches
// of the epoch ('exact' with weight 0), 'drop' leaves batches out, 'keep' lets some consumers take one more. Pure.

import { contains, type Ranges } from './ranges.ts';

export type Uneven = 'pad' | 'drop' | 'keep' | 'exact';

export interface Quota {
  readonly perConsumer: number;
  /** How many consumers get so many. With 'keep' the others get one less. */
  readonly full: number;
  /** Batches that are made a second time, to fill up. */
  readonly repeats: number;
}

/**
 * For `batches` that are left of the epoch. `granted`: the largest number that a consumer has been granted of them already,
 * which counts where a filter has hidden until now how many there are.
 */
export function quotaFor(batches: number, consumers: number, uneven: Uneven, granted = 0): Quota {
  if (uneven === 'keep') {
    const full = batches % consumers === 0 ? consumers : batches % consumers;
    return { perConsumer: Math.ceil(batches / consumers), full, repeats: 0 };
  }
  if (uneven === 'drop') {
    const fair = Math.floor(batches / consumers);
    if (granted <= fair) return { perConsumer: fair, full: consumers, repeats: 0 };
  }
  // Nothing to repeat.
  if (batches === 0) return { perConsumer: 0, full: consumers, repeats: 0 };
  const perConsumer = Math.max(Math.ceil(batches / consumers), granted);
  return { perConsumer, full: consumers, repeats: perConsumer * consumers - batches };
}

/** Whether a consumer that has `counts[consumer]` batches may get one more. */
export function mayHaveMore(
  { perConsumer, full }: Quota,
  counts: readonly number[],
  consumer: number,
): boolean {
  const count = counts[consumer] ?? 0;
  if (count !== perConsumer - 1) return count < perConsumer;
  return counts.filter((each) => each >= perConsumer).length < full;
}

/** Where a batch belongs in the rounds of an epoch. */
export interface Place {
  readonly round: number;
  readonly consumer: number;
}

export interface Deal {
  readonly rounds: number;
  /** Undefined: the batch is left out ('drop'), or is done. Repeats are ordinals of the group behind the last one. */
  placeOf(group: number, ordinal: number): Place | undefined;
}

/**
 * Rounds are runs of n batches of one group, so that one worker makes a round. They are in the order of their first ordinal,
 * then of their group; the ends of groups that make no whole round come last, in the order of groups. So rounds that are
 * dealt anew behind a prefix of rounds are the same as before.
 */
export function dealRounds(
  lengths: readonly number[],
  done: readonly Ranges[],
  consumers: number,
  uneven: Uneven,
): Deal {
  type Entry = readonly [group: number, ordinal: number];
  const whole: Entry[][] = [];
  const ends: Entry[] = [];
  for (const [group, length] of lengths.entries()) {
    const left: Entry[] = [];
    for (let ordinal = 0; ordinal < length; ordinal++) {
      if (!contains(done[group] ?? [], ordinal)) left.push([group, ordinal]);
    }
    const cut = left.length - (left.length % consumers);
    for (let first = 0; first < cut; first += consumers) whole.push(left.slice(first, first + consumers));
    ends.push(...left.slice(cut));
  }
  whole.sort((a, b) => (a[0] as Entry)[1] - (b[0] as Entry)[1] || (a[0] as Entry)[0] - (b[0] as Entry)[0]);
  const left = whole.length * consumers + ends.length;
  const { perConsumer, repeats } = quotaFor(left, consumers, uneven);
  for (let ordinal = 0; ordinal < repeats; ordinal++) ends.push([lengths.length, ordinal]);
  const sequence = [...whole.flat(), ...ends].slice(
    0,
    uneven === 'drop' ? perConsumer * consumers : undefined,
  );
  const places = new Map<string, Place>();
  for (const [index, [group, ordinal]] of sequence.entries()) {
    places.set(`${group}/${ordinal}`, { round: Math.floor(index / consumers), consumer: index % consumers });
  }
  return {
    rounds: Math.ceil(sequence.length / consumers),
    placeOf: (group, ordinal) => places.get(`${group}/${ordinal}`),
  };
}
