// One request over node:http or node:https: the part that http.ts and webhdfs/ share. Not fetch(), which rejects the unasked
// `100 Continue` of HDFS datanodes. Connections are kept alive. A request fails when nothing has moved for `silenceMs`, and a body
// when it takes ten times as long. Failures name the host and never the URL: a query may hold a token.

import { Agent, type ClientRequest, type IncomingMessage, request as plainRequest } from 'node:http';
import { Agent as SecureAgent, request as secureRequest } from 'node:https';
import { HorovodError } from '../errors.ts';

export interface HttpRequest {
  readonly method: string;
  readonly url: URL;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  readonly body?: Uint8Array | undefined;
  readonly silenceMs: number;
  /** For a whole body, or the part of it that is asked for. Default: ten times `silenceMs`. */
  readonly bodyMs?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** The request got no answer, or not all of it: trying again may help. */
export class RequestFailure extends Error {
  readonly host: string;
  /** Whether the host was never reached, so that it cannot have done anything. */
  readonly isBeforeSending: boolean;

  constructor(host: string, reason: string, isBeforeSending: boolean, cause?: unknown) {
    super(reason, cause === undefined ? undefined : { cause });
    this.host = host;
    this.isBeforeSending = isBeforeSending;
  }
}

/** How many times `silenceMs` a whole body may take. */
const slowFactor = 10;

export class HttpClient {
  readonly #agents = {
    'http:': new Agent({ keepAlive: true, maxSockets: 64 }),
    'https:': new SecureAgent({ keepAlive: true, maxSockets: 64 }),
  };

  /** Resolves with the head of the answer; its body must be read or discarded. */
  async send(request: HttpRequest): Promise<HttpResponse> {
    const sent = this.start(request);
    sent.end(request.body);
    return answerTo(sent, request);
  }

  /** A request whose body the caller writes. Errors of it are those of answerTo(). */
  start({ method, url, headers = {}, body, signal }: HttpRequest): ClientRequest {
    if (signal?.aborted) throw aborted(signal, url);
    const isSecure = url.protocol === 'https:';
    const send = isSecure ? secureRequest : plainRequest;
    const length = body === undefined ? {} : { 'Content-Length': String(body.byteLength) };
    return send(url, {
      method,
      agent: this.#agents[isSecure ? 'https:' : 'http:'],
      headers: { 'User-Agent': 'horovod', ...length, ...headers },
    });
  }

  close(): void {
    for (const agent of Object.values(this.#agents)) agent.destroy();
  }
}

/** The answer to a request that start() has begun. `silenceMs`: Infinity where the caller has limits of its own. */
export function answerTo(
  sent: ClientRequest,
  request: HttpRequest,
  silenceMs: number = request.silenceMs,
): Promise<HttpResponse> {
  const { url, signal } = request;
  const isLimited = Number.isFinite(silenceMs);
  return new Promise<HttpResponse>((resolve, reject) => {
    const onAbort = () => sent.destroy(aborted(signal, url));
    const state = { isConnected: false };
    signal?.addEventListener('abort', onAbort, { once: true });
    sent.once('socket', (socket) => {
      // One that was kept alive never connects again.
      state.isConnected = !socket.connecting;
      const onConnect = () => {
        state.isConnected = true;
      };
      if (socket.connecting) socket.once('connect', onConnect);
    });
    // Counts from the last byte in either direction, and from the start while there is no connection.
    if (isLimited)
      sent.setTimeout(silenceMs, () => sent.destroy(silent(url.host, silenceMs, !state.isConnected)));
    const onSlowConnection = () => state.isConnected || sent.destroy(silent(url.host, silenceMs, true));
    const connecting = isLimited ? setTimeout(onSlowConnection, silenceMs) : undefined;
    sent.once('error', (error) => {
      clearTimeout(connecting);
      signal?.removeEventListener('abort', onAbort);
      reject(failureOf(error, url.host, !state.isConnected));
    });
    sent.once('response', (message) => {
      clearTimeout(connecting);
      signal?.removeEventListener('abort', onAbort);
      resolve(new HttpResponse(message, request));
    });
  });
}

export class HttpResponse {
  readonly status: number;
  readonly headers: IncomingMessage['headers'];
  readonly #message: IncomingMessage;
  readonly #request: HttpRequest;
  #rest: Buffer | undefined;

  constructor(message: IncomingMessage, request: HttpRequest) {
    this.status = message.statusCode ?? 0;
    this.headers = message.headers;
    this.#message = message;
    this.#request = request;
    // While nobody reads, silence is the reader's.
    message.socket?.setTimeout(0);
  }

  /** Fills the target from the body, or up to its end. The rest of the body stays for the next call. */
  async readInto(target: Uint8Array): Promise<number> {
    const message = this.#message;
    let done = 0;
    const take = (chunk: Buffer) => {
      const count = Math.min(chunk.byteLength, target.byteLength - done);
      target.set(chunk.subarray(0, count), done);
      done += count;
      this.#rest = count < chunk.byteLength ? chunk.subarray(count) : undefined;
    };
    if (this.#rest !== undefined) take(this.#rest);
    const { host } = this.#request.url;
    await this.#limited(
      (settle) => {
        const next = () => {
          while (done < target.byteLength) {
            const chunk = message.read() as Buffer | null;
            if (chunk === null) break;
            take(chunk);
          }
          if (done === target.byteLength || message.readableEnded) settle();
        };
        const onEnd = () => settle();
        const onClose = () => {
          if (message.complete) settle();
          else settle(failureOf(message.errored ?? undefined, host, false));
        };
        message.on('readable', next);
        message.on('end', onEnd);
        message.on('error', onClose);
        message.on('close', onClose);
        if (message.destroyed && !message.readableEnded) onClose();
        else next();
        return () => {
          message.off('readable', next);
          message.off('end', onEnd);
          message.off('close', onClose);
          // An error after this is nobody's: the body was given up.
          message.off('error', onClose);
          message.on('error', () => undefined);
        };
      },
      () => `sent ${done} of ${target.byteLength} bytes`,
    );
    return done;
  }

  /** Whether the body has more bytes. */
  async hasMore(): Promise<boolean> {
    if (this.#rest !== undefined) return true;
    const one = new Uint8Array(1);
    const count = await this.readInto(one);
    if (count > 0) this.#rest = Buffer.concat([one, this.#rest ?? Buffer.alloc(0)]);
    return count > 0;
  }

  /** The body as text, cut off after `maxBytes`: for messages and lists of a server. */
  async text(maxBytes: number = 2 ** 20): Promise<string> {
    const pieces: Buffer[] = [];
    for (let total = 0; total < maxBytes; ) {
      const piece = Buffer.alloc(Math.min(maxBytes - total, 64 * 2 ** 10));
      const count = await this.readInto(piece);
      pieces.push(piece.subarray(0, count));
      total += count;
      if (count < piece.byteLength) return Buffer.concat(pieces).toString();
    }
    this.discard();
    return Buffer.concat(pieces).toString();
  }

  /** Gives the body up; its connection cannot be used again. */
  discard(): void {
    this.#message.on('error', () => undefined);
    this.#message.destroy();
  }

  #limited(start: (settle: (error?: Error) => void) => () => void, progress: () => string): Promise<void> {
    const { url, silenceMs, bodyMs = slowFactor * silenceMs, signal } = this.#request;
    const { host } = url;
    let stop: (() => void) | undefined;
    let timer: NodeJS.Timeout | undefined;
    const socket = this.#message.socket;
    return new Promise<void>((resolve, reject) => {
      let isSettled = false;
      const settle = (error?: Error) => {
        if (isSettled) return;
        isSettled = true;
        if (error === undefined) resolve();
        else {
          this.discard();
          reject(error);
        }
      };
      const onAbort = () => settle(aborted(signal, url));
      const onSilence = () => settle(silent(host, silenceMs, false));
      if (signal?.aborted) return onAbort();
      signal?.addEventListener('abort', onAbort, { once: true });
      socket?.setTimeout(silenceMs, onSilence);
      const slow = () => settle(new RequestFailure(host, `${progress()} in ${bodyMs / 1000} s`, false));
      timer = setTimeout(slow, bodyMs);
      const unlisten = start(settle);
      stop = () => {
        unlisten();
        signal?.removeEventListener('abort', onAbort);
        socket?.off('timeout', onSilence);
        socket?.setTimeout(0);
      };
    }).finally(() => {
      clearTimeout(timer);
      stop?.();
    });
  }
}

function silent(host: string, silenceMs: number, isBeforeSending: boolean): RequestFailure {
  const what = isBeforeSending ? 'could not be reached' : 'sent nothing';
  return new RequestFailure(host, `${what} for ${silenceMs / 1000} s`, isBeforeSending);
}

function failureOf(error: Error | undefined, host: string, isBeforeSending: boolean): Error {
  if (error instanceof RequestFailure || HorovodError.is(error)) return error;
  const code = (error as NodeJS.ErrnoException | undefined)?.code;
  const texts: Readonly<Record<string, string>> = {
    ECONNREFUSED: 'refused the connection',
    ECONNRESET: 'closed the connection too early',
    EPIPE: 'closed the connection too early',
    ENOTFOUND: 'has a name that cannot be resolved here',
    EAI_AGAIN: 'has a name that cannot be resolved here at the moment',
    EHOSTUNREACH: 'cannot be reached',
    ENETUNREACH: 'cannot be reached',
    ETIMEDOUT: 'cannot be reached',
  };
  const reason =
    error === undefined ? texts['ECONNRESET'] : (texts[code ?? ''] ?? `failed: ${error.message}`);
  return new RequestFailure(host, reason as string, isBeforeSending, error);
}

function aborted(signal: AbortSignal | undefined, url: URL): HorovodError {
  if (HorovodError.is(signal?.reason)) return signal.reason;
  const text = `A request to ${url.host} was ended by an AbortSignal.`;
  return new HorovodError('ERR_HVD_ABORTED', text, { cause: signal?.reason });
}
