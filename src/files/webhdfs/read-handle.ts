// A file on HDFS that is read: by ranges of 8 MiB, a few of them on their way. A namenode is asked once for each block which datanode
// has it; a datanode that fails is excluded when it is asked again. A file of another length than when it was opened is an error.

import { type FileWaitOptions, fileError, type ReadHandle } from '../file-system.ts';
import { type HttpResponse, RequestFailure } from '../http-client.ts';
import { readInPieces } from '../read-ahead.ts';
import { TryAgain } from '../retries.ts';
import {
  type Operation,
  redirectOf,
  transferHeaders,
  unreachableDatanode,
  type WebHdfsRequests,
} from './requests.ts';
import { formatHdfsLocation, type HdfsLocation } from './url.ts';

export class HdfsReadHandle implements ReadHandle {
  readonly location: string;
  readonly size: number;
  readonly isSequential = false;
  retries = 0;
  readonly #requests: WebHdfsRequests;
  readonly #place: HdfsLocation;
  readonly #blockSize: number;
  /** By number of block: where the last range of it came from. */
  readonly #datanodes = new Map<number, URL>();
  readonly #excluded = new Set<string>();

  constructor(
    requests: WebHdfsRequests,
    place: HdfsLocation,
    { length, blockSize }: { readonly length: number; readonly blockSize: number },
  ) {
    this.location = formatHdfsLocation(place);
    this.size = length;
    this.#requests = requests;
    this.#place = place;
    this.#blockSize = Math.max(1, blockSize);
  }

  read(target: Uint8Array, position: number, options: FileWaitOptions = {}): Promise<number> {
    // A server rejects an offset at the end of the file.
    const wanted = target.subarray(0, Math.max(0, Math.min(target.byteLength, this.size - position)));
    return readInPieces(wanted, position, (part, at) => this.#readRange(part, at, options));
  }

  async close(): Promise<void> {}

  async [Symbol.asyncDispose](): Promise<void> {}

  async #readRange(target: Uint8Array, position: number, { signal }: FileWaitOptions): Promise<number> {
    const operation: Operation = {
      method: 'GET',
      location: this.#place,
      parameters: { op: 'OPEN', offset: position, length: target.byteLength },
      verb: 'read',
      signal,
      // Of a datanode whose block another one has too; of a file that is being recovered.
      retriable: ['BlockMissingException', 'CannotObtainBlockLengthException', 'ConnectException'],
    };
    return this.#requests.attempted(operation, async (send, number) => {
      if (number > 1) this.retries += 1;
      const block = Math.floor(position / this.#blockSize);
      const { response, host } = await this.#opened(operation, block, send);
      try {
        const count = await response.readInto(target);
        if (count < target.byteLength) throw this.#endsEarly(position + count);
        if (await response.hasMore()) {
          throw fileError(`${this.location}: datanode ${host} sends more bytes than it was asked for.`);
        }
        return count;
      } catch (error) {
        if (!(error instanceof RequestFailure)) throw error;
        throw this.#without(operation, block, error);
      } finally {
        response.discard();
      }
    });
  }

  async #opened(
    operation: Operation,
    block: number,
    send: (more?: Record<string, string>) => Promise<HttpResponse>,
  ): Promise<{ response: HttpResponse; host: string }> {
    const { offset, length } = operation.parameters;
    let url = this.#datanodes.get(block);
    if (url === undefined) {
      const excluded = [...this.#excluded].join(',');
      const answer = await send(excluded === '' ? {} : { excludedatanodes: excluded });
      url = await redirectOf(answer);
      // Gateways (HttpFS) give the bytes themselves.
      if (url === undefined) return { response: answer, host: 'the gateway' };
      this.#datanodes.set(block, url);
    }
    const range = new URL(url);
    range.searchParams.set('offset', String(offset));
    range.searchParams.set('length', String(length));
    const silenceMs = this.#requests.timeoutMs;
    const request = {
      method: 'GET',
      url: range,
      headers: transferHeaders(),
      silenceMs,
      signal: operation.signal,
    };
    try {
      const response = await this.#requests.client.send(request);
      return { response: await this.#requests.check(response, operation, range.host), host: range.host };
    } catch (error) {
      this.#datanodes.delete(block);
      if (error instanceof RequestFailure) throw this.#without(operation, block, error);
      throw error;
    }
  }

  /** The next attempt asks the namenode for a datanode that is not this one. */
  #without(operation: Operation, block: number, failure: RequestFailure): TryAgain {
    this.#datanodes.delete(block);
    // Namenodes know datanodes by address, with the port of transfers or without any.
    this.#excluded.add(failure.host.replace(/:\d+$/, ''));
    this.#excluded.add(failure.host);
    return new TryAgain(() => unreachableDatanode(operation, failure));
  }

  #endsEarly(position: number): Error {
    return fileError(
      `${this.location} ended at byte ${position} of ${this.size}: it has changed while it was read.`,
      'changed',
    );
  }
}
