// Encrypts what a link reads and writes: AES-256-GCM, a key for each direction.
//
// NOTE [Records]. Bytes travel in records: the number of bytes (4, little-endian; 1 … maxText), as many encrypted bytes, and a
// tag of 16 bytes. Records are numbered from 0, and the number is the nonce (4 zero bytes, then 8 bytes, big-endian), so one
// that was altered, repeated, left out or moved does not open. After `rekeyEvery` records both sides replace the key by what
// it makes of 32 zero bytes under the nonce 2^64-1. native/src/cross/sealed-stream.h has the same format.

import { createCipheriv, createDecipheriv } from 'node:crypto';
import type { KeyPair } from '../../net/connection-keys.ts';

/** Moves bytes as readSync() and writeSync() do: throws EAGAIN where it would have to wait. */
export interface Wire {
  read(place: Uint8Array, offset: number, bytes: number): number;
  write(source: Uint8Array, offset: number, bytes: number): number;
}

/** What has arrived is not what the other side has sent. */
export class ForgedRecordError extends Error {}

const algorithm = 'aes-256-gcm';
const lengthBytes = 4;
const nonceBytes = 12;
const tagBytes = 16;
const maxText = 32 * 1024 + 64;
const maxRecord = lengthBytes + maxText + tagBytes;
const defaultRekeyEvery = 2 ** 20;

export class SealedWire implements Wire {
  readonly #wire: Wire;
  readonly #sealing: Numbered;
  readonly #opening: Numbered;
  /** A record that has not gone as a whole, and how many of the caller's bytes are in it. */
  #outgoing: { readonly record: Uint8Array; readonly text: number; sent: number } | undefined;
  /** Of the next record. */
  readonly #incoming: Buffer = Buffer.allocUnsafeSlow(maxRecord);
  #arrived = 0;
  /** From then on nothing is opened any more: the next number might fit a record that was moved. */
  #isForged = false;
  /** What is left of the last one. */
  #text: Uint8Array = new Uint8Array(0);

  constructor(wire: Wire, keys: KeyPair, rekeyEvery: number = defaultRekeyEvery) {
    this.#wire = wire;
    this.#sealing = new Numbered(keys.send, rekeyEvery);
    this.#opening = new Numbered(keys.receive, rekeyEvery);
  }

  /** Bytes count when all of their record has gone. After less than all, the next call has to offer the same bytes. */
  write(source: Uint8Array, offset: number, bytes: number): number {
    let counted = 0;
    while (counted < bytes) {
      const from = offset + counted;
      this.#outgoing ??= this.#seal(source.subarray(from, from + Math.min(bytes - counted, maxText)));
      const { record, text, sent } = this.#outgoing;
      try {
        this.#outgoing.sent += this.#wire.write(record, sent, record.length - sent);
      } catch (error) {
        // The error comes again with the next call.
        if (counted > 0) return counted;
        throw error;
      }
      if (this.#outgoing.sent < record.length) return counted;
      this.#outgoing = undefined;
      counted += text;
    }
    return counted;
  }

  /** Hands out only bytes of records whose tag is right. */
  read(place: Uint8Array, offset: number, bytes: number): number {
    let copied = 0;
    while (copied < bytes) {
      if (this.#text.length === 0) {
        try {
          if (!this.#receive()) return copied;
        } catch (error) {
          // As above.
          if (copied > 0) return copied;
          throw error;
        }
      }
      const piece = this.#text.subarray(0, bytes - copied);
      place.set(piece, offset + copied);
      this.#text = this.#text.subarray(piece.length);
      copied += piece.length;
    }
    return copied;
  }

  #seal(text: Uint8Array): { record: Uint8Array; text: number; sent: number } {
    const [key, nonce] = this.#sealing.next();
    const cipher = createCipheriv(algorithm, key, nonce);
    const length = Buffer.alloc(lengthBytes);
    length.writeUInt32LE(text.length);
    const sealed = cipher.update(text);
    cipher.final();
    return { record: Buffer.concat([length, sealed, cipher.getAuthTag()]), text: text.length, sent: 0 };
  }

  /** One record. False: the other side has closed the connection. */
  #receive(): boolean {
    if (this.#isForged) throw new ForgedRecordError();
    for (;;) {
      const wanted = this.#wanted();
      if (this.#arrived === wanted) break;
      const got = this.#wire.read(this.#incoming, this.#arrived, wanted - this.#arrived);
      if (got === 0) return false;
      this.#arrived += got;
    }
    const end = this.#arrived - tagBytes;
    const [key, nonce] = this.#opening.next();
    const decipher = createDecipheriv(algorithm, key, nonce);
    decipher.setAuthTag(this.#incoming.subarray(end, this.#arrived));
    const text = decipher.update(this.#incoming.subarray(lengthBytes, end));
    try {
      decipher.final();
    } catch {
      this.#isForged = true;
      throw new ForgedRecordError();
    }
    this.#text = text;
    this.#arrived = 0;
    return true;
  }

  /** Bytes to read from the start of the record: first its length, then the rest of it. */
  #wanted(): number {
    if (this.#arrived < lengthBytes) return lengthBytes;
    const length = this.#incoming.readUInt32LE(0);
    if (length < 1 || length > maxText) throw new ForgedRecordError();
    return lengthBytes + length + tagBytes;
  }
}

/** The key and the nonce of each record. */
class Numbered {
  #key: Buffer;
  readonly #rekeyEvery: number;
  #number = 0;

  constructor(key: Buffer, rekeyEvery: number) {
    this.#key = key;
    this.#rekeyEvery = rekeyEvery;
  }

  next(): [key: Buffer, nonce: Buffer] {
    const number = this.#number++;
    if (number > 0 && number % this.#rekeyEvery === 0) {
      const last = Buffer.alloc(nonceBytes, 0xff).fill(0, 0, 4);
      this.#key = createCipheriv(algorithm, this.#key, last).update(Buffer.alloc(this.#key.length));
    }
    const nonce = Buffer.alloc(nonceBytes);
    // A number has 53 exact bits: more records than any connection carries.
    nonce.writeUInt32BE(Math.floor(number / 2 ** 32), nonceBytes - 8);
    nonce.writeUInt32BE(number % 2 ** 32, nonceBytes - 4);
    return [this.#key, nonce];
  }
}
