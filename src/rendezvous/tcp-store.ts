// A rank's side of the store: one connection to the launcher. It keeps the process alive only while somebody
// waits for an answer.

import { createConnection, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { HorovodError } from '../errors.ts';
import {
  encodeFrame,
  FrameReader,
  longestKey,
  ProtocolError,
  parseResponse,
  type Request,
  type Response,
} from './frames.ts';
import { createAnswer, helloBytes, type Identity, readVerdict, verdictBytes } from './handshake.ts';
import type { Store, WaitOptions } from './store.ts';
import { waitFor } from './store-wait.ts';

export interface TcpStoreOptions extends Identity {
  /** host:port of the launcher. */
  readonly address: string;
  readonly rank: number;
  /** For connecting and the challenge. */
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal | undefined;
}

interface Pending {
  readonly resolve: (value: string) => void;
  readonly reject: (error: HorovodError) => void;
}

/** A connection that was closed before the verdict is tried again after this long, twice as long each time. */
const firstPauseMs = 5;
const longestPauseMs = 200;

export class TcpStore implements Store {
  readonly #socket: Socket;
  readonly #who: string;
  readonly #pending = new Map<number, Pending>();
  #nextId = 0;
  #end: HorovodError | undefined;

  private constructor(socket: Socket, options: TcpStoreOptions) {
    this.#socket = socket;
    this.#who = `the launcher at ${options.address}`;
    const reader = new FrameReader();
    socket.on('data', (piece) => {
      try {
        for (const text of reader.push(piece)) this.#receive(parseResponse(text));
      } catch (error) {
        if (!(error instanceof ProtocolError)) throw error;
        this.#finish(rendezvous(`${this.#who} sent what is no answer: ${error.message}.`));
      }
    });
    const onGone = () => {
      this.#finish(rendezvous(`rank ${options.rank} has lost the connection to ${this.#who}: it has ended.`));
    };
    socket.on('close', onGone);
    socket.on('error', onGone);
    socket.unref();
  }

  /** Connects and proves the secret both ways; ERR_HVD_RENDEZVOUS says what was wrong, never the secret. */
  static async connect(options: TcpStoreOptions): Promise<TcpStore> {
    const deadline = performance.now() + (options.timeoutMs ?? 30_000);
    for (let pauseMs = firstPauseMs; ; pauseMs = Math.min(2 * pauseMs, longestPauseMs)) {
      const timeoutMs = Math.max(0, deadline - performance.now());
      const socket = await attempt(options, timeoutMs);
      if (socket !== 'closed early') return new TcpStore(socket, options);
      // Pushed out by a flood of strangers, or the launcher is about to end: the next attempt tells.
      if (performance.now() + pauseMs >= deadline) throw tooLate(options);
      try {
        await sleep(pauseMs * (0.5 + Math.random()), undefined, { signal: options.signal });
      } catch {
        throw aborted(options);
      }
    }
  }

  async set(key: string, value: string, options: WaitOptions = {}): Promise<void> {
    await this.#request({ op: 'set', key, value }, `to write "${key}"`, options);
  }

  async get(key: string, options: WaitOptions = {}): Promise<string> {
    const { from } = options;
    return this.#request(
      { op: 'get', key, ...(from === undefined ? {} : { from }) },
      `for "${key}"`,
      options,
    );
  }

  close(): void {
    this.#finish(new HorovodError('ERR_HVD_SHUT_DOWN', 'the store was closed.'));
  }

  async #request(
    body: { op: 'set'; key: string; value: string } | { op: 'get'; key: string; from?: number },
    what: string,
    options: WaitOptions,
  ): Promise<string> {
    if (this.#end !== undefined) throw this.#end;
    if (body.key.length === 0 || body.key.length > longestKey) {
      throw new HorovodError('ERR_HVD_INVALID_ARGUMENT', `a key has 1 to ${longestKey} characters.`);
    }
    const id = this.#nextId++;
    let frame: Buffer;
    try {
      frame = encodeFrame({ ...body, id } as Request);
    } catch (error) {
      throw new HorovodError('ERR_HVD_INVALID_ARGUMENT', `the value of "${body.key}" is too long.`, {
        cause: error,
      });
    }
    try {
      return await waitFor<string>(
        (resolve, reject) => {
          this.#pending.set(id, { resolve, reject });
          this.#socket.ref();
          this.#socket.write(frame);
        },
        `${what} at ${this.#who}`,
        options,
      );
    } finally {
      // Still there: a deadline or a signal came first.
      if (this.#pending.delete(id) && this.#end === undefined)
        this.#socket.write(encodeFrame({ op: 'cancel', id }));
      if (this.#pending.size === 0) this.#socket.unref();
    }
  }

  #receive(response: Response): void {
    const pending = this.#pending.get(response.id);
    // An answer that crossed our cancel.
    if (pending === undefined) return;
    this.#pending.delete(response.id);
    if (response.op === 'failed') {
      const { code, message, ...details } = response.failure;
      pending.reject(new HorovodError(code, message, details));
    } else {
      pending.resolve(response.op === 'value' ? response.value : '');
    }
  }

  #finish(error: HorovodError): void {
    if (this.#end !== undefined) return;
    this.#end = error;
    this.#socket.destroy();
    for (const pending of this.#pending.values()) pending.reject(error);
    this.#pending.clear();
  }
}

/** One connection and its challenge. */
function attempt(options: TcpStoreOptions, timeoutMs: number): Promise<Socket | 'closed early'> {
  const { address, rank, signal } = options;
  const colon = address.lastIndexOf(':');
  const socket = createConnection({ host: address.slice(0, colon), port: Number(address.slice(colon + 1)) });
  socket.setNoDelay(true);
  let timer: NodeJS.Timeout | undefined;
  let onAbort: (() => void) | undefined;
  const result = new Promise<Socket | 'closed early'>((resolve, reject) => {
    onAbort = () => reject(aborted(options));
    if (signal?.aborted) onAbort();
    signal?.addEventListener('abort', onAbort, { once: true });
    timer = setTimeout(() => reject(tooLate(options)), timeoutMs);
    socket.once('close', () => resolve('closed early'));
    socket.once('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'ECONNRESET' || error.code === 'EPIPE') resolve('closed early');
      else
        reject(rendezvous(`rank ${rank} cannot reach the launcher at ${address}: ${error.message}.`, error));
    });
    let received: Buffer = Buffer.alloc(0);
    let exchange: { hello: Buffer; answer: Buffer } | undefined;
    socket.on('data', (piece) => {
      received = Buffer.concat([received, piece]);
      if (exchange === undefined && received.length >= helloBytes) {
        const hello = received.subarray(0, helloBytes);
        received = received.subarray(helloBytes);
        const answer = createAnswer(options, rank, hello);
        if (answer === undefined) {
          reject(rendezvous(`what listens at ${address} is no launcher of Horovod.`));
          return;
        }
        exchange = { hello, answer };
        socket.write(answer);
      }
      if (exchange === undefined || received.length < verdictBytes) return;
      const verdict = readVerdict(
        options,
        exchange.hello,
        exchange.answer,
        received.subarray(0, verdictBytes),
      );
      if (verdict === 'welcome' && received.length === verdictBytes) resolve(socket);
      else reject(refusal(verdict, options));
    });
  });
  return result.then(
    (outcome) => {
      cleanUp();
      return outcome;
    },
    (error: unknown) => {
      cleanUp();
      socket.destroy();
      throw error;
    },
  );

  function cleanUp(): void {
    clearTimeout(timer);
    if (onAbort !== undefined) signal?.removeEventListener('abort', onAbort);
    socket.removeAllListeners();
    // Whoever gets the socket adds his own; one that is being destroyed may still emit.
    socket.on('error', () => undefined);
  }
}

function refusal(verdict: string, { address, rank }: TcpStoreOptions): HorovodError {
  return verdict === 'refused'
    ? rendezvous(
        `the launcher at ${address} refused rank ${rank}: _HOROVOD_SECRET_KEY, HOROVOD_JOB_ID or HOROVOD_RANK is ` +
          'not of its job. Is the environment that of an earlier job, or was it changed by a wrapper script?',
      )
    : rendezvous(`what listens at ${address} does not know the secret of this job; rank ${rank} hung up.`);
}

function tooLate({ address, rank, timeoutMs }: TcpStoreOptions): HorovodError {
  return new HorovodError(
    'ERR_HVD_TIMEOUT',
    `rank ${rank} could not connect to the launcher at ${address} within ${(timeoutMs ?? 30_000) / 1000} s. ` +
      'Is horovodrun still running, and not stopped? (--start-timeout allows for more time.)',
  );
}

function aborted({ address, rank, signal }: TcpStoreOptions): HorovodError {
  const text = `connecting rank ${rank} to the launcher at ${address} was ended by an AbortSignal.`;
  return new HorovodError('ERR_HVD_ABORTED', text, { cause: signal?.reason });
}

function rendezvous(message: string, cause?: unknown): HorovodError {
  return new HorovodError('ERR_HVD_RENDEZVOUS', message, { cause });
}
