// One connection to one rank: its candidate addresses one after the other, each as soon as the one before has failed or
// has not led to anything for a moment, so that soon all are tried at the same time. The first whose listener proves to
// be that rank is taken, the others are hung up. What fails is tried again until it is cancelled; what was seen at each
// address is kept for the error text.

import { createConnection, type Socket } from 'node:net';
import { parseAddress } from '../addresses.ts';
import {
  channelDigest,
  createMeshAnswer,
  doneByte,
  isMeshHelloStart,
  type MeshIdentity,
  meshHelloBytes,
  meshVerdictBytes,
  readMeshVerdict,
  takenByte,
} from './handshake.ts';
import { createMeshSocket, type MeshSocket, stopAtThisByte } from './mesh-socket.ts';

export interface DialOptions {
  readonly identity: MeshIdentity;
  readonly channel: string;
  readonly rank: number;
  readonly wanted: number;
  readonly candidates: readonly string[];
  readonly onSocket: (socket: MeshSocket) => void;
  /** For one address, from the first packet to the proof. */
  readonly attemptTimeoutMs?: number;
}

/** Long enough for most, so that a crowd of ranks does not try every address of everybody. */
const staggerMs = 100;
const retryMs = { first: 50, longest: 1000 };
const candidateLimit = 64;

export class Dial {
  readonly #options: DialOptions;
  readonly #digest: Buffer;
  readonly #attemptTimeoutMs: number;
  readonly #outcomes = new Map<string, string>();
  readonly #timers = new Set<NodeJS.Timeout>();
  readonly #sockets = new Set<Socket>();
  #started = 0;
  #taken: string | undefined;
  #isOver = false;

  constructor(options: DialOptions) {
    this.#options = options;
    this.#digest = channelDigest(options.identity, options.channel);
    this.#attemptTimeoutMs = options.attemptTimeoutMs ?? 5000;
    this.#startAll();
  }

  /** What was seen: 'tried 10.0.0.2:4000 (no answer in 5 s), …'. */
  describe(): string {
    if (this.#taken !== undefined)
      return `it answers at ${this.#taken}, but has not come as far as this rank`;
    const tried = this.#options.candidates.map(
      (candidate) => `${candidate} (${this.#outcomes.get(candidate) ?? 'no answer yet'})`,
    );
    return tried.length === 0 ? 'it has told no address' : `tried ${tried.join(', ')}`;
  }

  /** The other side has proven to be the one, and has not asked for the channel yet. */
  hasAnswered(): boolean {
    return this.#taken !== undefined;
  }

  /** Hangs up whatever was not handed out. */
  cancel(): void {
    this.#isOver = true;
    this.#clear();
  }

  #startAll(): void {
    this.#taken = undefined;
    this.#started = 0;
    this.#startNext(0);
  }

  /** Starts the candidate at `place`, unless that has happened already. */
  #startNext(place: number): void {
    const candidate = this.#options.candidates[place];
    if (place !== this.#started || candidate === undefined || place >= candidateLimit) return;
    this.#started = place + 1;
    this.#later(staggerMs, () => this.#startNext(place + 1));
    this.#attempt(candidate, retryMs.first, () => this.#startNext(place + 1));
  }

  #attempt(candidate: string, nextDelayMs: number, onFailure?: () => void): void {
    const address = parseAddress(candidate);
    if (address === undefined) {
      this.#outcomes.set(candidate, 'this is no address');
      onFailure?.();
      return;
    }
    const { identity, rank, wanted } = this.#options;
    // autoSelectFamily would start attempts of its own; a candidate is one address.
    const socket = createConnection({ ...address, noDelay: true, autoSelectFamily: false });
    this.#sockets.add(socket);
    let isTaken = false;
    const fail = (outcome: string) => {
      if (!this.#sockets.delete(socket)) return;
      clearTimeout(deadline);
      socket.destroy();
      this.#outcomes.set(candidate, outcome);
      if (this.#isOver) return;
      // The connection we had settled on is gone: from the start, with all addresses.
      if (isTaken) this.#later(retryMs.first, () => this.#startAll());
      else {
        const delayMs = Math.min(nextDelayMs * 2, retryMs.longest);
        this.#later(nextDelayMs, () => this.#attempt(candidate, delayMs));
        onFailure?.();
      }
    };
    const seconds = Number((this.#attemptTimeoutMs / 1000).toFixed(1));
    const deadline = setTimeout(() => fail(`no answer in ${seconds} s`), this.#attemptTimeoutMs);
    this.#timers.add(deadline);
    let received: Buffer = Buffer.alloc(0);
    let exchange: { hello: Buffer; answer: Buffer } | undefined;
    socket.on('error', (error: NodeJS.ErrnoException) => fail(describeError(error)));
    socket.once('close', () => fail('it hung up'));
    const onData = (piece: Buffer) => {
      received = Buffer.concat([received, piece]);
      const expected = isTaken ? 1 : exchange === undefined ? meshHelloBytes : meshVerdictBytes;
      const isOurs = received.length <= expected && (exchange !== undefined || isMeshHelloStart(received));
      if (!isOurs) fail('refused: somebody else answers there');
      if (!isOurs || received.length < expected) return;
      const message = received;
      received = Buffer.alloc(0);
      if (isTaken) {
        if (message[0] !== doneByte) {
          fail('it does not speak our protocol');
          return;
        }
        socket.off('data', onData);
        stopAtThisByte(socket);
        this.#sockets.delete(socket);
        this.#isOver = true;
        this.#clear();
        this.#options.onSocket(createMeshSocket(socket, false, candidate));
      } else if (exchange === undefined) {
        const answer = createMeshAnswer(identity, { rank, wanted, channel: this.#digest }, message);
        exchange = { hello: message, answer };
        socket.write(answer);
      } else {
        const verdict = readMeshVerdict(identity, exchange.hello, exchange.answer, message);
        if (verdict.kind === 'stranger') fail('refused: another job, or somebody else, answers there');
        else if (verdict.kind === 'other rank') {
          fail(verdict.rank === rank ? 'that is this rank itself' : `rank ${verdict.rank} answers there`);
        } else {
          isTaken = true;
          clearTimeout(deadline);
          // This is the one: the other attempts end, and the other side may take its time.
          this.#sockets.delete(socket);
          this.#clear();
          this.#sockets.add(socket);
          this.#taken = candidate;
          socket.write(Buffer.from([takenByte]));
        }
      }
    };
    socket.on('data', onData);
  }

  #later(delayMs: number, action: () => void): void {
    const timer = setTimeout(() => {
      this.#timers.delete(timer);
      action();
    }, delayMs);
    this.#timers.add(timer);
  }

  #clear(): void {
    for (const timer of this.#timers) clearTimeout(timer);
    this.#timers.clear();
    const sockets = [...this.#sockets];
    this.#sockets.clear();
    for (const socket of sockets) socket.destroy();
  }
}

function describeError({ code, message }: NodeJS.ErrnoException): string {
  switch (code) {
    case 'ECONNREFUSED':
      return 'nobody listens there';
    case 'EHOSTUNREACH':
    case 'ENETUNREACH':
      return 'no way to that address';
    case 'ETIMEDOUT':
      return 'no answer';
    case 'ECONNRESET':
    case 'EPIPE':
      return 'it hung up';
    default:
      return code ?? message;
  }
}
