// Finds the features that a reader wants among those of a message: `repeated Entry { string key = 1; Value value = 2 }`, which
// is how a map is written. The entries of most files come in the same order in every record, so the entry at place i is first
// compared with the feature that was there in the record before; only then its key is looked up.

import { malformed, type WireReader, wire } from './wire-reader.ts';

export class FeatureTable {
  readonly names: readonly string[];
  /** Where the value of each feature begins in the bytes, and where it ends; −1: it is missing. */
  readonly starts: Int32Array;
  readonly ends: Int32Array;
  readonly #keys: readonly Uint8Array[];
  readonly #byHash = new Map<number, number[]>();
  /** The feature at each place of the last record; −1: one that nobody wants. */
  readonly #guesses: number[] = [];

  constructor(names: readonly string[]) {
    this.names = names;
    this.starts = new Int32Array(names.length);
    this.ends = new Int32Array(names.length);
    this.#keys = names.map((name) => new TextEncoder().encode(name));
    for (const [i, key] of this.#keys.entries()) {
      const hash = hashOf(key, 0, key.length);
      this.#byHash.set(hash, [...(this.#byHash.get(hash) ?? []), i]);
    }
  }

  clear(): void {
    this.starts.fill(-1);
  }

  /** Reads the entries up to `end`; the last one of a name counts. Returns the place after the last entry seen. */
  locate(reader: WireReader, end: number, firstPlace: number): number {
    let place = firstPlace;
    while (reader.at < end) {
      const key = reader.key(end);
      if (key !== 8 + wire.lengthPrefixed) {
        reader.skip(key, end);
        continue;
      }
      this.#entry(reader, reader.endOfField(end), place++);
    }
    return place;
  }

  #entry(reader: WireReader, end: number, place: number): void {
    let keyStart = 0;
    let keyEnd = 0;
    let valueStart = reader.at;
    let valueEnd = reader.at;
    while (reader.at < end) {
      const key = reader.key(end);
      if (key >>> 3 !== 1 && key >>> 3 !== 2) {
        reader.skip(key, end);
        continue;
      }
      if ((key & 7) !== wire.lengthPrefixed) throw malformed('the entry of a feature has another wire type');
      const to = reader.endOfField(end);
      if (key >>> 3 === 1) {
        keyStart = reader.at;
        keyEnd = to;
      } else {
        valueStart = reader.at;
        valueEnd = to;
      }
      reader.at = to;
    }
    const feature = this.#find(reader.bytes, keyStart, keyEnd, place);
    if (feature < 0) return;
    this.starts[feature] = valueStart;
    this.ends[feature] = valueEnd;
  }

  #find(bytes: Uint8Array, from: number, to: number, place: number): number {
    const guess = this.#guesses[place] ?? -1;
    if (guess >= 0 && isEqual(this.#keys[guess] as Uint8Array, bytes, from, to)) return guess;
    const candidates = this.#byHash.get(hashOf(bytes, from, to)) ?? [];
    const found = candidates.find((i) => isEqual(this.#keys[i] as Uint8Array, bytes, from, to)) ?? -1;
    // A record with very many entries must not make the list as long.
    if (place < 4 * this.names.length + 16) this.#guesses[place] = found;
    return found;
  }
}

function isEqual(key: Uint8Array, bytes: Uint8Array, from: number, to: number): boolean {
  if (key.length !== to - from) return false;
  for (let i = 0; i < key.length; i++) if (key[i] !== bytes[from + i]) return false;
  return true;
}

/** FNV-1a. */
function hashOf(bytes: Uint8Array, from: number, to: number): number {
  let hash = 0x811c9dc5;
  for (let i = from; i < to; i++) hash = Math.imul(hash ^ (bytes[i] as number), 0x01000193);
  return hash;
}
