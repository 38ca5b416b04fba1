// The serving side of the store, in the launcher or in a rank.

import type { Socket } from 'node:net';
import { HorovodError } from '../../errors.ts';
import { FrameReader } from '../../net/frames.ts';
import type { Identity } from '../../net/handshake.ts';
import { Listener, type ListenerOptions } from '../../net/listener.ts';
import { MemoryStore } from './memory-store.ts';
import {
  encodeFailure,
  encodeMessage,
  maxFrameBytes,
  parseRequest,
  type Request,
  type Response,
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

export class TcpStoreServer {
  /** What the ranks see, for use within this process. */
  readonly store: MemoryStore = new MemoryStore();
  readonly #options: TcpStoreServerOptions;
  readonly #members = new Set<Socket>();
  #listener!: Listener;
  #isClosed = false;
  #waiting = 0;

  private constructor(options: TcpStoreServerOptions) {
    this.#options = options;
  }

  /** Rejects with the system's error (EADDRINUSE …) if it cannot listen. */
  static async start(options: TcpStoreServerOptions): Promise<TcpStoreServer> {
    const server = new TcpStoreServer(options);
    server.#listener = await Listener.open({
      ...options,
      listenOn: options.listenOn ?? 'loopback',
      purpose: 'store',
      number: 0,
      accepts: ({ from }) => from < options.ranks,
      onIncoming: ({ claim, accept }) => server.#serve(accept().socket, claim.from),
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

  #serve(socket: Socket, rank: number): void {
    // The listener keeps the process alive where that is wanted.
    socket.unref();
    this.#members.add(socket);
    const reader = new FrameReader(maxFrameBytes);
    const waits = new Map<number, AbortController>();
    let hasLeft = false;
    socket.once('close', () => {
      this.#members.delete(socket);
      for (const wait of waits.values()) wait.abort();
      if (!this.#isClosed) this.#options.onMemberGone?.(rank, hasLeft);
    });
    socket.on('data', (piece) => {
      try {
        for (const body of reader.push(piece)) {
          const request = parseRequest(body);
          hasLeft = request.op === 'leave';
          this.#options.onRequest?.();
          void this.#handle(request, socket, waits);
        }
      } catch {
        socket.destroy();
      }
    });
    socket.resume();
    this.#options.onMember?.(rank);
  }

  async #handle(request: Request, socket: Socket, waits: Map<number, AbortController>): Promise<void> {
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
      if (request.op === 'set') {
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
    if (!wait.signal.aborted && socket.writable) socket.write(encodeMessage(response));
  }
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
