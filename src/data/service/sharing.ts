// What a compute worker shares with the trainers on its host: it offers them its arena (batch-arena.ts), tells those that could open
// it where batches lie, and knows which of these they have not copied yet. All others get batches over their connection.

import type { NativeSearch } from '../../transport/native/load.ts';
import { allocatePlain } from '../execute/stack.ts';
import { type ArenaPieces, BatchArena } from './batch-arena.ts';
import type { Link } from './link.ts';

/** The values of a batch, in the memory in which they were made. */
export class Payload {
  readonly pieces: readonly Uint8Array[];
  readonly bytes: number;
  /** Nobody but the worker has these values. */
  readonly #isOwned: boolean;
  /** Trainers that have not copied it yet. */
  readers = 0;
  #isNeeded = true;
  #wasSent = false;

  constructor(pieces: readonly Uint8Array[], isOwned: boolean) {
    this.pieces = pieces;
    this.bytes = pieces.reduce((sum, { byteLength }) => sum + byteLength, 0);
    this.#isOwned = isOwned;
  }

  get isFree(): boolean {
    return this.#isOwned && !this.#isNeeded && !this.#wasSent && this.readers === 0;
  }

  /** A socket reads it, nobody says how long. */
  goesOverConnection(): void {
    this.#wasSent = true;
  }

  /** The worker will not send it again. */
  done(): void {
    this.#isNeeded = false;
  }
}

interface Sharer {
  /** Which it has opened. */
  arena: BatchArena | undefined;
  next: number;
  /** Not copied yet, by number. */
  readonly reading: Map<number, { readonly payload: Payload; readonly copies: readonly ArrayBuffer[] }>;
}

export class Sharing {
  readonly #search: NativeSearch;
  readonly #sharers = new Map<Link, Sharer>();
  #arena: BatchArena | undefined;
  #isClosed = false;
  /** Batches that went through memory. */
  count = 0;

  constructor(search: NativeSearch) {
    this.#search = search;
  }

  /** For a batch that is being made. */
  readonly allocate = (bytes: number): ArrayBuffer => this.#arena?.allocate(bytes) ?? allocatePlain(bytes);

  /** This trainer would copy batches. */
  offerTo(link: Link): void {
    if (this.#sharers.has(link) || this.#isClosed) return;
    this.#sharers.set(link, { arena: undefined, next: 0, reading: new Map() });
    this.#arena ??= BatchArena.open(this.#search);
    if (this.#arena !== undefined) link.send({ kind: 'arena', place: this.#arena.place });
  }

  opened(link: Link, { id, isOpen }: { readonly id: number; readonly isOpen: boolean }): void {
    const sharer = this.#sharers.get(link);
    if (sharer !== undefined && isOpen && this.#arena?.place.id === id) sharer.arena = this.#arena;
  }

  /** For the message to this trainer; undefined: send the payload over the connection. */
  share(link: Link, payload: Payload): { number: number; pieces: ArenaPieces } | undefined {
    const sharer = this.#sharers.get(link);
    if (sharer?.arena === undefined || payload.bytes === 0) return undefined;
    const shared = sharer.arena.share(payload.pieces);
    if (shared === undefined) return undefined;
    const number = sharer.next++;
    payload.readers += 1;
    sharer.reading.set(number, { payload, copies: shared.copies });
    this.count += 1;
    return { number, pieces: shared.pieces };
  }

  copied(link: Link, number: number): void {
    const reading = this.#sharers.get(link)?.reading;
    const found = reading?.get(number);
    if (found === undefined) return;
    reading?.delete(number);
    found.payload.readers -= 1;
    this.#arena?.giveBack(found.copies);
    this.free(found.payload);
  }

  /** Its memory is used again if nobody reads it. */
  free(payload: Payload): void {
    if (payload.isFree) this.#arena?.giveBack(payload.pieces.map(({ buffer }) => buffer));
  }

  /** The connection has ended, or ends now: nobody will say what this trainer has copied. */
  lose(link: Link): void {
    const reading = this.#sharers.get(link)?.reading;
    this.#sharers.delete(link);
    if (reading === undefined || reading.size === 0) return;
    const kept = [...reading.values()].flatMap(({ payload, copies }) => [
      ...payload.pieces.map(({ buffer }) => buffer),
      ...copies,
    ]);
    this.#arena?.close(kept);
    this.#arena = undefined;
    for (const [other, sharer] of this.#sharers) {
      sharer.arena = undefined;
      this.#arena ??= this.#isClosed ? undefined : BatchArena.open(this.#search);
      if (this.#arena !== undefined) other.send({ kind: 'arena', place: this.#arena.place });
    }
  }

  close(): void {
    this.#isClosed = true;
    for (const link of [...this.#sharers.keys()]) this.lose(link);
    this.#arena?.close();
    this.#arena = undefined;
  }
}
