// Files of web servers, for reading only. The first request asks for the first bytes: its answer says how large the file is, and
// whether the server supports ranges. Later ranges carry the first ETag, so that a file that changes is an error and no mixture.
// A server that answers 200 instead of 206 is read from that one answer, in order.

import {
  type FileStatus,
  type FileSystem,
  type FileWaitOptions,
  fileError,
  type ReadHandle,
  type WriteHandle,
} from './file-system.ts';
import { HttpClient, type HttpResponse, RequestFailure } from './http-client.ts';
import { nameOf, shownLocation } from './location.ts';
import { readInPieces } from './read-ahead.ts';
import { retried, TryAgain } from './retries.ts';

const maxRedirects = 5;
const firstBytes = 64 * 2 ** 10;

/** What every answer about one version of a file has in common. */
interface Version {
  readonly size: number;
  readonly etag: string | undefined;
  readonly modified: string | undefined;
}

export class HttpFileSystem implements FileSystem {
  readonly #client = new HttpClient();
  readonly #timeoutMs: number;
  readonly #bodyMs: number | undefined;

  constructor({ fileTimeoutMs }: { readonly fileTimeoutMs: number }, bodyMs?: number) {
    this.#timeoutMs = fileTimeoutMs;
    this.#bodyMs = bodyMs;
  }

  async stat(location: string, options: FileWaitOptions = {}): Promise<FileStatus> {
    const { response, version } = await this.#first(location, options);
    response.discard();
    const modifiedMs = version.modified === undefined ? Number.NaN : Date.parse(version.modified);
    return {
      location,
      name: decodeURIComponent(nameOf(location)),
      kind: 'file',
      size: version.size,
      ...(Number.isNaN(modifiedMs) ? {} : { modifiedMs }),
      etag: version.etag,
    };
  }

  async open(location: string, options: FileWaitOptions = {}): Promise<ReadHandle> {
    const { response, version } = await this.#first(location, options);
    if (response.status === 200) return new SequentialHandle(location, version.size, response);
    const first = new Uint8Array(Math.min(firstBytes, version.size));
    const count = await response.readInto(first).catch((error: unknown) => error);
    // What is missing is asked for again later, as any other range.
    const isWhole = count === first.byteLength;
    response.discard();
    return new RangeHandle(
      location,
      version.size,
      isWhole ? first : new Uint8Array(0),
      (target, position, wait, onRetry) =>
        this.#readRange(location, version, { target, position, onRetry }, wait),
    );
  }

  async list(location: string): Promise<FileStatus[]> {
    throw fileError(
      `${shownLocation(location)} cannot be listed: web servers have no folders. Name each file.`,
    );
  }

  mkdir(location: string): Promise<void> {
    return cannotWrite(location);
  }

  remove(location: string): Promise<void> {
    return cannotWrite(location);
  }

  create(location: string): Promise<WriteHandle> {
    return cannotWrite(location);
  }

  rename(from: string): Promise<void> {
    return cannotWrite(from);
  }

  close(): void {
    this.#client.close();
  }

  #first(
    location: string,
    { signal }: FileWaitOptions,
  ): Promise<{ response: HttpResponse; version: Version }> {
    return retried(
      async () => {
        const response = await this.#get(location, { Range: `bytes=0-${firstBytes - 1}` }, signal);
        return { response, version: versionIn(response, location) };
      },
      { timeoutMs: this.#timeoutMs, signal },
    );
  }

  /** Each lost connection begins where the last one ended; the deadline counts from the last byte. */
  async #readRange(
    location: string,
    version: Version,
    { target, position, onRetry }: { target: Uint8Array; position: number; onRetry: () => void },
    { signal }: FileWaitOptions,
  ): Promise<number> {
    let done = 0;
    while (done < target.byteLength) {
      if (done > 0) onRetry();
      const [before, begin, end] = [done, position + done, position + target.byteLength - 1];
      done += await retried(
        async (number) => {
          if (number > 1) onRetry();
          const headers: Record<string, string> = { Range: `bytes=${begin}-${end}` };
          if (version.etag !== undefined && !version.etag.startsWith('W/'))
            headers['If-Match'] = version.etag;
          const response = await this.#get(location, headers, signal);
          try {
            checkRange(response, location, version, begin, end);
            return await readRest(response, target.subarray(before), location);
          } finally {
            response.discard();
          }
        },
        { timeoutMs: this.#timeoutMs, signal },
      );
    }
    return done;
  }

  async #get(
    location: string,
    headers: Readonly<Record<string, string>>,
    signal: AbortSignal | undefined,
  ): Promise<HttpResponse> {
    let url = new URL(location);
    for (let redirects = 0; ; redirects++) {
      const response = await this.#request(url, location, headers, signal);
      if (![301, 302, 303, 307, 308].includes(response.status)) return checkStatus(response, location);
      response.discard();
      const target = new URL(String(response.headers.location ?? ''), url);
      if (redirects === maxRedirects) throw fileError(`${shownLocation(location)} is redirected too often.`);
      if (
        !['http:', 'https:'].includes(target.protocol) ||
        (url.protocol === 'https:' && target.protocol === 'http:')
      ) {
        throw fileError(
          `${shownLocation(location)} is redirected to ${target.protocol}//${target.host}, which is not followed.`,
        );
      }
      url = target;
    }
  }

  async #request(
    url: URL,
    location: string,
    headers: Readonly<Record<string, string>>,
    signal: AbortSignal | undefined,
  ): Promise<HttpResponse> {
    try {
      return await this.#client.send({
        method: 'GET',
        url,
        headers: { 'Accept-Encoding': 'identity', ...headers },
        silenceMs: this.#timeoutMs,
        bodyMs: this.#bodyMs,
        signal,
      });
    } catch (error) {
      throw lost(error, location);
    }
  }
}

type ReadRange = (
  target: Uint8Array,
  position: number,
  options: FileWaitOptions,
  onRetry: () => void,
) => Promise<number>;

class RangeHandle implements ReadHandle {
  readonly location: string;
  readonly size: number;
  readonly isSequential = false;
  readonly #first: Uint8Array;
  retries = 0;
  readonly #readRange: ReadRange;

  constructor(location: string, size: number, first: Uint8Array, readRange: ReadRange) {
    this.location = location;
    this.size = size;
    this.#first = first;
    this.#readRange = readRange;
  }

  async read(target: Uint8Array, position: number, options: FileWaitOptions = {}): Promise<number> {
    const wanted = target.subarray(0, Math.max(0, Math.min(target.byteLength, this.size - position)));
    if (position + wanted.byteLength <= this.#first.byteLength) {
      wanted.set(this.#first.subarray(position, position + wanted.byteLength));
      return wanted.byteLength;
    }
    return readInPieces(wanted, position, (part, at) =>
      this.#readRange(part, at, options, () => {
        this.retries += 1;
      }),
    );
  }

  async close(): Promise<void> {}

  async [Symbol.asyncDispose](): Promise<void> {}
}

/** Reads the one answer there is. */
class SequentialHandle implements ReadHandle {
  readonly location: string;
  readonly size: number;
  readonly isSequential = true;
  readonly #response: HttpResponse;
  #position = 0;
  #last: Promise<unknown> = Promise.resolve();

  constructor(location: string, size: number, response: HttpResponse) {
    this.location = location;
    this.size = size;
    this.#response = response;
  }

  read(target: Uint8Array, position: number): Promise<number> {
    const reading = this.#last.then(() => this.#read(target, position));
    this.#last = reading.catch(() => undefined);
    return reading;
  }

  async #read(target: Uint8Array, position: number): Promise<number> {
    if (position !== this.#position) {
      throw fileError(
        `${shownLocation(this.location)} can be read only from its beginning to its end, because the server does not support ranges ` +
          `(asked for byte ${position}, was at ${this.#position}). Copy the file to a disk or to HDFS.`,
      );
    }
    const wanted = target.subarray(0, Math.min(target.byteLength, this.size - position));
    try {
      const count = await this.#response.readInto(wanted);
      this.#position += count;
      if (count < wanted.byteLength) throw endsEarly(this.location, this.#position, this.size);
      if (this.#position === this.size && (await this.#response.hasMore())) throw sendsTooMuch(this.location);
      return count;
    } catch (error) {
      if (!(error instanceof RequestFailure)) throw error;
      throw fileError(
        `${shownLocation(this.location)}: ${error.host} ${error.message}, after ${this.#position} of ${this.size} bytes. ` +
          'The server does not support ranges, so reading cannot continue from there.',
        'unreachable',
        error,
      );
    }
  }

  async close(): Promise<void> {
    this.#response.discard();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

/** How many bytes came; a connection that ends early has given some of them, and the rest is asked for again. */
async function readRest(response: HttpResponse, target: Uint8Array, location: string): Promise<number> {
  let count: number;
  try {
    count = await response.readInto(target);
  } catch (error) {
    throw lost(error, location);
  }
  if (count === 0) throw new TryAgain(() => endsEarly(location, 0, target.byteLength));
  if (count === target.byteLength && (await response.hasMore().catch(() => false)))
    throw sendsTooMuch(location);
  return count;
}

function versionIn(response: HttpResponse, location: string): Version {
  const { etag, 'last-modified': modified, 'content-length': length } = response.headers;
  const range = String(response.headers['content-range'] ?? '');
  const total = response.status === 200 ? length : /^bytes (?:\d+-\d+|\*)\/(\d+)$/.exec(range)?.[1];
  if (total === undefined) {
    response.discard();
    throw fileError(
      `The server does not say how large ${shownLocation(location)} is. Copy the file to a disk or to HDFS.`,
    );
  }
  return { size: Number(total), etag, modified };
}

function checkStatus(response: HttpResponse, location: string): HttpResponse {
  const { status } = response;
  if (status === 200 || status === 206) return response;
  // An empty file has no first byte.
  if (status === 416 && /\/0$/.test(String(response.headers['content-range']))) return response;
  response.discard();
  if (status === 412) throw changed(location);
  if ([408, 425, 429, 500, 502, 503, 504].includes(status)) {
    throw new TryAgain(() =>
      fileError(`${shownLocation(location)}: the server answers ${status}.`, 'unreachable'),
    );
  }
  const [problem, reason] =
    status === 404 || status === 410
      ? (['missing', 'it does not exist'] as const)
      : status === 401 || status === 403
        ? (['forbidden', 'the server does not allow it'] as const)
        : ([undefined, 'the server does not give it'] as const);
  throw fileError(`Cannot read ${shownLocation(location)}: ${reason} (HTTP ${status}).`, problem);
}

function checkRange(
  response: HttpResponse,
  location: string,
  version: Version,
  begin: number,
  end: number,
): void {
  if (response.status !== 206) {
    throw fileError(
      `${shownLocation(location)}: the server no longer supports ranges (HTTP ${response.status}).`,
    );
  }
  const { etag, 'last-modified': modified, 'content-range': range } = response.headers;
  const [, from, to, size] = /^bytes (\d+)-(\d+)\/(\d+)$/.exec(String(range)) ?? [];
  const isSame = version.etag === undefined ? modified === version.modified : etag === version.etag;
  if (!isSame || Number(size) !== version.size) throw changed(location);
  if (Number(from) !== begin || Number(to) !== end) {
    throw fileError(
      `${shownLocation(location)}: asked for bytes ${begin}-${end}, the server sends ${String(range)}.`,
    );
  }
}

function lost(error: unknown, location: string): unknown {
  if (!(error instanceof RequestFailure)) return error;
  const text = `Cannot read ${shownLocation(location)}: ${error.host} ${error.message}.`;
  return new TryAgain(() => fileError(text, 'unreachable', error));
}

function changed(location: string): Error {
  return fileError(
    `${shownLocation(location)} has changed while it was read. Start again with the new file.`,
    'changed',
  );
}

function endsEarly(location: string, count: number, expected: number): Error {
  return fileError(
    `${shownLocation(location)} ends early: the server sent ${count} of ${expected} bytes.`,
    'unreachable',
  );
}

function sendsTooMuch(location: string): Error {
  return fileError(`${shownLocation(location)}: the server sends more bytes than it was asked for.`);
}

async function cannotWrite(location: string): Promise<never> {
  throw fileError(
    `${shownLocation(location)} can only be read. Write to a path, to hdfs:// or to a registered file system.`,
    'forbidden',
  );
}
