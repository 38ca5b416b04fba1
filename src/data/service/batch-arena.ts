// The memory in which a compute worker makes its batches, so that trainers on the same host copy them from there instead of reading
// them from a connection. It is an arena of the addon: a file without a name, which other processes of this user can map. A trainer
// proves that it has opened this very file, and not one of the same number on another machine, by reading what lies at `proofAt`.
//
// Memory that was used for a batch is used again, but never before all trainers that were told of the batch have copied it. Of a
// trainer that is lost nobody knows whether it is copying: its batches stay as they are, and the worker makes the next ones in a new
// arena.

import { randomBytes } from 'node:crypto';
import type { NativeAddon, NativeArena, NativePeerArena } from '../../transport/native/addon.ts';
import { loadNative, type NativeSearch } from '../../transport/native/load.ts';
import { BufferPool } from '../execute/buffer-pool.ts';
import { allocatePlain } from '../execute/stack.ts';

/** Where an arena is. */
export interface ArenaPlace {
  readonly pid: number;
  readonly descriptor: number;
  readonly id: number;
  readonly proofAt: number;
  /** In hex. */
  readonly proof: string;
}

/** Parts of an arena, in the order of the payload: where they begin, and how many bytes they have. */
export type ArenaPieces = readonly (readonly [at: number, bytes: number])[];

/** A payload that lies in an arena. */
export interface SharedPayload {
  readonly pieces: ArenaPieces;
  /** What had to be copied into the arena. */
  readonly copies: readonly ArrayBuffer[];
}

const proofBytes = 16;
/** More pieces than this are put together first: each is a call, and a part of the message. */
const maxPieces = 64;

export class BatchArena {
  readonly place: ArenaPlace;
  readonly #addon: NativeAddon;
  readonly #arena: NativeArena;
  readonly #pool: BufferPool<ArrayBuffer>;
  /** What allocate() has handed out and nobody has given back. */
  readonly #lent = new WeakSet<ArrayBufferLike>();
  /** Kept, so that it is not used for anything else. */
  readonly #proof: Uint8Array;

  /** Undefined: this process has no addon, or cannot have such memory. */
  static open(search: NativeSearch): BatchArena | undefined {
    const found = loadNative(search);
    if (!found.built) return undefined;
    const { addon } = found;
    let arena: NativeArena;
    try {
      arena = addon.openArena();
    } catch {
      // memfd_create() is not allowed here.
      return undefined;
    }
    const proof = addon.alloc(arena, proofBytes);
    if (proof === undefined || proof === null) {
      addon.closeArena(arena);
      return undefined;
    }
    return new BatchArena(addon, arena, new Uint8Array(proof));
  }

  private constructor(addon: NativeAddon, arena: NativeArena, proof: Uint8Array) {
    this.#addon = addon;
    this.#arena = arena;
    this.#proof = proof;
    this.#proof.set(randomBytes(proofBytes));
    this.#pool = new BufferPool((bytes) => addon.alloc(arena, bytes) ?? allocatePlain(bytes));
    const [descriptor, id] = addon.arenaFile(arena);
    this.place = {
      pid: process.pid,
      descriptor,
      id,
      proofAt: addon.arenaOffset(arena, this.#proof),
      proof: Buffer.from(this.#proof).toString('hex'),
    };
  }

  /** Not cleared. If there is no more memory of this kind, it is ordinary memory. */
  allocate(bytes: number): ArrayBuffer {
    const buffer = this.#pool.take(bytes);
    this.#lent.add(buffer);
    return buffer;
  }

  /** What lies elsewhere is copied into the arena. Undefined: there is no room for that. */
  share(payload: readonly Uint8Array[]): SharedPayload | undefined {
    const places = payload.map((piece) => this.#addon.arenaOffset(this.#arena, piece));
    const outside = payload.filter((_, at) => payload.length > maxPieces || places[at] === -1);
    const bytes = outside.reduce((sum, { byteLength }) => sum + byteLength, 0);
    const copy = bytes === 0 ? undefined : new Uint8Array(this.allocate(bytes), 0, bytes);
    const copyAt = copy === undefined ? 0 : this.#addon.arenaOffset(this.#arena, copy);
    if (copyAt < 0) return undefined;
    const pieces: [number, number][] = [];
    let copied = 0;
    for (const [number, piece] of payload.entries()) {
      if (piece.byteLength === 0) continue;
      let at = places[number] as number;
      if (copy !== undefined && (payload.length > maxPieces || at === -1)) {
        copy.set(piece, copied);
        at = copyAt + copied;
        copied += piece.byteLength;
      }
      const last = pieces.at(-1);
      if (last !== undefined && last[0] + last[1] === at) last[1] += piece.byteLength;
      else pieces.push([at, piece.byteLength]);
    }
    return { pieces, copies: copy === undefined ? [] : [copy.buffer] };
  }

  /** Memory of allocate() that nobody reads any more. What is not of this arena is left alone. */
  giveBack(buffers: readonly ArrayBufferLike[]): void {
    for (const buffer of buffers) if (this.#lent.delete(buffer)) this.#pool.give(buffer as ArrayBuffer);
  }

  /** Nothing is allocated here any more, and these parts of it stay as they are as long as anybody maps them. */
  close(kept: readonly ArrayBufferLike[] = []): void {
    this.#addon.retire(
      this.#arena,
      kept.map((buffer) => new Uint8Array(buffer)),
    );
    this.#addon.closeArena(this.#arena);
  }
}

/** The arena of a compute worker, as a trainer on the same host reads it. */
export class PeerBatches {
  readonly #addon: NativeAddon;
  readonly #peer: NativePeerArena;

  /** Undefined: it is out of reach. */
  static open(search: NativeSearch, place: ArenaPlace): PeerBatches | undefined {
    const found = loadNative(search);
    if (!found.built) return undefined;
    const { addon } = found;
    const batches = new PeerBatches(addon, addon.openPeerArena(place.pid, place.descriptor, place.id));
    const proof = new Uint8Array(proofBytes);
    if (batches.#read(place.proofAt, proof) && Buffer.from(proof).toString('hex') === place.proof)
      return batches;
    batches.close();
    return undefined;
  }

  private constructor(addon: NativeAddon, peer: NativePeerArena) {
    this.#addon = addon;
    this.#peer = peer;
  }

  /** Fills the target with these pieces. False: that is impossible. */
  copy(pieces: ArenaPieces, target: Uint8Array): boolean {
    let filled = 0;
    for (const [at, bytes] of pieces) {
      if (!this.#read(at, target.subarray(filled, filled + bytes))) return false;
      filled += bytes;
    }
    return filled === target.byteLength;
  }

  /** Twice is fine. */
  close(): void {
    this.#addon.closePeerArena(this.#peer);
  }

  #read(at: number, target: Uint8Array): boolean {
    return this.#addon.copyFromPeer(this.#peer, at, target);
  }
}
