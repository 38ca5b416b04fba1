// The serving side of the store, in the launcher or in a rank: a TCP server. A stranger gets a challenge, a few
// bytes and a few seconds; strangers beyond a limit push out the oldest stranger, so that a flood of them leaves
// the door open for the ranks (a rank pushed out tries again).

import { createServer, type Server, type Socket } from 'node:net';
import { HorovodError } from '../../errors.ts';
import { formatAddress, listCandidates } from '../../net/addresses.ts';
import { FrameReader } from '../../net/frames.ts';
import { answerBytes, createHello, type Identity, judgeAnswer } from '../../net/handshake.ts';
import { MemoryStore } from './memory-store.ts';
import {
  encodeFailure,
  encodeMessage,
  maxFrameBytes,
  parseRequest,
  type Request,
  type Response,
} from './messages.ts';

export interface TcpStoreServerOptions extends Identity {
  readonly ranks: number;
  /** The interfaces that are listened on, or the address of one; 'loopback' unless given. */
  readonly listenOn?: 'loopback' | 'all' | { readonly address: string };
  /** Any free one unless given. */
  readonly port?: number;
  /** Narrows `addresses`: names of interfaces, addresses or CIDR blocks. */
  readonly networkInterfaces?: readonly string[];
  /** The first request of a connection that has proven itself; the number is the one it proved to have. */
  readonly onMember?: (rank: number) => void;
  readonly onRequest?: () => void;
  /** The end of such a connection; `hasLeft` is false if it came without a word. */
  readonly onMemberGone?: (rank: number, hasLeft: boolean) => void;
  /** Connections that have not proven themselves yet. */
  readonly strangerLimit?: number;
  /** How long one has to do so. */
  readonly handshakeTimeoutMs?: number;
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
  readonly #options: TcpStoreServerOptions & { strangerLimit: number; handshakeTimeoutMs: number };
  readonly #server: Server;
  readonly #strangers = new Set<Socket>();
  readonly #members = new Set<Socket>();
  #isClosed = false;
  #waiting = 0;
  #holdsSockets = true;

  private constructor(options: TcpStoreServerOptions) {
    this.#options = { strangerLimit: 64, handshakeTimeoutMs: 5000, ...options };
    this.#server = createServer((socket) => this.#greet(socket));
  }

  static async start(options: TcpStoreServerOptions): Promise<TcpStoreServer> {
    const server = new TcpStoreServer(options);
    await new Promise<void>((resolve, reject) => {
      server.#server.once('error', reject);
      const { listenOn = 'loopback', port = 0 } = options;
      const host = listenOn === 'loopback' ? '127.0.0.1' : listenOn === 'all' ? undefined : listenOn.address;
      // Without a host Node takes '::', for both families, or 0.0.0.0 where there is no IPv6.
      server.#server.listen({ port, ...(host === undefined ? {} : { host }) }, resolve);
    });
    // Later errors are those of accept(), for example no descriptors left: the ranks connected stay connected.
    server.#server.on('error', () => undefined);
    return server;
  }

  get port(): number {
    const address = this.#server.address();
    if (address === null || typeof address === 'string') throw new Error('the server is closed');
    return address.port;
  }

  /** The addresses under which a rank may reach it, loopback last. */
  get addresses(): string[] {
    const { port } = this;
    const { listenOn = 'loopback', networkInterfaces } = this.#options;
    if (listenOn === 'all') return listCandidates(port, networkInterfaces);
    return [formatAddress({ host: listenOn === 'loopback' ? '127.0.0.1' : listenOn.address, port })];
  }

  /** The same as one text, for HOROVOD_RENDEZVOUS_ADDR. */
  get address(): string {
    return this.addresses.join(',');
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
    this.#holdsSockets = false;
    for (const socket of [...this.#strangers, ...this.#members]) socket.unref();
    if (isHeld) this.#server.ref();
    else this.#server.unref();
  }

  /** A rank died: whoever waits for it, or, unless it ended well, for anything, learns it at once. */
  rankLost(rank: number, loss: RankLoss): void {
    const error = lossError('ERR_HVD_PEER_LOST', rank, loss, 'before all ranks had come together.');
    // One that ended well may just not take part, init({ ranks }): only who waits for it has to know.
    if (loss.exitCode === 0) this.store.rankLost(rank, error);
    else this.store.fail(error);
  }

  /** A rank has gone in good order: only who waits for that rank itself is told. */
  rankLeft(rank: number, loss: RankLoss): void {
    this.store.rankLost(
      rank,
      lossError('ERR_HVD_SHUT_DOWN', rank, loss, 'and takes part in nothing any more.'),
    );
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.store.close();
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    for (const socket of [...this.#strangers, ...this.#members]) socket.destroy();
    await closed;
  }

  #greet(socket: Socket): void {
    if (!this.#holdsSockets) socket.unref();
    if (this.#strangers.size >= this.#options.strangerLimit) {
      const [oldest] = this.#strangers;
      oldest?.destroy();
      if (oldest !== undefined) this.#strangers.delete(oldest);
    }
    this.#strangers.add(socket);
    const hello = createHello();
    const pieces: Buffer[] = [];
    let bytes = 0;
    const deadline = setTimeout(() => socket.destroy(), this.#options.handshakeTimeoutMs);
    socket.setNoDelay(true);
    socket.on('error', () => socket.destroy());
    socket.once('close', () => {
      clearTimeout(deadline);
      this.#strangers.delete(socket);
    });
    socket.write(hello);
    const onData = (piece: Buffer) => {
      bytes += piece.length;
      // A client waits for the verdict before it says more: whoever says more is none.
      if (bytes > answerBytes) {
        socket.destroy();
        return;
      }
      pieces.push(piece);
      if (bytes < answerBytes) return;
      socket.off('data', onData);
      clearTimeout(deadline);
      this.#strangers.delete(socket);
      const { ranks } = this.#options;
      const { rank, verdict } = judgeAnswer(this.#options, hello, Buffer.concat(pieces), ranks);
      if (rank === undefined) {
        socket.end(verdict);
        // A stranger that does not read or does not close its side is not waited for.
        const patience = setTimeout(() => socket.destroy(), 1000);
        socket.once('close', () => clearTimeout(patience));
        socket.resume();
        return;
      }
      socket.write(verdict);
      this.#serve(socket, rank);
    };
    socket.on('data', onData);
  }

  #serve(socket: Socket, rank: number): void {
    this.#members.add(socket);
    const reader = new FrameReader(maxFrameBytes);
    const waits = new Map<number, AbortController>();
    // A client that tries several addresses drops those it does not need before it says anything.
    let state: 'quiet' | 'speaking' | 'left' = 'quiet';
    socket.once('close', () => {
      this.#members.delete(socket);
      for (const wait of waits.values()) wait.abort();
      if (state !== 'quiet' && !this.#isClosed) this.#options.onMemberGone?.(rank, state === 'left');
    });
    socket.on('data', (piece) => {
      try {
        for (const body of reader.push(piece)) {
          const request = parseRequest(body);
          if (state === 'quiet') this.#options.onMember?.(rank);
          state = request.op === 'leave' ? 'left' : 'speaking';
          this.#options.onRequest?.();
          void this.#handle(request, socket, waits);
        }
      } catch {
        socket.destroy();
      }
    });
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
