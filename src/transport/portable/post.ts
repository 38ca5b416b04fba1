// A post: what a member announces at the beginning of a round. Its header, little-endian:
//   0 u32 checksum   4 u32 round   8 u32, 12 u32 fingerprint   16 u32 bytes of payload   20 u32 check of the header
//   24 f64 total bytes   32… f64 bytes to each member (alltoall)   then, at `payloadOffset`, the payload
//
// NOTE [Torn posts]. A file can be read while it is written, and a page that the kernel is copying may become visible
// in any order. So a post is valid only if its checksum is right. The checksum covers the header, and the payload
// too if that is short enough for the same write; a longer payload is written separately before the header
// and read after it. A connection tears nothing, but there the header arrives first, and the length of the payload must
// be trusted before the payload is there: hence a check of the header alone.

import assert from 'node:assert';

/** Places in the header: of words (u32) first, then of numbers (f64). */
export const postLayout = {
  checksum: 0,
  round: 1,
  fingerprintLow: 2,
  fingerprintHigh: 3,
  payloadBytes: 4,
  headerCheck: 5,
  totalBytes: 3,
  sendBytes: 4,
  /** A payload of up to this length is written and read together with the header. */
  inlineBytes: 1024,
} as const;

/** Where the payload begins; a multiple of 64, as kernels require. */
export function payloadOffsetOf(members: number): number {
  return Math.ceil((32 + 8 * members) / 64) * 64;
}

export interface PostContent {
  readonly round: number;
  readonly fingerprintLow: number;
  readonly fingerprintHigh: number;
  readonly payloadBytes: number;
  readonly totalBytes: number;
  readonly sendBytes?: readonly number[] | undefined;
}

/** A post in the staging memory: this member's, or a copy of another member's. */
export class Post {
  readonly area: number;
  readonly payloadOffset: number;
  readonly #words: Int32Array;
  readonly #numbers: Float64Array;

  constructor(staging: Uint8Array, area: number, members: number, eagerBytes: number) {
    this.area = area;
    this.payloadOffset = payloadOffsetOf(members);
    const bytes = this.payloadOffset + eagerBytes;
    assert(bytes % 8 === 0);
    this.#words = new Int32Array(staging.buffer, staging.byteOffset + area, bytes / 4);
    this.#numbers = new Float64Array(staging.buffer, staging.byteOffset + area, bytes / 8);
  }

  get payloadBytes(): number {
    return this.#words[postLayout.payloadBytes] as number;
  }

  get totalBytes(): number {
    return this.#numbers[postLayout.totalBytes] as number;
  }

  sendBytes(to: number): number {
    return this.#numbers[postLayout.sendBytes + to] as number;
  }

  /** Whether this is a complete post of that round. */
  isOf(round: number): boolean {
    const words = this.#words;
    return words[postLayout.round] === (round | 0) && words[postLayout.checksum] === this.#checksum();
  }

  /** Whether this is the header of a post of that round; its payload may still be missing. */
  isHeaderOf(round: number, maxPayloadBytes: number): boolean {
    const words = this.#words;
    const { payloadBytes } = this;
    return (
      words[postLayout.round] === (round | 0) &&
      words[postLayout.headerCheck] === this.#headerCheck() &&
      payloadBytes >= 0 &&
      payloadBytes <= maxPayloadBytes
    );
  }

  agreesWith(other: Post): boolean {
    const { fingerprintLow, fingerprintHigh } = postLayout;
    return (
      this.#words[fingerprintLow] === other.#words[fingerprintLow] &&
      this.#words[fingerprintHigh] === other.#words[fingerprintHigh]
    );
  }

  /** Writes the header; the payload is there already. */
  write(content: PostContent): void {
    const words = this.#words;
    words[postLayout.round] = content.round;
    words[postLayout.fingerprintLow] = content.fingerprintLow;
    words[postLayout.fingerprintHigh] = content.fingerprintHigh;
    words[postLayout.payloadBytes] = content.payloadBytes;
    this.#numbers[postLayout.totalBytes] = content.totalBytes;
    if (content.sendBytes !== undefined) this.#numbers.set(content.sendBytes, postLayout.sendBytes);
    words[postLayout.headerCheck] = this.#headerCheck();
    words[postLayout.checksum] = this.#checksum();
  }

  /** Bytes that are written with the header, including a short payload. */
  get headBytes(): number {
    const { payloadBytes, payloadOffset } = this;
    return payloadBytes <= postLayout.inlineBytes
      ? payloadOffset + Math.ceil(payloadBytes / 4) * 4
      : payloadOffset;
  }

  #headerCheck(): number {
    let sum = 0x48564450;
    for (let i = postLayout.round; i <= postLayout.payloadBytes; i++) {
      sum = Math.imul(sum ^ (this.#words[i] as number), 0x9e3779b1);
      sum ^= sum >>> 15;
    }
    return sum;
  }

  #checksum(): number {
    const words = this.#words;
    // A torn header may claim any length; never read beyond the area.
    const end = Math.min(this.headBytes >>> 2, words.length);
    let sum = 0x811c9dc5;
    for (let i = 1; i < end; i++) {
      sum = Math.imul(sum ^ (words[i] as number), 0x9e3779b1);
      sum ^= sum >>> 15;
    }
    return sum;
  }
}
