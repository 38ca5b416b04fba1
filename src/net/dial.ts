// One connection to one listener that may be at several addresses: each is tried a little after the one before, so that
// soon all are tried at the same time. The first whose listener proves to be the right one is taken, the others are hung
// up. What fails is tried again until it is cancelled; what was seen at each address is kept for error texts.

import { createConnection, type Socket } from 'node:net';
import { parseAddress } from './addresses.ts';
import { type Connection, handOver } from './connection.ts';
import { deriveKeys, type KeyUse } from './connection-keys.ts';
import { type Claim, converse, type Identity, introduce, take, type Verdict } from './handshake.ts';
import { SocketReader } from './socket-reader.ts';
import { inSeconds } from './wait.ts';

export interface DialOptions {
  readonly identity: Identity;
  readonly claim: Claim;
  /** host:port, in the order in which they are tried. */
  readonly addresses: readonly string[];
  readonly onConnection: (connection: Connection) => void;
  /** Something new was seen at an address. */
  readonly onSight?: () => void;
  /** For one address, from the first packet to the proof. */
  readonly attemptTimeoutMs?: number | undefined;
  /** The owner reads into memory of its own, with the `reader` of the connection. */
  readonly hasReader?: boolean | undefined;
}

/** What was seen at an address. */
export type Sight =
  | Exclude<Verdict, { kind: 'welcome' }>
  | { readonly kind: 'silent' | 'closed' | 'invalid' }
  | { readonly kind: 'error'; readonly error: NodeJS.ErrnoException };

const staggerMs = 50;
const maxStaggerMs = 5000;
const firstPauseMs = 10;
/** The first few addresses are tried this often; each that follows less often, so that many ranks make no flood. */
const maxPauseMs = 200;
const eagerAddresses = 4;
const maxAddresses = 256;
const defaultAttemptTimeoutMs = 5000;

/**
 * How much a sight tells. A rejection says more than that nobody is there any more; a connection that was closed (pushed
 * out by a flood of strangers, or the listener is about to end) says less than anything seen before.
 */
const weights: Readonly<Record<Sight['kind'], number>> = {
  closed: 0,
  silent: 1,
  error: 1,
  invalid: 1,
  stranger: 2,
  impostor: 3,
  rejected: 3,
  other: 3,
  version: 3,
  taken: 3,
};

export class Dial {
  readonly #options: DialOptions;
  readonly #addresses: readonly string[];
  readonly #attemptTimeoutMs: number;
  readonly #sights = new Map<string, Sight>();
  readonly #timers = new Set<NodeJS.Timeout>();
  readonly #sockets = new Set<Socket>();
  #answeredAt: string | undefined;
  #isOver = false;

  constructor(options: DialOptions) {
    this.#options = options;
    this.#addresses = options.addresses.slice(0, maxAddresses);
    this.#attemptTimeoutMs = options.attemptTimeoutMs ?? defaultAttemptTimeoutMs;
    this.#startAll();
  }

  /** Of each address, in their order; undefined where nothing has been seen yet. */
  get sights(): readonly (Sight | undefined)[] {
    return this.#addresses.map((address) => this.#sights.get(address));
  }

  /** The other side has proven to be the right one, and its owner has not taken the connection yet. */
  get hasAnswered(): boolean {
    return this.#answeredAt !== undefined;
  }

  /** 'tried 10.0.0.2:4000, 10.1.0.2:4000 (no answer within 5 s); …' */
  describe(): string {
    if (this.#answeredAt !== undefined)
      return `it answers at ${this.#answeredAt}, but has not come as far as this rank`;
    const places = new Map<string, string[]>();
    for (const address of this.#addresses) {
      const seen = this.#describeSight(this.#sights.get(address));
      places.set(seen, [...(places.get(seen) ?? []), address]);
    }
    const tried = [...places].map(([seen, addresses]) => `${addresses.join(', ')} (${seen})`);
    return tried.length === 0 ? 'it has told no address' : `tried ${tried.join('; ')}`;
  }

  /** Hangs up whatever was not handed out. */
  cancel(): void {
    this.#isOver = true;
    this.#endAttempts();
  }

  #startAll(): void {
    this.#answeredAt = undefined;
    for (const [place, address] of this.#addresses.entries()) {
      const start = () => this.#attempt(address, place, firstPauseMs);
      this.#later(Math.min(place * staggerMs, maxStaggerMs), start);
    }
  }

  #attempt(address: string, place: number, pauseMs: number): void {
    const target = parseAddress(address);
    if (target === undefined) {
      this.#see(address, { kind: 'invalid' });
      return;
    }
    const { identity, claim, onConnection, hasReader = false } = this.#options;
    const reader = hasReader ? new SocketReader() : undefined;
    const socket = createConnection({
      ...target,
      noDelay: true,
      ...(reader === undefined ? {} : { onread: reader.onread }),
    });
    reader?.begin(socket);
    this.#sockets.add(socket);
    const fail = (sight: Sight) => {
      // Not there: it was handed out, or hung up by us.
      if (!this.#sockets.delete(socket)) return;
      clearTimeout(deadline);
      socket.destroy();
      if (this.#answeredAt === address) this.#later(firstPauseMs, () => this.#startAll());
      else {
        const nextPauseMs = Math.min(2 * pauseMs, maxPauseMs * Math.max(1, place / eagerAddresses));
        const again = () => this.#attempt(address, place, nextPauseMs);
        this.#later(pauseMs * (0.5 + Math.random()), again);
      }
      this.#see(address, sight);
    };
    const deadline = this.#later(this.#attemptTimeoutMs, () => fail({ kind: 'silent' }));
    socket.on('error', (error) => fail(toSight(error)));
    socket.once('close', () => fail({ kind: 'closed' }));
    converse(socket, introduce(identity, claim), (verdict) => {
      if (verdict.kind !== 'welcome') {
        fail(verdict);
        return;
      }
      // This is the one: the other attempts end, and the other side may take its time.
      this.#endAttempts(socket);
      this.#answeredAt = address;
      converse(socket, take(), ({ kind }) => {
        if (kind === 'stranger') {
          fail({ kind });
          return;
        }
        this.#sockets.delete(socket);
        this.cancel();
        const keysFor = (use: KeyUse) =>
          deriveKeys(identity, claim.purpose, verdict.transcript, 'dialer', use);
        onConnection(handOver(socket, { accepted: false, address, keysFor, reader }));
      });
    });
  }

  #see(address: string, sight: Sight): void {
    const before = this.#sights.get(address);
    if (before !== undefined && weights[sight.kind] < weights[before.kind]) return;
    this.#sights.set(address, sight);
    this.#options.onSight?.();
  }

  #later(delayMs: number, action: () => void): NodeJS.Timeout | undefined {
    if (this.#isOver) return undefined;
    const timer = setTimeout(() => {
      this.#timers.delete(timer);
      action();
    }, delayMs);
    this.#timers.add(timer);
    return timer;
  }

  #endAttempts(except?: Socket): void {
    for (const timer of this.#timers) clearTimeout(timer);
    this.#timers.clear();
    for (const socket of [...this.#sockets].filter((each) => each !== except)) {
      this.#sockets.delete(socket);
      socket.destroy();
    }
  }

  #describeSight(sight: Sight | undefined): string {
    const { claim } = this.#options;
    switch (sight?.kind) {
      case undefined:
        return 'no answer yet';
      case 'silent':
        return `no answer within ${inSeconds(this.#attemptTimeoutMs)}`;
      case 'closed':
        return 'it closed the connection at once; perhaps it has no file descriptors left (ulimit -n)';
      case 'invalid':
        return 'not an address';
      case 'error':
        return describeError(sight.error);
      case 'stranger':
        return 'another program is listening there';
      case 'rejected':
        return 'rejected: another job, or a different secret';
      case 'impostor':
        return 'what is listening there does not know the secret of this job';
      case 'version':
        return `another version of horovod, with protocol ${sight.theirs} (this process: ${sight.ours})`;
      case 'taken':
        return `rank ${claim.from} is connected there already`;
      case 'other':
        if (sight.number === claim.to) return `it does not know rank ${claim.from}`;
        return sight.number === claim.from ? 'this rank itself' : `rank ${sight.number} is listening there`;
    }
  }
}

function toSight(error: NodeJS.ErrnoException): Sight {
  const isClosed = error.code === 'ECONNRESET' || error.code === 'EPIPE';
  return isClosed ? { kind: 'closed' } : { kind: 'error', error };
}

function describeError({ code, message }: NodeJS.ErrnoException): string {
  switch (code) {
    case 'ECONNREFUSED':
      return 'nothing is listening there';
    case 'EHOSTUNREACH':
    case 'ENETUNREACH':
      return 'unreachable';
    case 'ENOTFOUND':
      return 'unknown host name';
    case 'ETIMEDOUT':
      return 'no answer';
    default:
      return code ?? message;
  }
}
