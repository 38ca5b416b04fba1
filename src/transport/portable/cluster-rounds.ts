// The rounds of a group whose members are on several hosts. Posts go to all members: through the files of the host to
// local members, over a connection to each of the others. So every member sees who has arrived, and small operations are
// over when all posts are there. Larger ones then run the algorithms of algorithms/cluster.
//
// A connection carries the ready byte; then, for each round, one post in each direction, a header of fixed length and a
// payload; then, if all agree, the bytes of the operation, whose number both sides know.

import type { HorovodError } from '../../errors.ts';
import type { ReduceKernels } from '../../tensor/wasm-reduce.ts';
import type { Round } from '../transport.ts';
import { clusterAlgorithms } from './algorithms/cluster/algorithms.ts';
import { type ClusterExchange, settle, type Ticket } from './algorithms/cluster/cluster-exchange.ts';
import { smallBytes } from './algorithms/cluster/reduce.ts';
import type { Seats } from './algorithms/cluster/seats.ts';
import { collectiveOf } from './algorithms/collective.ts';
import type { Exchange, Steps } from './algorithms/exchange.ts';
import type { GroupFiles } from './group-files.ts';
import type { Link } from './link.ts';
import { Post } from './post.ts';
import type { Rounds } from './round.ts';

export interface ClusterRoundsOptions {
  readonly seats: Seats;
  /** The files of the members of this host, with extraBytesFor() bytes of extra memory. */
  readonly files: GroupFiles;
  /** By member; undefined for those of this host. */
  readonly links: readonly (Link | undefined)[];
  readonly gathersByHost: boolean;
  /** The error for a connection that ended, or brought something wrong. */
  describeLoss(member: number, seen: string): HorovodError;
  /** The error for a connection with bytes that the other side has not sent. */
  describeTampering(member: number, address: string): HorovodError;
}

/** Memory for partial results and pieces in transit; with more memory, the pieces are larger. */
const crossBytes = 4 * 1024 * 1024;
/** When a connection ends, the control block may take this long to learn the true cause. */
const graceMs = 1000;
/** What a poll of one connection costs when nothing has arrived. */
export const linkPollUs = 6;

export function extraBytesFor(members: number, eagerBytes: number, postBytes: number): number {
  return members * postBytes + Math.max(crossBytes, smallBytes(members, eagerBytes));
}

export class ClusterRounds implements Rounds, ClusterExchange {
  readonly seats: Seats;
  readonly index: number;
  readonly size: number;
  readonly eagerBytes: number;
  readonly kernels: ReduceKernels;
  readonly crossArea: number;
  readonly crossBytes: number = crossBytes;
  readonly gathersByHost: boolean;
  readonly local: Exchange;
  readonly #files: GroupFiles;
  readonly #links: readonly (Link | undefined)[];
  readonly #describe: Pick<ClusterRoundsOptions, 'describeLoss' | 'describeTampering'>;
  /** Of members of other hosts. */
  readonly #posts: readonly Post[];
  readonly #incoming: { header: Ticket | undefined; payload: Ticket | undefined; isHere: boolean }[];
  #isPosting = true;

  constructor(options: ClusterRoundsOptions) {
    const { seats, files, links, gathersByHost } = options;
    this.seats = seats;
    this.index = seats.index;
    this.size = seats.size;
    this.eagerBytes = files.eagerBytes;
    this.kernels = files.kernels;
    this.gathersByHost = gathersByHost;
    this.local = files;
    this.#files = files;
    this.#links = links;
    this.#describe = options;
    const areaOf = (member: number) => files.extraArea + member * files.postBytes;
    this.#posts = links.map(
      (_, member) => new Post(this.kernels.staging, areaOf(member), this.size, this.eagerBytes),
    );
    this.crossArea = areaOf(this.size);
    this.#incoming = links.map(() => ({ header: undefined, payload: undefined, isHere: false }));
    this.#beginRound();
  }

  *run(round: Round, isPassive: boolean, onPosted: () => void, onAgreed?: () => void): Steps<boolean> {
    const { remote } = this.seats;
    // Nothing has been sent so far, so a batch that waits here can be taken back.
    if (isPassive) while (!this.#hasAnyPost()) yield 'waiting';
    const collective = collectiveOf(clusterAlgorithms, this, round.operation);
    const files = this.#files;
    const { staging } = this.kernels;
    if (collective.payloadBytes > 0) collective.writePayload(staging, files.ownPayloadArea);
    files.post(round, collective);
    const { area, payloadOffset } = files.postOf(files.index);
    const whole = staging.subarray(area, area + payloadOffset + wholeWords(collective.payloadBytes));
    const sends = remote.map((member) => this.send(member, whole));
    onPosted();
    while (!this.#hasAllPosts()) yield 'waiting';
    const own = files.postOf(files.index);
    const isAgreed = files.isAgreed() && remote.every((member) => this.#postOf(member).agreesWith(own));
    this.#isPosting = false;
    if (isAgreed) {
      onAgreed?.();
      yield* collective.run();
    }
    yield* settle(this, sends);
    this.#beginRound();
    return isAgreed;
  }

  withoutPost(): number[] {
    const { local, remote } = this.seats;
    const absent = this.#files.withoutPost().map((place) => local[place] as number);
    for (const member of remote) {
      this.#links[member]?.pump();
      // An invalid post is reported by the wait for it.
      if (!this.#hasPost(member, false)) absent.push(member);
    }
    return absent.sort((a, b) => a - b);
  }

  lacking(): number[] {
    const { local, remote } = this.seats;
    const here = this.#files.lacking().map((place) => local[place] as number);
    const there = remote.filter((member) =>
      this.#isPosting ? this.#incoming[member]?.isHere !== true : this.#links[member]?.isIdle !== true,
    );
    return [...here, ...there].sort((a, b) => a - b);
  }

  payloadBytes(member: number): number {
    return this.#postOf(member).payloadBytes;
  }

  totalBytes(member: number): number {
    return this.#postOf(member).totalBytes;
  }

  sendBytes(member: number, to: number): number {
    return this.#postOf(member).sendBytes(to);
  }

  payload(member: number): number {
    if (this.#isLocal(member)) return this.#files.payload(this.seats.placeOf[member] as number);
    const { area, payloadOffset } = this.#postOf(member);
    return area + payloadOffset;
  }

  send(member: number, bytes: Uint8Array): Ticket {
    return { kind: 'send', member, number: this.#linkOf(member).send(bytes) };
  }

  receive(member: number, place: Uint8Array): Ticket {
    return { kind: 'receive', member, number: this.#linkOf(member).receive(place) };
  }

  isDone({ kind, member, number }: Ticket): boolean {
    const link = this.#linkOf(member);
    return kind === 'send' ? link.hasSent(number) : link.hasReceived(number);
  }

  pump(): boolean {
    let hasMoved = false;
    for (const member of this.seats.remote) {
      const link = this.#linkOf(member);
      if (link.isIdle) continue;
      if (link.pump()) hasMoved = true;
      if (link.end?.kind === 'forged') throw this.#describe.describeTampering(member, link.address);
      if (link.end !== undefined && performance.now() - link.end.atMs > graceMs) {
        throw this.#describe.describeLoss(member, link.end.reason);
      }
    }
    return hasMoved;
  }

  close(): void {
    for (const link of this.#links) link?.close();
    this.#files.close();
  }

  #beginRound(): void {
    this.#files.beginRound();
    this.#isPosting = true;
    for (const member of this.seats.remote) {
      const { area, payloadOffset } = this.#posts[member] as Post;
      const header = this.receive(member, this.kernels.staging.subarray(area, area + payloadOffset));
      this.#incoming[member] = { header, payload: undefined, isHere: false };
    }
  }

  #hasAnyPost(): boolean {
    if (this.#files.hasAnyPost()) return true;
    this.pump();
    return this.seats.remote.some((member) => this.#hasPost(member));
  }

  #hasAllPosts(): boolean {
    this.pump();
    let hasAll = this.#files.hasAllPosts();
    for (const member of this.seats.remote) if (!this.#hasPost(member)) hasAll = false;
    return hasAll;
  }

  #hasPost(member: number, isStrict = true): boolean {
    const incoming = this.#incoming[member];
    if (incoming?.header === undefined || incoming.isHere) return incoming?.isHere === true;
    if (!this.isDone(incoming.header)) return false;
    const post = this.#posts[member] as Post;
    const { round } = this.#files;
    if (incoming.payload === undefined) {
      if (!post.isHeaderOf(round, this.eagerBytes)) return this.#reject(member, isStrict);
      const from = post.area + post.payloadOffset;
      const place = this.kernels.staging.subarray(from, from + wholeWords(post.payloadBytes));
      incoming.payload = this.receive(member, place);
      this.#linkOf(member).pump();
    }
    if (!this.isDone(incoming.payload)) return false;
    if (!post.isOf(round)) return this.#reject(member, isStrict);
    incoming.isHere = true;
    return true;
  }

  #reject(member: number, isStrict: boolean): false {
    const round = this.#files.round;
    if (isStrict)
      throw this.#describe.describeLoss(member, `delivered something that is not a post of round ${round}`);
    return false;
  }

  #postOf(member: number): Post {
    if (this.#isLocal(member)) return this.#files.postOf(this.seats.placeOf[member] as number);
    return this.#posts[member] as Post;
  }

  #isLocal(member: number): boolean {
    return this.seats.hostOf[member] === this.seats.hostOf[this.index];
  }

  #linkOf(member: number): Link {
    const link = this.#links[member];
    if (link === undefined) throw new RangeError(`member ${this.index} has no connection with ${member}`);
    return link;
  }
}

/** The checksum of a post covers whole words. */
function wholeWords(bytes: number): number {
  return Math.ceil(bytes / 4) * 4;
}
