// One host's watch over the others. It is connected with the watches of all other hosts and beats every second. What it
// sees in its host's control block (the job failed; a rank left or died) it tells them; what they tell, it writes into
// the block. A peer that hangs up without a goodbye, or is not heard for too long, is a failure of the job: it goes
// into the block, and from there to all others. Every wait of every transport looks at the block. Frames are sealed: one
// that a peer has not sent is a failure of the job as well.

import { writeSync } from 'node:fs';
import type { Socket } from 'node:net';
import { createLog, type LogStyle } from '../../console/log.ts';
import { ControlBlock, type Departure, type FailureRecord } from '../../control/control-block.ts';
import { type Connection, readyByte } from '../../net/connection.ts';
import { connectMesh } from '../../net/mesh/connect.ts';
import { MeshListener } from '../../net/mesh/listener.ts';
import { SealedFrames, TamperedFrame, tamperedError } from '../../net/sealed-frames.ts';
import { SilenceDetector } from '../../net/silence.ts';
import { inSeconds } from '../../net/wait.ts';
import type { JobSecret } from '../../settings/job-secret.ts';
import { HostMirror } from './host-mirror.ts';
import { encodeMessage, maxFrameBytes, parseMessage, type WatchMessage } from './messages.ts';
import { StatusMirror } from './status-mirror.ts';
import { TimelineRelay } from './timeline-relay.ts';

/** Another host, as this one knows it. */
export interface WatchedHost {
  /** The rank whose process watches for that host. */
  readonly rank: number;
  readonly hostname: string;
  /** All ranks on it. */
  readonly ranks: readonly number[];
}

export interface WatcherOptions {
  readonly secret: JobSecret;
  readonly jobId: string;
  /** Tells the watches of one init() from those of another. */
  readonly channel: string;
  readonly controlBlockPath: string;
  /** The rank of this process. */
  readonly rank: number;
  /** All ranks on this host. */
  readonly localRanks: readonly number[];
  readonly hostname: string;
  readonly peers: readonly WatchedHost[];
  readonly networkInterfaces?: readonly string[] | undefined;
  /** A host that is not heard for so long is lost. */
  readonly peerTimeoutMs: number;
  /** Where memory files are made. */
  readonly shmDirectory?: string | undefined;
  /** How the log of this rank is written; undefined: without warnings of the watch. */
  readonly logStyle?: LogStyle | undefined;
  readonly beatMs?: number | undefined;
  readonly pollMs?: number | undefined;
}

interface Link {
  readonly host: WatchedHost;
  readonly socket: Socket;
  readonly frames: SealedFrames;
  /** Messages for an accepted connection whose other side has not said yet that it is ready; undefined afterwards. */
  held: string[] | undefined;
  /** 'departing': it has said goodbye, so that its end will be no failure. */
  state: 'open' | 'departing' | 'over';
}

/** What a peer that does not read may leave in our memory. */
const unsentLimitBytes = 256 * 1024;
/** The same for what is no loss: newer of it will follow. */
const unsentNewsLimitBytes = 64 * 1024;
/** How long the other sides have to hang up after a goodbye. */
const farewellMs = 500;

export class Watcher {
  readonly candidates: readonly string[];
  readonly #options: WatcherOptions;
  readonly #listener: MeshListener;
  readonly #block: ControlBlock;
  readonly #silence: SilenceDetector<Link>;
  readonly #timers: NodeJS.Timeout[] = [];
  readonly #told = new Set<number>();
  readonly #statuses: StatusMirror;
  readonly #timelines: TimelineRelay;
  readonly #hosts: HostMirror;
  #links: Link[] = [];
  #hasToldFailure = false;
  #isLeaving = false;
  #isOver = false;
  #isBlind = false;
  /** Resolves when there is nothing left to watch for. */
  readonly over: Promise<void>;
  #resolveOver: () => void = () => undefined;

  private constructor(options: WatcherOptions, listener: MeshListener, block: ControlBlock) {
    this.#options = options;
    this.#listener = listener;
    this.#block = block;
    this.#statuses = new StatusMirror(block, options.localRanks, (message) => this.#sayToAll(message));
    this.#hosts = new HostMirror(block, {
      ...options,
      say: (message) => this.#sayToAll(message),
      onLowMemory: (text) => this.#warn(text),
    });
    this.#timelines = new TimelineRelay(block, options.localRanks, {
      peers: options.peers.map(({ rank }) => rank),
      shmDirectory: options.shmDirectory,
      canSay: (peer) => this.#canSay(peer),
      say: (peer, message) => this.#say(peer, message),
    });
    this.#silence = new SilenceDetector(options.peerTimeoutMs, (link) => this.#onSilence(link));
    this.candidates = listener.candidates;
    this.over = new Promise((resolve) => {
      this.#resolveOver = resolve;
    });
  }

  static async open(options: WatcherOptions): Promise<Watcher> {
    const { secret, jobId, rank, networkInterfaces } = options;
    const block = ControlBlock.open(options.controlBlockPath);
    try {
      const listener = await MeshListener.open({ secret, jobId, purpose: 'watch', rank, networkInterfaces });
      return new Watcher(options, listener, block);
    } catch (error) {
      block.close();
      throw error;
    }
  }

  /** `candidates` are those of `peers`, in the same order. */
  async connect(
    candidates: readonly (readonly string[])[],
    wait: { readonly timeoutMs: number; readonly signal?: AbortSignal | undefined },
  ): Promise<void> {
    const { rank, hostname, peers, channel, peerTimeoutMs, beatMs, pollMs } = this.#options;
    const sockets = await connectMesh({
      listener: this.#listener,
      channel,
      ranks: [rank, ...peers.map((peer) => peer.rank)],
      index: 0,
      peers: peers.map((_, place) => place + 1),
      candidates: [this.candidates, ...candidates],
      hostnames: [hostname, ...peers.map((peer) => peer.hostname)],
      ...wait,
    });
    this.#listener.close();
    if (this.#isOver) {
      for (const mesh of sockets) mesh?.socket.destroy();
      return;
    }
    this.#links = peers.map((host, place) => this.#link(host, sockets[place + 1] as Connection));
    this.#every(beatMs ?? Math.min(1000, peerTimeoutMs / 5), () => this.#sayToAll({ type: 'beat' }));
    this.#every(pollMs ?? 100, () => this.tell());
    this.#every(this.#statuses.periodMs, () => this.#forPeople(() => this.#statuses.tell()));
    this.#every(pollMs ?? 100, () => this.#forPeople(() => this.#timelines.turn()));
    this.#every(this.#statuses.periodMs, () => this.#forPeople(() => this.#hosts.tell()));
    this.#sayToAll({ type: 'beat' });
  }

  /** Tells the other hosts what has happened on this one. When it returns, the system has the bytes. */
  tell(): void {
    if (this.#isOver) return;
    const { localRanks, hostname } = this.#options;
    // Before the departures: ranks also end because of a failure, and the others must hear of the failure first.
    const record = this.#hasToldFailure ? undefined : this.#block.failure();
    if (record !== undefined) {
      this.#hasToldFailure = true;
      this.#sayToAll({ type: 'failure', record: withHost(record, localRanks, hostname) });
    }
    for (const rank of localRanks) {
      const departure = this.#told.has(rank) ? undefined : this.#block.departureOf(rank, hostname);
      if (departure !== undefined) this.#tellDeparture(rank, departure);
    }
    if (this.#isLeaving && localRanks.every((rank) => this.#told.has(rank))) this.end();
  }

  /**
   * This rank has shut down: its process may end from now on. As long as it does not, the watch goes on for those
   * ranks of this host that have not left.
   */
  leave(): void {
    if (this.#isOver || this.#isLeaving) return;
    this.#isLeaving = true;
    // Before tell(), which may hang up.
    this.#sayToAll({ type: 'goodbye' });
    this.tell();
  }

  /** This process exits with `code`: others learn that rather than just that a connection ended. */
  exit(code: number): void {
    if (this.#isOver) return;
    const { rank, hostname } = this.#options;
    this.tell();
    if (!this.#told.has(rank) && this.#block.departureOf(rank, hostname) === undefined) {
      const lastWords = this.#block.lastWords(rank);
      const departure = { host: hostname, pid: process.pid, hasLeft: false, exit: { code }, lastWords };
      this.#tellDeparture(rank, departure);
    }
    this.leave();
  }

  /** Hangs up. Without a leave() before it the others take it for a death. */
  end(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#timelines.close();
    this.#hosts.close();
    for (const timer of this.#timers) clearInterval(timer);
    this.#silence.stop();
    this.#listener.close();
    const hangUps = this.#links.map(({ socket }) => hangUp(socket));
    this.#block.close();
    void Promise.all(hangUps).then(() => this.#resolveOver());
  }

  #link(host: WatchedHost, connection: Connection): Link {
    const { socket, accepted, address } = connection;
    const frames = new SealedFrames(connection.keysFor('frames'), maxFrameBytes);
    const link: Link = { host, socket, frames, held: accepted ? [] : undefined, state: 'open' };
    let why = '';
    socket.on('error', (error: NodeJS.ErrnoException) => {
      why = ` (${error.code ?? error.message})`;
    });
    socket.once('close', () => {
      if (!frames.isWhole && why === '') why = ' (in the middle of a message)';
      this.#onEnd(link, why);
    });
    socket.on('data', (piece) => {
      this.#silence.heard(link);
      try {
        const bytes = link.held === undefined ? piece : this.#release(link, piece);
        for (const body of frames.open(bytes)) this.#hear(link, parseMessage(body));
      } catch (error) {
        why = ' (it sent an invalid message)';
        if (error instanceof TamperedFrame) this.#onTampered(link, address, error);
        socket.destroy();
      }
    });
    socket.resume();
    this.#silence.heard(link);
    if (!accepted) socket.write(Buffer.from([readyByte]));
    return link;
  }

  /** The first byte of an accepted connection: now it may be written to. */
  #release(link: Link, piece: Buffer): Buffer {
    if (piece[0] !== readyByte) throw new Error('no ready byte');
    const held = link.held ?? [];
    link.held = undefined;
    for (const text of held) link.socket.write(link.frames.seal(text));
    return piece.subarray(1);
  }

  #hear(link: Link, message: WatchMessage): void {
    if (this.#isOver) return;
    switch (message.type) {
      case 'beat':
        return;
      case 'goodbye':
        if (link.state === 'open') link.state = 'departing';
        return;
      case 'departure':
        // A watch speaks of the ranks of its own host.
        if (link.host.ranks.includes(message.rank)) this.#block.mirror(message.rank, message.departure);
        return;
      case 'failure':
        this.#block.fail(message.record);
        return;
      case 'status':
        if (link.host.ranks.includes(message.rank)) this.#forPeople(() => this.#statuses.hear(message));
        return;
      case 'host':
        if (link.host.ranks.includes(message.rank)) this.#forPeople(() => this.#hosts.hear(message));
        return;
      case 'collect':
      case 'events':
      case 'clock?':
      case 'clock':
        this.#forPeople(() => this.#timelines.hear(link.host.rank, link.host.ranks, message));
        return;
      default:
        message satisfies never;
    }
  }

  /** Status and timelines are for people: an error there (memory is full, say) ends them and not the job. */
  #forPeople(act: () => void): void {
    if (this.#isBlind) return;
    try {
      act();
    } catch {
      this.#isBlind = true;
    }
  }

  /** At once, whatever the main thread does. */
  #warn(text: string): void {
    const { logStyle, rank, hostname } = this.#options;
    if (logStyle === undefined) return;
    const sink = (line: string) => void writeSync(2, `${line}\n`);
    createLog(logStyle, rank, { sink }).write('warning', `${hostname}: ${text}`);
  }

  #onEnd(link: Link, why: string): void {
    const { host } = link;
    const isExpected = link.state === 'departing';
    link.state = 'over';
    if (isExpected || this.#isOver) return;
    this.#fail(
      host,
      `the connection to ${describeHost(host)} ended without a goodbye${why}: the process of rank ${host.rank}, ` +
        'or its machine, died. The output of that rank or the system log of that machine may say why.',
    );
  }

  #onTampered(link: Link, address: string, frame: TamperedFrame): void {
    if (this.#isOver || link.state === 'over') return;
    link.state = 'departing';
    const { rank } = link.host;
    const { code, detail } = tamperedError(`${describeHost(link.host)} at ${address}`, frame);
    this.#block.fail({ code, message: detail, rank });
    this.tell();
  }

  #onSilence(link: Link): void {
    if (link.state !== 'open') return;
    link.state = 'departing';
    const { hostname, peerTimeoutMs } = this.#options;
    this.#fail(
      link.host,
      `${describeHost(link.host)} has not been heard for ${inSeconds(peerTimeoutMs)}: the machine is frozen, or its ` +
        `network is cut. Look at ${link.host.hostname} and the network between it and ${hostname}; ` +
        'HOROVOD_PEER_TIMEOUT_SECONDS allows for longer silence.',
    );
  }

  #fail({ rank }: WatchedHost, message: string): void {
    this.#block.fail({ code: 'ERR_HVD_PEER_LOST', message, rank });
    // At once: the others, and the lost one should it come back, need not find out by themselves.
    this.tell();
  }

  #tellDeparture(rank: number, departure: Departure): void {
    this.#told.add(rank);
    this.#sayToAll({ type: 'departure', rank, departure });
  }

  #canSay(peer: number): boolean {
    const link = this.#links.find(({ host }) => host.rank === peer);
    if (link === undefined || link.state === 'over' || link.held !== undefined) return false;
    return link.socket.writable && link.socket.writableLength < unsentNewsLimitBytes;
  }

  /** Nothing where #canSay() is false. */
  #say(peer: number, message: WatchMessage): void {
    if (!this.#canSay(peer)) return;
    const link = this.#links.find(({ host }) => host.rank === peer);
    link?.socket.write(link.frames.seal(encodeMessage(message)));
  }

  #sayToAll(message: WatchMessage): void {
    const text = encodeMessage(message);
    const isNews = message.type === 'status' || message.type === 'host';
    const limitBytes = isNews ? unsentNewsLimitBytes : unsentLimitBytes;
    for (const { socket, frames, held, state } of this.#links) {
      if (held === undefined) {
        if (state !== 'over' && socket.writable && socket.writableLength < limitBytes)
          socket.write(frames.seal(text));
      } else if (!isNews) held.push(text);
    }
  }

  #every(periodMs: number, action: () => void): void {
    this.#timers.push(setInterval(action, periodMs));
  }
}

/** Adds the host to 'rank 3 (pid 5) was killed …': on other hosts a pid alone would mislead. */
function withHost(record: FailureRecord, localRanks: readonly number[], hostname: string): FailureRecord {
  const { rank, message } = record;
  if (rank === undefined || !localRanks.includes(rank)) return record;
  return { ...record, message: message.replace(/^(rank \d+ \(pid \d+)\)/, `$1 on ${hostname})`) };
}

/** 'host2 (ranks 2, 3)' */
function describeHost({ hostname, ranks }: WatchedHost): string {
  const shown = ranks.length > 16 ? [...ranks.slice(0, 15), '…', ranks.at(-1)] : ranks;
  return `${hostname} (${ranks.length === 1 ? 'rank' : 'ranks'} ${shown.join(', ')})`;
}

/** Sends what is to be sent, and does not wait for ever for the other side to close as well. */
function hangUp(socket: Socket): Promise<void> {
  return new Promise((resolve) => {
    if (socket.closed) {
      resolve();
      return;
    }
    const patience = setTimeout(() => socket.destroy(), farewellMs);
    socket.once('close', () => {
      clearTimeout(patience);
      resolve();
    });
    socket.end();
  });
}
