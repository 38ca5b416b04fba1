// The serving side of the store, in the launcher or in a rank. It answers members only: a client that knows the secret,
// has a number of the job, and is the only one with that number. (Two at a time with one number would be two processes with
// the same HOROVOD_RANK.) Frames are sealed; one that its sender has not sent fails the store, and so the start of the job.

import type { Socket } from 'node:net';
import { HorovodError } from '../../errors.ts';
import type { Connection } from '../../net/connection.ts';
import { type Acceptance, channelDigest, type Identity, type ReceivedClaim } from '../../net/handshake.ts';
import { Listener, type ListenerOptions } from '../../net/listener.ts';
import { SealedFrames, TamperedFrame, tamperedError } from '../../net/sealed-frames.ts';
import { MemoryStore } from './memory-store.ts';
import {
  encodeFailure,
  encodeMessage,
  maxFrameBytes,
  parseRequest,
  type Request,
  type Response,
  storeChannels,
} from './messages.ts';

export interface TcpStoreServerOptions
  extends Identity,
    Pick<ListenerOptions, 'port' | 'networkInterfaces' | 'maxStrangers' | 'handshakeTimeoutMs'> {
  readonly ranks: number;
  /** Default: 'loopback'. */
  readonly listenOn?: ListenerOptions['listenOn'];
  /** A client has connected; the number is the one it proved to have. */
  readonly onMember?: (rank: number) => void;
  readonly onRequest?: () => void;
  /** Whether a client may read and write a key. Default: every client every key. */
  readonly mayUse?: (rank: number, key: string) => boolean;
  /** Answers the calls of clients; without it they fail. The signal says that the client waits no longer. */
  readonly onCall?: (rank: number, body: string, signal: AbortSignal) => Promise<string>;
  /** The end of such a connection; `hasLeft` is false if it came without a goodbye. */
  readonly onMemberGone?: (rank: number, hasLeft: boolean) => void;
}

/** How a rank was lost, in words and as data. */
export interface RankLoss {
  /** Completes 'rank 1 (pid 4) …': 'exited with code 3'. */
  readonly how: string;
  /** Where there are several. */
  readonly host?: string | undefined;
  readonly pid?: number | undefined;
  readonly signal?: string | undefined;
  readonly exitCode?: number | undefined;
}

/** A connection that has proven itself. */
interface Client {
  readonly rank: number;
  readonly socket: Socket;
  readonly frames: SealedFrames;
  /** Its requests that wait, by id. */
  readonly waits: Map<number, AbortController>;
}

export class TcpStoreServer {
  /** What the ranks see, for use within this process. */
  readonly store: MemoryStore = new MemoryStore();
  readonly #options: TcpStoreServerOptions;
  readonly #members = new Set<Socket>();
  /** Of numbers that are in use. */
  readonly #taken = new Map<string, Socket>();
  readonly #channels: readonly string[];
  #listener!: Listener;
  #isClosed = false;
  #waiting = 0;

  private constructor(options: TcpStoreServerOptions) {
    this.#options = options;
    this.#channels = storeChannels.map((channel) => channelDigest(options, channel).toString('hex'));
  }

  /** Rejects with the system's error (EADDRINUSE …) if it cannot listen. */
  static async start(options: TcpStoreServerOptions): Promise<TcpStoreServer> {
    const server = new TcpStoreServer(options);
    server.#listener = await Listener.open({
      ...options,
      listenOn: options.listenOn ?? 'loopback',
      purpose: 'store',
      number: 0,
      accepts: (claim) => server.#judge(claim),
      onIncoming: ({ claim, accept, socket }) => {
        // Of two that came at the same time the first is served.
        if (server.#judge(claim) === 'yes') server.#serve(accept(), claim);
        else socket.destroy();
      },
    });
    return server;
  }

  /** The addresses under which a rank may reach it, loopback last. */
  get addresses(): string[] {
    return this.#listener.addresses;
  }

  /** The same as one text, for HOROVOD_RENDEZVOUS_ADDR. */
  get address(): string {
    return this.addresses.join(',');
  }

  get port(): number {
    return this.#listener.port;
  }

  /** Connections that have proven themselves and are open. */
  get members(): number {
    return this.#members.size;
  }

  /** Requests of members that wait for their answer. */
  get waiting(): number {
    return this.#waiting;
  }

  /** Ends the connections of a client that is not heard any more. */
  drop(rank: number): void {
    for (const channel of this.#channels) this.#taken.get(`${rank} ${channel}`)?.destroy();
  }

  /** Whether it keeps this process alive: the launcher's does, one in a rank only while others need it. */
  holdProcess(isHeld: boolean): void {
    this.#listener.holdProcess(isHeld);
  }

  /** A rank has ended: waits for it fail at once and, unless it exited with code 0, all other waits too. */
  rankLost(rank: number, loss: RankLoss): void {
    const error = lossError('ERR_HVD_PEER_LOST', rank, loss, 'before all ranks had come together.');
    // A rank that exited with code 0 may just not take part: init({ ranks }).
    if (loss.exitCode === 0) this.store.rankLost(rank, error);
    else this.store.fail(error);
  }

  /** A rank has shut down: only waits for that rank itself fail. */
  rankLeft(rank: number, loss: RankLoss): void {
    this.store.rankLost(
      rank,
      lossError('ERR_HVD_SHUT_DOWN', rank, loss, 'and no longer takes part in anything.'),
    );
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.store.close();
    for (const socket of this.#members) socket.destroy();
    await this.#listener.close();
  }

  #judge(claim: ReceivedClaim): Acceptance {
    const isKnown =
      claim.from < this.#options.ranks && this.#channels.includes(claim.channel.toString('hex'));
    if (!isKnown) return 'no';
    return this.#taken.has(keyOf(claim)) ? 'taken' : 'yes';
  }

  #serve(connection: Connection, claim: ReceivedClaim): void {
    const { socket, address } = connection;
    const { from: rank } = claim;
    const key = keyOf(claim);
    // The listener keeps the process alive where that is wanted.
    socket.unref();
    this.#members.add(socket);
    this.#taken.set(key, socket);
    const yieldNumber = () => {
      if (this.#taken.get(key) === socket) this.#taken.delete(key);
    };
    const frames = new SealedFrames(connection.keysFor('frames'), maxFrameBytes);
    const client: Client = { rank, socket, frames, waits: new Map() };
    let hasLeft = false;
    socket.once('close', () => {
      this.#members.delete(socket);
      yieldNumber();
      for (const wait of client.waits.values()) wait.abort();
      if (!this.#isClosed) this.#options.onMemberGone?.(rank, hasLeft);
    });
    socket.on('data', (piece) => {
      try {
        for (const body of frames.open(piece)) {
          const request = parseRequest(body);
          hasLeft = request.op === 'leave';
          // The number is free for the next connection of that process: init() after shutdown().
          if (hasLeft) yieldNumber();
          this.#options.onRequest?.();
          void this.#handle(request, client);
        }
      } catch (error) {
        hasLeft = false;
        if (error instanceof TamperedFrame)
          this.store.fail(tamperedError(`the client ${rank} of the store, at ${address},`, error));
        socket.destroy();
      }
    });
    socket.resume();
    this.#options.onMember?.(rank);
  }

  async #handle(request: Request, { rank, socket, frames, waits }: Client): Promise<void> {
    const { id } = request;
    if (request.op === 'leave') return;
    if (request.op === 'cancel') {
      waits.get(id)?.abort();
      return;
    }
    let response: Response;
    const wait = new AbortController();
    try {
      this.#waiting++;
      waits.set(id, wait);
      if (request.op === 'call') {
        response = { op: 'value', id, value: await this.#answer(rank, request.body, wait.signal) };
      } else if (this.#options.mayUse?.(rank, request.key) === false) {
        throw notAMember(request.key);
      } else if (request.op === 'set') {
        await this.store.set(request.key, request.value);
        response = { op: 'done', id };
      } else {
        const value = await this.store.get(request.key, { signal: wait.signal, from: request.from });
        response = { op: 'value', id, value };
      }
    } catch (error) {
      response = { op: 'failed', id, failure: encodeFailure(error) };
    } finally {
      this.#waiting--;
      waits.delete(id);
    }
    if (!wait.signal.aborted && socket.writable) socket.write(frames.seal(encodeMessage(response)));
  }

  async #answer(rank: number, body: string, signal: AbortSignal): Promise<string> {
    const { onCall } = this.#options;
    if (onCall === undefined) throw new HorovodError('ERR_HVD_RENDEZVOUS', 'this store answers no calls.');
    const value = await onCall(rank, body, signal);
    if (fits({ op: 'value', id: Number.MAX_SAFE_INTEGER, value })) return value;
    throw new HorovodError('ERR_HVD_RENDEZVOUS', `an answer of ${value.length} characters is too long.`);
  }
}

function fits(response: Response): boolean {
  return Buffer.byteLength(encodeMessage(response)) <= maxFrameBytes;
}

function keyOf({ from, channel }: ReceivedClaim): string {
  return `${from} ${channel.toString('hex')}`;
}

function notAMember(key: string): HorovodError {
  return new HorovodError('ERR_HVD_RENDEZVOUS', `"${key}" is for members of the job only.`);
}

function lossError(
  code: 'ERR_HVD_PEER_LOST' | 'ERR_HVD_SHUT_DOWN',
  rank: number,
  { how, host, ...details }: RankLoss,
  consequence: string,
): HorovodError {
  const on = host === undefined ? '' : ` on ${host}`;
  const who = details.pid === undefined ? `rank ${rank}${on}` : `rank ${rank} (pid ${details.pid}${on})`;
  return new HorovodError(code, `${who} ${how} ${consequence}`, { rank, ...details });
}
