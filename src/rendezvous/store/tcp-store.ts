// A rank's side of the store: one connection to the launcher, or to the rank that serves the store where there is no
// launcher. It keeps the process alive only while somebody waits for an answer.

import type { Socket } from 'node:net';
import { HorovodError } from '../../errors.ts';
import { parseAddresses } from '../../net/addresses.ts';
import type { Connection } from '../../net/connection.ts';
import { ProtocolError } from '../../net/frames.ts';
import type { Identity } from '../../net/handshake.ts';
import { SealedFrames, TamperedFrame, tamperedError } from '../../net/sealed-frames.ts';
import { type WaitOptions, waitFor } from '../../net/wait.ts';
import { connectToStore } from './connect.ts';
import {
  decodeFailure,
  encodeMessage,
  maxFrameBytes,
  maxKeyLength,
  parseResponse,
  type Request,
  type Response,
  type StoreChannel,
} from './messages.ts';
import type { Store, StoreWait } from './store.ts';

export interface TcpStoreOptions extends Identity {
  /** host:port of the launcher, or a list of candidates with commas between. */
  readonly address: string;
  readonly rank: number;
  /** Default: ''. */
  readonly channel?: StoreChannel;
  /** What the server is called in error texts; 'the launcher' unless given. */
  readonly server?: string;
  /** What this process is called in error texts; 'rank 3' unless given. */
  readonly client?: string;
  /** Where a rank serves the store: its end is the loss of that rank. */
  readonly serverRank?: number;
  /** Whether the server may be started after us. */
  readonly mayComeLater?: boolean;
  /** What to do if there is no connection, in error texts; what helps ranks of a job unless given. */
  readonly advice?: string | undefined;
  /** Called once when the connection is lost, and not when it is closed. */
  readonly onLost?: (error: HorovodError) => void;
  /** For connecting and the challenge. */
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal | undefined;
}

interface Pending {
  readonly resolve: (value: string) => void;
  readonly reject: (error: HorovodError) => void;
}

/** A connection that is being closed is cut off after this long. */
const goodbyeMs = 1000;

export class TcpStore implements Store {
  readonly #socket: Socket;
  readonly #frames: SealedFrames;
  readonly #who: string;
  readonly #pending = new Map<number, Pending>();
  #nextId = 0;
  readonly #onLost: ((error: HorovodError) => void) | undefined;
  #end: HorovodError | undefined;

  private constructor(connection: Connection, server: string, client: string, options: TcpStoreOptions) {
    const { serverRank } = options;
    this.#onLost = options.onLost;
    const { socket, address } = connection;
    this.#socket = socket;
    this.#frames = new SealedFrames(connection.keysFor('frames'), maxFrameBytes);
    this.#who = `${server} at ${address}`;
    socket.on('data', (piece) => {
      try {
        for (const body of this.#frames.open(piece)) this.#receive(parseResponse(body));
      } catch (error) {
        if (!(error instanceof ProtocolError)) throw error;
        if (error instanceof TamperedFrame) this.#finish(tamperedError(this.#who, error));
        else this.#finish(rendezvous(`${this.#who} sent ${error.message}, which is not an answer.`));
      }
    });
    const onGone = () => {
      const place = this.#frames.isWhole ? '' : ' in the middle of a message';
      const text = `${client} has lost its connection to ${this.#who}${place}: that process has ended.`;
      this.#finish(
        serverRank === undefined
          ? rendezvous(text)
          : new HorovodError('ERR_HVD_PEER_LOST', text, { rank: serverRank }),
      );
    };
    socket.on('close', onGone);
    socket.on('error', onGone);
    socket.unref();
    socket.resume();
  }

  /** Connects and proves the secret both ways; ERR_HVD_RENDEZVOUS says what was wrong, never the secret. */
  static async connect(options: TcpStoreOptions): Promise<TcpStore> {
    const { secret, jobId, rank, address, signal, timeoutMs = 30_000 } = options;
    const { server = 'the launcher', client = `rank ${rank}`, mayComeLater = false, channel = '' } = options;
    const { advice } = options;
    const addresses = address.split(',');
    if (parseAddresses(address) === undefined) {
      throw rendezvous(`"${address}" is not an address of ${server}. It should be host:port.`);
    }
    const identity = { secret, jobId };
    const wait = { signal, timeoutMs };
    const connection = await connectToStore({
      identity,
      rank,
      channel,
      addresses,
      server,
      client,
      mayComeLater,
      advice,
      ...wait,
    });
    return new TcpStore(connection, server, client, options);
  }

  async set(key: string, value: string, options: WaitOptions = {}): Promise<void> {
    await this.#request({ op: 'set', key, value }, `to write "${key}"`, options);
  }

  async get(key: string, options: StoreWait = {}): Promise<string> {
    const { from } = options;
    return this.#request(
      { op: 'get', key, ...(from === undefined ? {} : { from }) },
      `for "${key}"`,
      options,
    );
  }

  /** Asks whoever runs the server, where that answers calls. */
  async call(body: string, what: string, options: WaitOptions = {}): Promise<string> {
    return this.#request({ op: 'call', body }, what, options);
  }

  close(): void {
    if (this.#end !== undefined) return;
    // Gone in good order: one word before the connection ends.
    this.#send({ op: 'leave', id: this.#nextId++ });
    this.#socket.destroySoon();
    setTimeout(() => this.#socket.destroy(), goodbyeMs).unref();
    this.#end = new HorovodError('ERR_HVD_SHUT_DOWN', 'the store was closed.');
    this.#rejectAll(this.#end);
  }

  /** As if the process had been killed: for tests, and for a server that is silent. */
  closeAbruptly(): void {
    this.#finish(new HorovodError('ERR_HVD_SHUT_DOWN', 'the store was closed.'));
  }

  async #request(
    body:
      | { op: 'set'; key: string; value: string }
      | { op: 'get'; key: string; from?: number }
      | { op: 'call'; body: string },
    what: string,
    options: WaitOptions,
  ): Promise<string> {
    if (this.#end !== undefined) throw this.#end;
    if (body.op !== 'call' && (body.key.length === 0 || body.key.length > maxKeyLength)) {
      throw new HorovodError('ERR_HVD_INVALID_ARGUMENT', `a key has 1 to ${maxKeyLength} characters.`);
    }
    const id = this.#nextId++;
    const request = { ...body, id } as Request;
    if (Buffer.byteLength(encodeMessage(request)) > maxFrameBytes) {
      const long = body.op === 'call' ? 'a call' : `the value of "${body.key}"`;
      throw new HorovodError('ERR_HVD_INVALID_ARGUMENT', `${long} is too long.`);
    }
    try {
      return await waitFor<string>(
        (resolve, reject) => {
          this.#pending.set(id, { resolve, reject });
          this.#socket.ref();
          this.#send(request);
        },
        `${what} at ${this.#who}`,
        options,
      );
    } finally {
      // Still there: a deadline or a signal came first.
      if (this.#pending.delete(id) && this.#end === undefined) this.#send({ op: 'cancel', id });
      if (this.#pending.size === 0) this.#socket.unref();
    }
  }

  #send(request: Request): void {
    this.#socket.write(this.#frames.seal(encodeMessage(request)));
  }

  #receive(response: Response): void {
    const pending = this.#pending.get(response.id);
    // An answer that crossed our cancel.
    if (pending === undefined) return;
    this.#pending.delete(response.id);
    if (response.op === 'failed') pending.reject(decodeFailure(response.failure));
    else pending.resolve(response.op === 'value' ? response.value : '');
  }

  #finish(error: HorovodError): void {
    if (this.#end !== undefined) return;
    this.#end = error;
    this.#socket.destroy();
    this.#rejectAll(error);
    this.#onLost?.(error);
  }

  #rejectAll(error: HorovodError): void {
    for (const pending of this.#pending.values()) pending.reject(error);
    this.#pending.clear();
  }
}

function rendezvous(message: string, cause?: unknown): HorovodError {
  return new HorovodError('ERR_HVD_RENDEZVOUS', message, { cause });
}
