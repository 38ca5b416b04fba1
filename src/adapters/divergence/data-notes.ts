// What shard() and its siblings were given on this rank, as digests. These functions are synchronous and may be called on some
// ranks only, so they compare nothing themselves: the notes travel with the next comparison of weights (divergence-guard.ts).

import type { AdapterContext } from '../context.ts';
import { combineDigests, digestOf, digestOfText, strideOf } from './digest.ts';
import { type Split, splitBy } from './split.ts';

/** Digests by label ("shard() of 60000 samples"), in the order of the calls. */
export type DataReport = Readonly<Record<string, readonly number[]>>;

export interface DataDifference extends Split {
  readonly label: string;
}

/** More calls than this between two comparisons are not compared. */
const maxPerLabel = 64;
const maxLabels = 64;

export class DataNotes {
  readonly #pending = new Map<string, number[]>();
  readonly #warned = new Set<string>();

  add(label: string, digest: number): void {
    const list = this.#pending.get(label) ?? [];
    if (list.length === maxPerLabel || this.#pending.size === maxLabels) return;
    this.#pending.set(label, [...list, digest]);
  }

  report(): DataReport {
    return Object.fromEntries(this.#pending);
  }

  /**
   * Labels for which ranks had different data, once for each label. Calls that other ranks have not made as often stay pending.
   * `reports` are of all ranks, this one included.
   */
  compare(reports: readonly DataReport[]): DataDifference[] {
    const [first = {}] = reports;
    return Object.keys(first).flatMap((label) => {
      const lists = reports.map((report) => report[label]);
      if (lists.some((list) => list?.length !== first[label]?.length)) return [];
      const rest = (this.#pending.get(label) ?? []).slice(first[label]?.length);
      if (rest.length === 0) this.#pending.delete(label);
      else this.#pending.set(label, rest);
      const split = splitBy(lists.map(String));
      if (split === undefined || this.#warned.has(label)) return [];
      this.#warned.add(label);
      return [{ label, ...split }];
    });
  }
}

/** The data of this rank that is not compared yet. */
export function notesOf(context: AdapterContext): DataNotes {
  const known = notes.get(context) ?? new DataNotes();
  notes.set(context, known);
  return known;
}

const notes = new WeakMap<AdapterContext, DataNotes>();

const maxSamples = 256;

/** A digest of a list of samples of any kind: of up to 256 of them, evenly spaced, and of each its first values. */
export function digestOfList(samples: ArrayLike<unknown>): number {
  if (ArrayBuffer.isView(samples)) return digestOf(samples, maxSamples);
  const { length } = samples;
  const digests = [length];
  for (let at = 0; at < length; at += strideOf(length, maxSamples)) digests.push(digestOfSample(samples[at]));
  return combineDigests(digests);
}

const maxValues = 8;

function digestOfSample(sample: unknown, depth = 0): number {
  if (ArrayBuffer.isView(sample)) return digestOf(sample, maxSamples);
  if (typeof sample !== 'object' || sample === null) return digestOfText(String(sample));
  // Deeper, or in objects with behaviour of their own, nothing is known to be the same on two ranks.
  const isPlain = Array.isArray(sample) || Object.getPrototypeOf(sample) === Object.prototype;
  if (!isPlain || depth === 3) return 0;
  return combineDigests(
    Object.entries(sample)
      .slice(0, maxValues)
      .map(([key, value]) => combineDigests([digestOfText(key), digestOfSample(value, depth + 1)])),
  );
}
