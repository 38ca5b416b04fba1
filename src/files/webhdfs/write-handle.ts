// Writing to HDFS: the namenode gives a datanode for a PUT or POST without a body, and the body goes there. A file of up to 8 MiB is
// sent when it is closed, and again if the connection is lost; a larger one is sent while it is written. Appending can be repeated
// only if nothing has arrived: the length of the file says so.

import type { ClientRequest } from 'node:http';
import { type CreateOptions, fileError, type WriteHandle } from '../file-system.ts';
import { answerTo, type HttpRequest, type HttpResponse, RequestFailure } from '../http-client.ts';
import { TryAgain } from '../retries.ts';
import {
  type Operation,
  redirectOf,
  transferHeaders,
  unreachableDatanode,
  type WebHdfsRequests,
} from './requests.ts';
import { formatHdfsLocation, type HdfsLocation } from './url.ts';

const maxHeldBytes = 8 * 2 ** 20;
/** A datanode that still holds the file for a writer that is gone. */
const heldByOthers = ['AlreadyBeingCreatedException', 'RecoveryInProgressException'];

export class HdfsWriteHandle implements WriteHandle {
  readonly location: string;
  readonly #requests: WebHdfsRequests;
  readonly #place: HdfsLocation;
  readonly #options: CreateOptions;
  readonly #remove: () => Promise<void>;
  #held: Buffer[] = [];
  #heldBytes = 0;
  #stream: Stream | undefined;
  #state: 'open' | 'closed' | 'given up' = 'open';

  constructor(
    requests: WebHdfsRequests,
    place: HdfsLocation,
    options: CreateOptions,
    remove: () => Promise<void>,
  ) {
    this.location = formatHdfsLocation(place);
    this.#requests = requests;
    this.#place = place;
    this.#options = options;
    this.#remove = remove;
  }

  async write(bytes: Uint8Array): Promise<void> {
    if (this.#state !== 'open') throw fileError(`${this.location} is already ${this.#state}.`);
    if (this.#stream !== undefined) return this.#stream.write(bytes);
    this.#held.push(Buffer.from(bytes));
    this.#heldBytes += bytes.byteLength;
    if (this.#heldBytes <= maxHeldBytes) return;
    const begin = Buffer.concat(this.#held);
    this.#held = [];
    this.#stream = await this.#startStream();
    await this.#stream.write(begin);
  }

  async close(): Promise<void> {
    if (this.#state !== 'open') return;
    if (this.#stream === undefined) {
      const body = Buffer.concat(this.#held);
      // What an attempt has left behind is ours.
      await sendBody(this.#requests, body, (attempt) => this.#operation(attempt > 1));
    } else {
      await this.#stream.end();
    }
    this.#state = 'closed';
    this.#held = [];
  }

  async abort(): Promise<void> {
    if (this.#state !== 'open') return;
    this.#state = 'given up';
    this.#held = [];
    if (this.#stream === undefined) return;
    this.#stream.destroy();
    // The first error matters; a file that could not be removed only takes room.
    await this.#remove().catch(() => undefined);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.abort();
  }

  #operation(isAgain: boolean): Operation {
    const { overwrite = false, permission, signal } = this.#options;
    const mode = permission === undefined ? {} : { permission: permission.toString(8) };
    return {
      method: 'PUT',
      location: this.#place,
      parameters: { op: 'CREATE', overwrite: overwrite || isAgain, ...mode },
      verb: 'write',
      signal,
      retriable: heldByOthers,
    };
  }

  #startStream(): Promise<Stream> {
    const operation = this.#operation(false);
    return this.#requests.attempted(operation, async (send) => {
      const url = await redirectOf(await send());
      if (url === undefined) throw noDatanode(this.location);
      return new Stream(this.#requests, operation, url);
    });
  }
}

/** One long body on its way to a datanode. */
class Stream {
  readonly #requests: WebHdfsRequests;
  readonly #operation: Operation;
  readonly #request: HttpRequest;
  readonly #sent: ClientRequest;
  readonly #answer: Promise<HttpResponse>;

  constructor(requests: WebHdfsRequests, operation: Operation, url: URL) {
    this.#requests = requests;
    this.#operation = operation;
    const silenceMs = requests.timeoutMs;
    this.#request = { method: 'PUT', url, headers: transferHeaders(), silenceMs, signal: operation.signal };
    this.#sent = requests.client.start(this.#request);
    // A silence while the program has nothing to write is not the datanode's: only a wait of ours counts.
    this.#answer = answerTo(this.#sent, this.#request, Number.POSITIVE_INFINITY);
    this.#answer.catch(() => undefined);
  }

  async write(bytes: Uint8Array): Promise<void> {
    const written = new Promise<void>((resolve, reject) => {
      this.#sent.write(bytes, (error) => (error ? reject(error) : resolve()));
    });
    const answer = await this.#limited(Promise.race([written, this.#answer]));
    // An answer before the end is an error of the datanode.
    if (answer === undefined) return;
    written.catch(() => undefined);
    await this.#refused(answer);
  }

  async end(): Promise<void> {
    this.#sent.end();
    const response = await this.#limited(this.#answer);
    const checked = await this.#requests
      .check(response, this.#operation, this.#request.url.host)
      .catch(final);
    await checked.text().catch(() => '');
  }

  destroy(): void {
    this.#sent.on('error', () => undefined);
    this.#sent.destroy();
  }

  async #refused(response: HttpResponse): Promise<never> {
    await this.#requests.check(response, this.#operation, this.#request.url.host).catch(final);
    throw fileError(`Datanode ${this.#request.url.host} answered before all bytes were sent.`);
  }

  async #limited<T>(work: Promise<T>): Promise<T> {
    const { host } = this.#request.url;
    const { timeoutMs } = this.#requests;
    let timer: NodeJS.Timeout | undefined;
    const limit = new Promise<never>((_, reject) => {
      const failure = new RequestFailure(host, `took nothing for ${timeoutMs / 1000} s`, false);
      timer = setTimeout(() => reject(failure), timeoutMs);
    });
    try {
      return await Promise.race([work, limit]);
    } catch (error) {
      this.destroy();
      if (error instanceof RequestFailure) throw unreachableDatanode(this.#operation, error);
      throw error;
    } finally {
      clearTimeout(timer);
    }
  }
}

/** Adds bytes at the end of a file. */
export async function appendBytes(
  requests: WebHdfsRequests,
  place: HdfsLocation,
  bytes: Uint8Array,
  sizeOf: () => Promise<number>,
  signal: AbortSignal | undefined,
): Promise<void> {
  const before = await sizeOf();
  const operation: Operation = {
    method: 'POST',
    location: place,
    parameters: { op: 'APPEND' },
    verb: 'append to',
    signal,
    retriable: heldByOthers,
  };
  await sendBody(
    requests,
    bytes,
    () => operation,
    async () => {
      const size = await sizeOf();
      if (size === before + bytes.byteLength) return true;
      if (size === before) return false;
      const place = operation.location;
      throw fileError(
        `Cannot append to ${formatHdfsLocation(place)}: the connection was lost, and the file has ${size} bytes instead of ` +
          `${before} or ${before + bytes.byteLength}. Does another process write to it?`,
        'changed',
      );
    },
  );
}

/** Sends a body to a datanode that the namenode chooses, again and again. `hasArrived` is asked before each further attempt. */
async function sendBody(
  requests: WebHdfsRequests,
  body: Uint8Array,
  operationOf: (attempt: number) => Operation,
  hasArrived: () => Promise<boolean> = async () => false,
): Promise<void> {
  const excluded = new Set<string>();
  await requests.attempted(operationOf(1), async (send, attempt) => {
    if (attempt > 1 && (await hasArrived())) return;
    const operation = operationOf(attempt);
    const more = excluded.size === 0 ? {} : { excludedatanodes: [...excluded].join(',') };
    const url = await redirectOf(await send({ ...operation.parameters, ...more }));
    if (url === undefined) throw noDatanode(formatHdfsLocation(operation.location));
    const silenceMs = requests.timeoutMs;
    const { method, signal } = operation;
    try {
      const request = { method, url, headers: transferHeaders(), body, silenceMs, signal };
      const response = await requests.check(await requests.client.send(request), operation, url.host);
      await response.text();
    } catch (error) {
      if (!(error instanceof RequestFailure)) throw error;
      excluded.add(url.host.replace(/:\d+$/, '')).add(url.host);
      throw new TryAgain(() => unreachableDatanode(operation, error));
    }
  });
}

function noDatanode(location: string): Error {
  return fileError(`Cannot write ${location}: the server named no datanode for it.`);
}

/** The body is gone: what could be tried again is an error. */
function final(error: unknown): never {
  throw error instanceof TryAgain ? error.final() : error;
}
