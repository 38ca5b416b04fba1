// Where other processes of the job connect to this one. A stranger gets a challenge, a few bytes and a few seconds;
// strangers beyond a limit push out the oldest stranger, so that a flood of them leaves the door open for those of the
// job (one that is pushed out tries again).
//
// NOTE [Accept errors] A process that has no file descriptors left cannot accept. libuv then takes the connection with a
// reserved descriptor and closes it, and says nothing; dialers see that, and try again. So the listener looks by itself now
// and then whether a descriptor is left, and warns if not. Other errors of accept() come as events, and are warned of too.

import { closeSync, openSync } from 'node:fs';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { formatAddress, listCandidates } from './addresses.ts';
import { type Connection, handOver } from './connection.ts';
import { deriveKeys, type KeyUse } from './connection-keys.ts';
import {
  type Acceptance,
  challenge,
  converse,
  done,
  type Identity,
  type Purpose,
  type ReceivedClaim,
} from './handshake.ts';

export interface ListenerOptions extends Identity {
  readonly purpose: Purpose;
  /** Dialers ask for it: a rank, or 0 for a store. */
  readonly number: number;
  /** For a dialer that knows the secret. Default: 'yes' to all. */
  readonly accepts?: (claim: ReceivedClaim) => Acceptance;
  readonly onIncoming: (incoming: Incoming) => void;
  /** The interfaces that are listened on, or the address of one. Default: all. */
  readonly listenOn?: 'loopback' | 'all' | { readonly address: string } | undefined;
  /** Default: any free one. */
  readonly port?: number | undefined;
  /** Narrows `addresses`: names of interfaces, addresses or CIDR blocks. */
  readonly networkInterfaces?: readonly string[] | undefined;
  /** Connections that have not proven themselves yet. */
  readonly maxStrangers?: number | undefined;
  /** How long one has to do so. */
  readonly handshakeTimeoutMs?: number | undefined;
}

/** A connection of a dialer that has proven itself and waits until somebody here wants it. */
export interface Incoming {
  readonly claim: ReceivedClaim;
  readonly socket: Socket;
  accept(): Connection;
}

const checkEveryMs = 1000;
/** Between two warnings. */
const quietMs = 30_000;

export class Listener {
  readonly #options: ListenerOptions;
  readonly #server: Server;
  readonly #strangers = new Set<Socket>();
  readonly #check: NodeJS.Timeout;
  #isClosed = false;
  #warnedAt = Number.NEGATIVE_INFINITY;

  private constructor(options: ListenerOptions) {
    this.#options = options;
    this.#server = createServer({ noDelay: true }, (socket) => this.#greet(socket));
    this.#check = setInterval(() => this.#checkDescriptors(), checkEveryMs).unref();
  }

  /** Rejects with the system's error (EADDRINUSE …) if it cannot listen. */
  static async open(options: ListenerOptions): Promise<Listener> {
    const listener = new Listener(options);
    const server = listener.#server;
    const { listenOn = 'all', port = 0 } = options;
    await new Promise<void>((resolve, reject) => {
      server.once('error', (error) => {
        clearInterval(listener.#check);
        reject(error);
      });
      // Without a host Node takes '::', for both families, or 0.0.0.0 where there is no IPv6.
      server.listen(listenOn === 'all' ? { port } : { port, host: hostOf(listenOn) }, resolve);
    });
    // Later errors are those of accept(). Connections that are open stay open.
    server.removeAllListeners('error');
    server.on('error', (error) => listener.#warn(error));
    return listener;
  }

  get port(): number {
    return this.#address.port;
  }

  /** Under which others may reach it, the likely ones first and loopback last: '10.0.0.1:4000', '[fd00::1]:4000'. */
  get addresses(): string[] {
    const { port, family } = this.#address;
    const { listenOn = 'all', networkInterfaces } = this.#options;
    if (listenOn !== 'all') return [formatAddress({ host: hostOf(listenOn), port })];
    return listCandidates(port, networkInterfaces).filter(
      (each) => family === 'IPv6' || !each.startsWith('['),
    );
  }

  /** Whether it keeps this process alive; at first it does. */
  holdProcess(isHeld: boolean): void {
    if (isHeld) this.#server.ref();
    else this.#server.unref();
  }

  /** Connections that were accepted stay open. Twice is fine. */
  async close(): Promise<void> {
    this.#isClosed = true;
    clearInterval(this.#check);
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    for (const socket of this.#strangers) socket.destroy();
    await closed;
  }

  get #address(): AddressInfo {
    const address = this.#server.address();
    if (address === null || typeof address === 'string') throw new Error('the listener is closed');
    return address;
  }

  #checkDescriptors(): void {
    try {
      closeSync(openSync('/dev/null', 'r'));
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (code === 'EMFILE' || code === 'ENFILE') this.#warn(error as NodeJS.ErrnoException);
    }
  }

  #warn({ code, message }: NodeJS.ErrnoException): void {
    const now = performance.now();
    if (this.#isClosed || now - this.#warnedAt < quietMs) return;
    this.#warnedAt = now;
    const remedy =
      code === 'EMFILE'
        ? 'It has no file descriptors left: raise the limit (ulimit -n), or close files that it does not need.'
        : code === 'ENFILE'
          ? 'The machine has no file descriptors left: raise fs.file-max, or end programs that hold many files.'
          : 'Look at the memory and the limits of this machine.';
    process.emitWarning(
      `this process cannot accept connections of the job at port ${this.port} (${code ?? message}). ${remedy} ` +
        'Processes that connect try again until their start times out.',
      { type: 'HorovodWarning', code: 'HVD_ACCEPT' },
    );
  }

  #greet(socket: Socket): void {
    const { maxStrangers = 256, handshakeTimeoutMs = 5000 } = this.#options;
    if (this.#isClosed) {
      socket.destroy();
      return;
    }
    const [oldest] = this.#strangers;
    if (oldest !== undefined && this.#strangers.size >= maxStrangers) {
      this.#strangers.delete(oldest);
      oldest.destroy();
    }
    this.#strangers.add(socket);
    socket.unref();
    const deadline = setTimeout(() => socket.destroy(), handshakeTimeoutMs).unref();
    const forget = () => {
      clearTimeout(deadline);
      this.#strangers.delete(socket);
    };
    socket.on('error', () => socket.destroy());
    socket.once('close', forget);
    const { purpose, number, accepts } = this.#options;
    converse(socket, challenge(this.#options, purpose, number, accepts), (judgement) => {
      switch (judgement.kind) {
        case 'stranger':
          socket.destroy();
          return;
        case 'rejected':
          socket.end(judgement.farewell);
          // The deadline ends one that does not read, or does not close its side.
          socket.resume();
          return;
        case 'member': {
          forget();
          const { claim, transcript } = judgement;
          const keysFor = (use: KeyUse) => deriveKeys(this.#options, purpose, transcript, 'listener', use);
          this.#options.onIncoming({ claim, socket, accept: () => accept(socket, keysFor) });
        }
      }
    });
  }
}

function accept(socket: Socket, keysFor: Connection['keysFor']): Connection {
  const { remoteAddress = '', remotePort = 0 } = socket;
  // A listener for both families writes IPv4 so.
  const host = remoteAddress.replace(/^::ffff:(?=\d+\.)/, '');
  const address = formatAddress({ host, port: remotePort });
  const connection = handOver(socket, { accepted: true, address, keysFor });
  socket.write(done);
  socket.ref();
  return connection;
}

function hostOf(listenOn: 'loopback' | { readonly address: string }): string {
  return listenOn === 'loopback' ? '127.0.0.1' : listenOn.address;
}
