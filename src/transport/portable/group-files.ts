// The files of a group: one memory file per member, which only that member writes and the others read at explicit
// positions. No rank ever holds a lock that another one waits for; two members writing into one file would take turns
// with the file's lock. Implements the Exchange that the algorithms run on.
//
// Layout of a member's file:
//   2 posts      round r uses post r mod 2. A member posts round r+2 only after it has seen all posts of r+1, and those
//                are written only after their writers have finished round r: nobody reads that post any more.
//   1 page       u32 steps published so far, u32 its complement (to detect a torn pair)
//   4 slots      see NOTE [Slots] in algorithms/exchange.ts

import { readSync, writeSync } from 'node:fs';
import { createMemoryFile, type MemoryFile, openMemoryFile } from '../../control/memory-file.ts';
import { HorovodError } from '../../errors.ts';
import { areaBytes, createReduceKernels, type ReduceKernels } from '../../tensor/wasm-reduce.ts';
import type { Round } from '../transport.ts';
import { type Exchange, slotsPerMember, workSlots } from './algorithms/exchange.ts';
import { Post, type PostContent, payloadOffsetOf, postLayout } from './post.ts';

export interface GroupFileSizes {
  /** The maximum payload of a post. */
  readonly eagerBytes: number;
  /** The maximum number of bytes that a member moves in one step. */
  readonly slotBytes: number;
}

const pageBytes = 4096;

/** One file per member. One member creates all of them; the others open their paths. */
export function createGroupFiles(
  members: number,
  sizes: GroupFileSizes,
  directory: string,
  addressees: number = members,
): MemoryFile[] {
  const files: MemoryFile[] = [];
  try {
    for (let member = 0; member < members; member++) {
      const bytes = positionsOf(addressees, sizes).end;
      files.push(createMemoryFile(bytes, { directory, label: 'portable' }));
    }
    return files;
  } catch (error) {
    for (const file of files) file.close();
    throw error;
  }
}

/** `pid` is the process of the member that has created them. */
export function openGroupFiles(
  paths: readonly string[],
  sizes: GroupFileSizes,
  addressees: number,
  pid: number,
): MemoryFile[] {
  const files: MemoryFile[] = [];
  try {
    const { end: bytes } = positionsOf(addressees, sizes);
    for (const path of paths) files.push(openMemoryFile(path, { bytes, pids: [pid] }));
    return files;
  } catch (error) {
    for (const file of files) file.close();
    throw error;
  }
}

/** For a group of which only some members, those of this host, have files. */
export interface GroupFileExtras {
  /** Members of the whole group: a post says how many bytes each of them gets. */
  readonly addressees?: number;
  /** Extra staging memory for the caller. */
  readonly extraBytes?: number;
}

/** Takes over the files: they are closed if there is no memory for the rest. */
export function mappedFiles(
  files: readonly MemoryFile[],
  index: number,
  sizes: GroupFileSizes,
  extras?: GroupFileExtras,
): GroupFiles {
  try {
    return new GroupFiles(files, index, sizes, extras);
  } catch (error) {
    for (const file of files) file.close();
    throw error;
  }
}

export class GroupFiles implements Exchange {
  readonly index: number;
  readonly size: number;
  readonly eagerBytes: number;
  readonly slotBytes: number;
  readonly kernels: ReduceKernels;
  readonly workArea: number;
  /** Where the extra staging memory begins. */
  readonly extraArea: number;
  /** Size of a post in the staging memory. */
  readonly postBytes: number;
  readonly #files: readonly MemoryFile[];
  readonly #fds: readonly number[];
  readonly #positions: ReturnType<typeof positionsOf>;
  readonly #staging: Uint8Array;
  readonly #posts: readonly Post[];
  readonly #payloadOffset: number;
  /** Which members' posts of the current round have been read, and whether their payloads have. */
  readonly #hasPost: boolean[];
  readonly #hasPayload: boolean[];
  #round = 0;
  /** Steps taken by earlier rounds; published counts run through all rounds and wrap at 2^32. */
  #base = 0;
  #end = 0;
  /** The published count that the running step waits for; undefined while waiting for posts. */
  #awaited: number | undefined;
  readonly #published: Int32Array;
  readonly #counter = new Int32Array(2);
  readonly #counterBytes = new Uint8Array(this.#counter.buffer);
  #isClosed = false;

  constructor(
    files: readonly MemoryFile[],
    index: number,
    sizes: GroupFileSizes,
    { addressees = files.length, extraBytes = 0 }: GroupFileExtras = {},
  ) {
    this.#files = files;
    this.#fds = files.map(({ fd }) => fd);
    this.index = index;
    this.size = files.length;
    this.eagerBytes = sizes.eagerBytes;
    this.slotBytes = sizes.slotBytes;
    this.#positions = positionsOf(addressees, sizes);
    const postArea = this.#positions.postBytes;
    this.postBytes = postArea;
    const workBytes = Math.max(workSlots * sizes.slotBytes, (this.size + 2) * sizes.eagerBytes);
    this.extraArea = areaBytes(this.size * postArea + workBytes);
    this.kernels = createReduceKernels(this.extraArea + extraBytes);
    this.#staging = this.kernels.staging;
    this.#posts = files.map(
      (_, member) => new Post(this.#staging, member * postArea, addressees, sizes.eagerBytes),
    );
    this.workArea = this.size * postArea;
    this.#payloadOffset = payloadOffsetOf(addressees);
    this.#hasPost = files.map(() => false);
    this.#hasPayload = files.map(() => false);
    this.#published = new Int32Array(this.size);
  }

  /** Where the payload must be before post() is called. */
  get ownPayloadArea(): number {
    return this.index * this.#positions.postBytes + this.#payloadOffset;
  }

  /** Number of the current round. */
  get round(): number {
    return this.#round;
  }

  /** A member's post; of other members, the copy that was read. */
  postOf(member: number): Post {
    return this.#posts[member] as Post;
  }

  /** Moves on to the next round; no post of it has been read yet. */
  beginRound(): void {
    this.#round = (this.#round + 1) | 0;
    this.#awaited = undefined;
    this.#hasPost.fill(false);
    this.#hasPayload.fill(false);
  }

  post(round: Round, content: Omit<PostContent, 'round' | 'fingerprintLow' | 'fingerprintHigh'>): void {
    const post = this.#posts[this.index] as Post;
    // The checksum covers whole words; the last one may be partly filled.
    const payloadEnd = post.area + this.#payloadOffset + content.payloadBytes;
    if (payloadEnd % 4 !== 0) this.#staging.fill(0, payloadEnd, payloadEnd + 3);
    post.write({
      round: this.#round,
      fingerprintLow: round.fingerprintLow,
      fingerprintHigh: round.fingerprintHigh,
      payloadBytes: content.payloadBytes,
      totalBytes: content.totalBytes,
      sendBytes: content.sendBytes,
    });
    this.#hasPost[this.index] = true;
    this.#hasPayload[this.index] = true;
    // A member alone on its host has no readers.
    if (this.size === 1) return;
    const position = this.#postPosition();
    if (content.payloadBytes > postLayout.inlineBytes) {
      this.#write(post.area + this.#payloadOffset, content.payloadBytes, position + this.#payloadOffset);
    }
    this.#write(post.area, post.headBytes, position);
  }

  /** Whether another member has posted this round. */
  hasAnyPost(): boolean {
    for (let member = 0; member < this.size; member++) if (this.#pollPost(member)) return true;
    return false;
  }

  hasAllPosts(): boolean {
    let hasAll = true;
    for (let member = 0; member < this.size; member++) if (!this.#pollPost(member)) hasAll = false;
    return hasAll;
  }

  /** Members that have not posted the current round. */
  withoutPost(): number[] {
    return this.#fds.map((_, member) => member).filter((member) => !this.#pollPost(member));
  }

  isAgreed(): boolean {
    const own = this.#posts[this.index] as Post;
    return this.#posts.every((post) => post.agreesWith(own));
  }

  payloadBytes(member: number): number {
    return (this.#posts[member] as Post).payloadBytes;
  }

  totalBytes(member: number): number {
    return (this.#posts[member] as Post).totalBytes;
  }

  sendBytes(member: number, to: number): number {
    return (this.#posts[member] as Post).sendBytes(to);
  }

  payload(member: number): number {
    const post = this.#posts[member] as Post;
    const area = post.area + this.#payloadOffset;
    if (this.#hasPayload[member] === false) {
      this.#hasPayload[member] = true;
      const position = this.#postPosition() + this.#payloadOffset;
      this.#read(member, this.#staging, area, post.payloadBytes, position);
    }
    return area;
  }

  begin(steps: number): void {
    this.#base = this.#end;
    this.#end = (this.#end + steps) | 0;
  }

  put(step: number, at: number, source: Uint8Array, from: number, length: number): void {
    const position = this.#slotPosition(step) + at;
    const fd = this.#fds[this.index] as number;
    for (let done = 0; done < length; ) {
      done += writeSync(fd, source, from + done, length - done, position + done);
    }
  }

  publish(step: number): void {
    const count = (this.#base + step + 1) | 0;
    this.#counter[0] = count;
    this.#counter[1] = ~count;
    writeSync(this.#fds[this.index] as number, this.#counterBytes, 0, 8, this.#positions.counter);
    this.#published[this.index] = count;
  }

  hasAll(step: number): boolean {
    const count = (this.#base + step + 1) | 0;
    this.#awaited = count;
    let hasAll = true;
    for (let member = 0; member < this.size; member++) {
      if (!this.#hasPublished(member, count)) hasAll = false;
    }
    return hasAll;
  }

  /** Members that the last poll was waiting for: those without a post, or behind in the steps. */
  lacking(): number[] {
    const awaited = this.#awaited;
    const others = this.#fds.map((_, member) => member).filter((member) => member !== this.index);
    if (awaited === undefined) return others.filter((member) => this.#hasPost[member] === false);
    return others.filter((member) => (((this.#published[member] as number) - awaited) | 0) < 0);
  }

  get(member: number, step: number, at: number, target: Uint8Array, to: number, length: number): void {
    this.#read(member, target, to, length, this.#slotPosition(step) + at);
  }

  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    for (const file of this.#files) file.close();
  }

  #pollPost(member: number): boolean {
    if (this.#hasPost[member] === true) return true;
    if (member === this.index || this.#isClosed) return false;
    const post = this.#posts[member] as Post;
    const length = this.#payloadOffset + postLayout.inlineBytes;
    readSync(this.#fds[member] as number, this.#staging, post.area, length, this.#postPosition());
    if (!post.isOf(this.#round)) return false;
    this.#hasPost[member] = true;
    this.#hasPayload[member] = post.payloadBytes <= postLayout.inlineBytes;
    return true;
  }

  #hasPublished(member: number, count: number): boolean {
    if ((((this.#published[member] as number) - count) | 0) >= 0) return true;
    if (member === this.index) return false;
    readSync(this.#fds[member] as number, this.#counterBytes, 0, 8, this.#positions.counter);
    const seen = this.#counter[0] as number;
    if (seen !== ~(this.#counter[1] as number)) return false;
    this.#published[member] = seen;
    return ((seen - count) | 0) >= 0;
  }

  #read(member: number, target: Uint8Array, to: number, length: number, position: number): void {
    const fd = this.#fds[member] as number;
    for (let done = 0; done < length; ) {
      const bytes = readSync(fd, target, to + done, length - done, position + done);
      if (bytes === 0) throw shortFile(member);
      done += bytes;
    }
  }

  #write(area: number, length: number, position: number): void {
    const fd = this.#fds[this.index] as number;
    for (let done = 0; done < length; ) {
      done += writeSync(fd, this.#staging, area + done, length - done, position + done);
    }
  }

  #postPosition(): number {
    return (this.#round & 1) * this.#positions.postBytes;
  }

  #slotPosition(step: number): number {
    return this.#positions.slots + ((this.#base + step) & (slotsPerMember - 1)) * this.slotBytes;
  }
}

/** Size of a post in the staging memory. */
export function postBytesOf(addressees: number, sizes: GroupFileSizes): number {
  return positionsOf(addressees, sizes).postBytes;
}

function positionsOf(members: number, { eagerBytes, slotBytes }: GroupFileSizes) {
  // Whole pages, so that a reader of one part never contends with the writer of another for the kernel's page lock.
  const postBytes = Math.ceil((payloadOffsetOf(members) + eagerBytes) / pageBytes) * pageBytes;
  const counter = 2 * postBytes;
  const slots = counter + pageBytes;
  return { postBytes, counter, slots, end: slots + slotsPerMember * slotBytes };
}

function shortFile(member: number): HorovodError {
  return new HorovodError('ERR_HVD_SHARED_MEMORY', `the memory file of member ${member} is truncated`);
}
