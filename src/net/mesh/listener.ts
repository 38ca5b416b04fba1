// Where other ranks of the job connect to this one: one listener for each process, on all interfaces. A stranger gets a
// challenge, a few bytes and a few seconds; strangers beyond a limit push out the oldest stranger (a rank pushed out
// tries again). A rank that connects for a channel nobody here has asked for yet is parked until somebody does.

import { createServer, type Server, type Socket } from 'node:net';
import { HorovodError } from '../../errors.ts';
import { formatAddress, listCandidates } from '../addresses.ts';
import {
  channelDigest,
  createMeshHello,
  doneByte,
  judgeMeshAnswer,
  type MeshClaim,
  type MeshIdentity,
  meshAnswerBytes,
  takenByte,
} from './handshake.ts';
import { createMeshSocket, type MeshSocket, stopAtThisByte } from './mesh-socket.ts';

export interface MeshListenerOptions extends MeshIdentity {
  readonly rank: number;
  /** Names or subnets of the interfaces whose addresses are told to others; all where left out. */
  readonly networkInterfaces?: readonly string[] | undefined;
  /** Connections that have not proven themselves yet. */
  readonly strangerLimit?: number;
  /** How long one has to do so. */
  readonly handshakeTimeoutMs?: number;
  /** Connections for channels nobody here has asked for yet, and how long they are kept. */
  readonly parkedLimit?: number;
  readonly parkedTimeoutMs?: number;
}

export class MeshListener {
  readonly rank: number;
  /** Where this process may be reached, the likely addresses first: '10.0.0.1:4000', '[fd00::1]:4000'. */
  readonly candidates: readonly string[];
  readonly identity: MeshIdentity;
  readonly #limits: {
    strangerLimit: number;
    handshakeTimeoutMs: number;
    parkedLimit: number;
    parkedTimeoutMs: number;
  };
  readonly #server: Server;
  readonly #strangers = new Set<Socket>();
  readonly #parked = new Map<string, { socket: Socket; unpark(): void }>();
  readonly #awaited = new Map<string, (socket: MeshSocket) => void>();
  #isClosed = false;

  private constructor(server: Server, options: MeshListenerOptions) {
    const { rank, secret, jobId } = options;
    this.rank = rank;
    this.identity = { secret, jobId };
    this.#limits = {
      strangerLimit: options.strangerLimit ?? 256,
      handshakeTimeoutMs: options.handshakeTimeoutMs ?? 5000,
      parkedLimit: options.parkedLimit ?? 4096,
      parkedTimeoutMs: options.parkedTimeoutMs ?? 60_000,
    };
    const address = server.address();
    if (address === null || typeof address === 'string') throw new Error('the server is closed');
    const candidates = listCandidates(address.port, options.networkInterfaces);
    this.candidates =
      address.family === 'IPv6' ? candidates : candidates.filter((candidate) => !candidate.startsWith('['));
    this.#server = server;
    // Errors of accept(), for example no descriptors left: who is connected stays connected.
    server.on('error', () => undefined);
    server.on('connection', (socket) => this.#greet(socket));
    server.unref();
  }

  static async open(options: MeshListenerOptions): Promise<MeshListener> {
    const server = await listenEverywhere();
    try {
      return new MeshListener(server, options);
    } catch (error) {
      server.close();
      throw error;
    }
  }

  /**
   * Hands the connection that `rank` makes for `channel` to `onSocket`, once; a later one replaces it as long as the
   * returned function, which ends the waiting, has not been called.
   */
  await(channel: string, rank: number, onSocket: (socket: MeshSocket) => void): () => void {
    const key = keyOf(rank, channelDigest(this.identity, channel));
    if (this.#awaited.has(key)) {
      throw new Error(`rank ${this.rank} waits for rank ${rank} on the channel "${channel}" already`);
    }
    this.#awaited.set(key, onSocket);
    const parked = this.#parked.get(key);
    if (parked !== undefined) {
      parked.unpark();
      this.#deliver(parked.socket, onSocket);
    }
    return () => {
      if (this.#awaited.get(key) === onSocket) this.#awaited.delete(key);
    };
  }

  /** Connections that wait for somebody here to ask for their channel. */
  get parked(): number {
    return this.#parked.size;
  }

  /** Connections that were handed out stay open. */
  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#server.close();
    for (const socket of this.#strangers) socket.destroy();
    for (const { socket } of this.#parked.values()) socket.destroy();
    this.#awaited.clear();
  }

  #greet(socket: Socket): void {
    if (this.#isClosed) {
      socket.destroy();
      return;
    }
    if (this.#strangers.size >= this.#limits.strangerLimit) {
      const [oldest] = this.#strangers;
      oldest?.destroy();
      if (oldest !== undefined) this.#strangers.delete(oldest);
    }
    this.#strangers.add(socket);
    socket.unref();
    socket.setNoDelay(true);
    const deadline = setTimeout(() => socket.destroy(), this.#limits.handshakeTimeoutMs);
    deadline.unref();
    const accepted = () => {
      clearTimeout(deadline);
      this.#strangers.delete(socket);
    };
    socket.on('error', () => socket.destroy());
    socket.once('close', accepted);
    const hello = createMeshHello();
    socket.write(hello);
    let received: Buffer = Buffer.alloc(0);
    let claim: MeshClaim | undefined;
    const onData = (piece: Buffer) => {
      received = Buffer.concat([received, piece]);
      // The dialer waits for the verdict before it says more: whoever says more is none.
      const expected = claim === undefined ? meshAnswerBytes : 1;
      if (received.length > expected) socket.destroy();
      if (received.length !== expected) return;
      if (claim !== undefined) {
        socket.off('data', onData);
        socket.off('close', accepted);
        accepted();
        if (received[0] === takenByte) this.#arrive(socket, claim);
        else socket.destroy();
        return;
      }
      const judged = judgeMeshAnswer(this.identity, this.rank, hello, received);
      received = Buffer.alloc(0);
      if (judged.claim === undefined) {
        socket.off('data', onData);
        socket.end(judged.verdict);
        // The deadline ends one that does not read, or does not close its side.
        socket.resume();
        return;
      }
      claim = judged.claim;
      socket.write(judged.verdict);
    };
    socket.on('data', onData);
  }

  #arrive(socket: Socket, claim: MeshClaim): void {
    const key = keyOf(claim.rank, claim.channel);
    const onSocket = this.#awaited.get(key);
    if (onSocket === undefined) this.#park(socket, key);
    else this.#deliver(socket, onSocket);
  }

  #park(socket: Socket, key: string): void {
    // A rank that comes again has lost its first connection.
    this.#parked.get(key)?.socket.destroy();
    if (this.#parked.size >= this.#limits.parkedLimit) {
      const [oldest] = this.#parked.values();
      oldest?.unpark();
      oldest?.socket.destroy();
    }
    const timer = setTimeout(() => socket.destroy(), this.#limits.parkedTimeoutMs);
    timer.unref();
    // It has to wait for 'done': whatever it says before is wrong, and an end is seen because we read.
    const onData = () => socket.destroy();
    const unpark = () => {
      clearTimeout(timer);
      socket.off('data', onData);
      socket.off('close', unpark);
      if (this.#parked.get(key)?.socket === socket) this.#parked.delete(key);
    };
    socket.on('data', onData);
    socket.once('close', unpark);
    this.#parked.set(key, { socket, unpark });
  }

  #deliver(socket: Socket, onSocket: (socket: MeshSocket) => void): void {
    stopAtThisByte(socket);
    socket.write(Buffer.from([doneByte]));
    socket.ref();
    onSocket(createMeshSocket(socket, true, remoteAddress(socket)));
  }
}

function remoteAddress({ remoteAddress = '', remotePort = 0 }: Socket): string {
  // A listener for both families writes IPv4 so.
  return formatAddress({ host: remoteAddress.replace(/^::ffff:(?=\d+\.)/, ''), port: remotePort });
}

function keyOf(rank: number, channel: Buffer): string {
  return `${rank} ${channel.toString('hex')}`;
}

/** IPv6 and IPv4 by one socket; IPv4 alone where the system has no IPv6. */
async function listenEverywhere(): Promise<Server> {
  let cause: unknown;
  for (const host of ['::', '0.0.0.0']) {
    const server = createServer({ noDelay: true });
    try {
      await new Promise<void>((resolve, reject) => {
        server.once('error', reject);
        server.listen({ host, port: 0, backlog: 511 }, () => {
          server.off('error', reject);
          resolve();
        });
      });
      return server;
    } catch (error) {
      cause = error;
    }
  }
  throw new HorovodError(
    'ERR_HVD_RENDEZVOUS',
    `this process cannot listen for the other ranks: ${(cause as Error).message}.`,
    { cause },
  );
}
