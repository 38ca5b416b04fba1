// Timelines between hosts. The watch of rank 0's host says when somebody collects there, asks the others for their clocks
// again and again, and writes what they send into rings of its own, one for each of their ranks, where the collector
// finds them. The other watches read the rings of their host and send what is in them. A connection that does not keep up
// leaves events in the rings, which drop what they have no room for.

import type { ControlBlock } from '../../control/control-block.ts';
import { RingReader, RingWriter, sessionIn } from '../../observe/timeline/ring.ts';
import { RingFilter } from '../../observe/timeline/ring-filter.ts';
import {
  collectedSession,
  collectingHere,
  publishedRing,
  publishRing,
  ringHolders,
  setCollecting,
} from '../../observe/timeline/ring-registry.ts';
import { ClockOffset } from './clock-offset.ts';
import type { WatchMessage } from './messages.ts';

export type TimelineMessage = Extract<WatchMessage, { type: 'collect' | 'events' | 'clock?' | 'clock' }>;

/** What a relay needs of the watch. */
export interface RelayHost {
  /** Ranks that watch for other hosts. */
  readonly peers: readonly number[];
  /** Where memory files are made. */
  readonly shmDirectory?: string | undefined;
  /** False: the connection is full or over, and nothing would be sent. */
  canSay(peer: number): boolean;
  say(peer: number, message: TimelineMessage): void;
}

/** As base64 it fits into a frame. */
const pieceBytes = 40 * 1024;
const piecesPerTurn = 8;
/** So many answers are asked for at once; before that nobody sees the events. Then clocks are asked in every so many turns. */
const answersWanted = 8;
const turnsPerQuestion = 20;

interface Source {
  readonly path: string;
  readonly number: number;
  readonly reader: RingReader;
  /** The collector knows of it. */
  isAnnounced: boolean;
}

interface Relayed {
  /** Whose host it is on. */
  readonly peer: number;
  /** Of the ring on the other host. */
  readonly number: number;
  /** Undefined: there was no memory for it. */
  readonly writer: RingWriter | undefined;
  /** A piece is missing: what follows means nothing. */
  isTorn: boolean;
}

export class TimelineRelay {
  readonly #block: ControlBlock;
  readonly #localRanks: readonly number[];
  readonly #host: RelayHost;
  readonly #nowUs: () => number;
  readonly #sources = new Map<number, Source>();
  readonly #relayed = new Map<number, Relayed>();
  readonly #clocks = new Map<number, ClockOffset>();
  #isCollecting = false;
  /** Of the timeline that is collected here. */
  #session = 0;
  /** Of the one that is collected there. */
  #wantedSession = 0;
  readonly #filter = new RingFilter();
  #collector: number | undefined;
  /** The collector ends: who has not answered since. */
  #finishing: { readonly sinceUs: number; readonly awaited: Set<number> } | undefined;
  #turns = 0;
  #rings = 0;

  constructor(
    block: ControlBlock,
    localRanks: readonly number[],
    host: RelayHost,
    nowUs: () => number = () => Number(process.hrtime.bigint()) / 1e3,
  ) {
    this.#block = block;
    this.#localRanks = localRanks;
    this.#host = host;
    this.#nowUs = nowUs;
  }

  /** Several times a second. */
  turn(): void {
    const state = collectingHere(this.#block.fd);
    const isCollecting = state === 'collector' || state === 'finishing' || state === 'finished';
    const session = isCollecting ? collectedSession(this.#block.fd) : 0;
    // One collector may have followed another within a turn.
    if (isCollecting !== this.#isCollecting || session !== this.#session || this.#hasNewReader()) {
      this.#isCollecting = isCollecting;
      this.#session = session;
      this.#turns = 0;
      this.#dropRelayed();
      for (const peer of this.#host.peers) this.#host.say(peer, { type: 'collect', isOn: false, session });
    }
    if (state !== 'finishing') this.#finishing = undefined;
    else if (this.#finishing === undefined) {
      this.#finishing = { sinceUs: this.#nowUs(), awaited: new Set(this.#host.peers) };
      this.#turns = 0;
    }
    if (isCollecting) this.#ask();
    this.#giveUpOnTheGone();
    if (this.#collector !== undefined) this.#send(this.#collector);
  }

  /** `ranks` are those of the peer's host. */
  hear(peer: number, ranks: readonly number[], message: TimelineMessage): void {
    switch (message.type) {
      case 'collect':
        this.#collector = message.isOn ? peer : undefined;
        setCollecting(this.#block.fd, message.isOn ? 'relay' : 'nobody');
        if (!message.isOn || message.session !== this.#wantedSession) this.#closeSources();
        this.#wantedSession = message.session;
        return;
      case 'clock?':
        this.#answer(peer, message.askedUs);
        return;
      case 'clock': {
        const clock = this.#clocks.get(peer) ?? new ClockOffset();
        this.#clocks.set(peer, clock);
        const { askedUs, receivedUs, answeredUs } = message;
        clock.heard({ askedUs, receivedUs, answeredUs, heardUs: this.#nowUs() });
        for (const rank of ranks) this.#setClock(peer, this.#relayed.get(rank)?.writer);
        if (clock.answers < answersWanted) {
          this.#host.say(peer, { type: 'clock?', askedUs: this.#nowUs() });
          return;
        }
        for (const rank of ranks) this.#publish(rank);
        this.#noteAnswer(peer, message.askedUs);
        return;
      }
      case 'events':
        if (this.#isCollecting && ranks.includes(message.rank)) this.#receive(peer, message);
        return;
      default:
        message satisfies never;
    }
  }

  /** What the ranks of this host have written until now is sent, as far as the connection takes it. */
  close(): void {
    if (this.#collector !== undefined) this.#send(this.#collector);
    this.#closeSources();
    this.#dropRelayed();
  }

  /** Somebody who has not seen the beginning of what is relayed. */
  #hasNewReader(): boolean {
    for (const { writer } of this.#relayed.values()) if ((writer?.readers ?? 0) > 1) return true;
    return false;
  }

  #ask(): void {
    const turn = this.#turns++;
    if (turn % turnsPerQuestion !== 0) return;
    for (const peer of this.#host.peers) {
      // Again, for a connection that was not ready the first time.
      this.#host.say(peer, { type: 'collect', isOn: true, session: this.#session });
      this.#host.say(peer, { type: 'clock?', askedUs: this.#nowUs() });
    }
  }

  /** Hosts that have left answer no more; what they sent is all there is. */
  #giveUpOnTheGone(): void {
    for (const peer of this.#finishing?.awaited ?? []) {
      if (this.#host.canSay(peer)) continue;
      for (const [rank, relayed] of this.#relayed) if (relayed.peer === peer) this.#publish(rank);
      this.#noteAnswer(peer, Number.MAX_VALUE);
    }
  }

  #answer(peer: number, askedUs: number): void {
    const receivedUs = this.#nowUs();
    // What is here goes first: then the answer also says that all of it is there.
    if (this.#collector === peer) this.#send(peer);
    this.#host.say(peer, { type: 'clock', askedUs, receivedUs, answeredUs: this.#nowUs() });
  }

  /** Their times become ours by the best answer so far. */
  #setClock(peer: number, writer: RingWriter | undefined): void {
    const clock = this.#clocks.get(peer);
    writer?.setClock(-(clock?.offsetUs ?? 0), clock?.errorUs(this.#nowUs()) ?? Number.POSITIVE_INFINITY);
  }

  #noteAnswer(peer: number, askedUs: number): void {
    const finishing = this.#finishing;
    if (finishing === undefined || askedUs < finishing.sinceUs) return;
    finishing.awaited.delete(peer);
    if (finishing.awaited.size === 0 && collectingHere(this.#block.fd) === 'finishing') {
      setCollecting(this.#block.fd, 'finished');
    }
  }

  #send(collector: number): void {
    for (const rank of this.#localRanks) {
      const source = this.#sourceOf(rank);
      if (source === undefined) continue;
      const { reader, number } = source;
      const session = sessionIn(source.path);
      for (let piece = 0; piece < piecesPerTurn; piece++) {
        // Asked first: what has been read from the ring is gone from it.
        if (!this.#host.canSay(collector)) break;
        const bytes = reader.read(pieceBytes);
        const { dropped, isOver } = reader;
        if (bytes.length > 0 || isOver || !source.isAnnounced) {
          source.isAnnounced = true;
          const data = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('base64');
          this.#host.say(collector, { type: 'events', rank, ring: number, session, data, dropped, isOver });
        }
        if (bytes.length < pieceBytes) break;
      }
      if (reader.isOver) this.#closeSource(rank, source);
    }
  }

  #sourceOf(rank: number): Source | undefined {
    const path = publishedRing(this.#block.fd, rank);
    const known = this.#sources.get(rank);
    if (known !== undefined && (path === known.path || path === '')) return known;
    if (path === '' || path === this.#finished.get(rank)) return undefined;
    if (known !== undefined) this.#closeSource(rank, known);
    if (!this.#filter.accepts(path, this.#wantedSession, false)) return undefined;
    const reader = RingReader.open(path, ringHolders(this.#block.fd, this.#block.ranks));
    if (reader === undefined) return undefined;
    const source = { path, number: ++this.#rings, reader, isAnnounced: false };
    this.#sources.set(rank, source);
    return source;
  }

  /** Rings that are over, and stand in the block a moment longer. */
  readonly #finished = new Map<number, string>();

  #closeSource(rank: number, { path, reader }: Source): void {
    reader.close();
    this.#sources.delete(rank);
    if (publishedRing(this.#block.fd, rank) === path) this.#finished.set(rank, path);
    else this.#finished.delete(rank);
  }

  #closeSources(): void {
    for (const { reader } of this.#sources.values()) reader.close();
    this.#sources.clear();
    this.#finished.clear();
  }

  #receive(peer: number, message: Extract<TimelineMessage, { type: 'events' }>): void {
    const { rank, ring, session, data, dropped, isOver } = message;
    let relayed = this.#relayed.get(rank);
    if (relayed?.number !== ring) {
      relayed?.writer?.close();
      const opened = this.#openRing(session);
      relayed = { peer, number: ring, writer: opened, isTorn: opened === undefined };
      this.#relayed.set(rank, relayed);
      this.#setClock(peer, opened);
      if ((this.#clocks.get(peer)?.answers ?? 0) >= answersWanted) this.#publish(rank);
    }
    const { writer } = relayed;
    if (writer === undefined || relayed.isTorn) return;
    relayed.isTorn = !writer.write(Buffer.from(data, 'base64'), 1);
    writer.setDropped(Math.max(dropped, writer.dropped));
    if (isOver || relayed.isTorn) writer.end();
  }

  /** A timeline without the ranks of other hosts is better than no watch over them. */
  #openRing(session: number): RingWriter | undefined {
    try {
      return new RingWriter({ session, directory: this.#host.shmDirectory });
    } catch {
      return undefined;
    }
  }

  /** For the collector. */
  #publish(rank: number): void {
    const path = this.#relayed.get(rank)?.writer?.path;
    if (path !== undefined && publishedRing(this.#block.fd, rank) !== path) {
      publishRing(this.#block.fd, rank, path);
    }
  }

  #dropRelayed(): void {
    for (const [rank, { writer }] of this.#relayed) {
      publishRing(this.#block.fd, rank, '');
      writer?.close();
    }
    this.#relayed.clear();
  }
}
