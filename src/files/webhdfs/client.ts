// HDFS by WebHDFS, the REST interface of its namenodes (version 1): hdfs://, webhdfs:// and swebhdfs://. Bytes come from and go to
// datanodes, to which the namenode redirects. We follow redirects ourselves, to name a datanode that cannot be reached and to ask
// for another one.

import type { FileSettings } from '../../settings/table.ts';
import {
  type CreateOptions,
  type FileStatus,
  type FileSystem,
  type FileWaitOptions,
  fileError,
  problemOf,
  type ReadHandle,
  type RemoveOptions,
  type RenameOptions,
  type WriteHandle,
} from '../file-system.ts';
import { joinLocation, nameOf } from '../location.ts';
import { HdfsReadHandle } from './read-handle.ts';
import { type Operation, WebHdfsRequests } from './requests.ts';
import { formatHdfsLocation, type HdfsLocation, parseHdfsLocation } from './url.ts';
import { appendBytes, HdfsWriteHandle } from './write-handle.ts';

interface RemoteStatus {
  readonly pathSuffix: string;
  readonly type: 'FILE' | 'DIRECTORY' | 'SYMLINK';
  readonly length: number;
  readonly blockSize: number;
  readonly modificationTime: number;
  readonly owner: string;
  readonly permission: string;
}

interface Listing {
  readonly FileStatuses: { readonly FileStatus: readonly RemoteStatus[] };
}

export class WebHdfsFileSystem implements FileSystem {
  readonly #requests: WebHdfsRequests;

  constructor(settings: FileSettings) {
    this.#requests = new WebHdfsRequests(settings);
  }

  async stat(location: string, options: FileWaitOptions = {}): Promise<FileStatus> {
    const place = parseHdfsLocation(location);
    return statusFrom(await this.#remoteStatus(place, 'read', options), formatHdfsLocation(place));
  }

  async list(location: string, options: FileWaitOptions = {}): Promise<FileStatus[]> {
    const place = parseHdfsLocation(location);
    const entries = await this.#entries(place, options);
    const folder = formatHdfsLocation(place);
    // A file lists as itself, without a name.
    if (entries.some(({ pathSuffix }) => pathSuffix === '')) {
      throw fileError(`Cannot list ${folder}: it is not a folder.`, 'not a folder');
    }
    return entries.map((entry) => statusFrom(entry, joinLocation(folder, entry.pathSuffix)));
  }

  async open(location: string, options: FileWaitOptions = {}): Promise<ReadHandle> {
    const place = parseHdfsLocation(location);
    const status = await this.#remoteStatus(place, 'read', options);
    if (status.type === 'DIRECTORY') throw fileError(`${location} is a folder, not a file.`);
    return new HdfsReadHandle(this.#requests, place, status);
  }

  async mkdir(location: string, { signal }: FileWaitOptions = {}): Promise<void> {
    const place = parseHdfsLocation(location);
    const { boolean } = await this.#json<{ boolean: boolean }>(
      'create',
      'PUT',
      place,
      { op: 'MKDIRS' },
      signal,
    );
    if (!boolean) throw fileError(`Cannot create the folder ${location}: HDFS does not say why.`);
  }

  async remove(location: string, { recursive = false, signal }: RemoveOptions = {}): Promise<void> {
    const place = parseHdfsLocation(location);
    // {"boolean": false}: there was nothing.
    await this.#json('remove', 'DELETE', place, { op: 'DELETE', recursive }, signal);
  }

  async rename(from: string, to: string, { overwrite = false, signal }: RenameOptions = {}): Promise<void> {
    const [source, target] = [parseHdfsLocation(from), parseHdfsLocation(to)];
    if (source.authority !== target.authority) {
      throw fileError(`Cannot rename ${from} to ${to}: they are on different file systems.`);
    }
    const parameters = {
      op: 'RENAME',
      destination: target.path,
      ...(overwrite ? { renameoptions: 'OVERWRITE' } : {}),
    };
    const operation: Operation = { method: 'PUT', location: source, parameters, verb: 'rename', signal };
    const isDone = await this.#requests.attempted(operation, async (send, attempt) => {
      try {
        const text = await (await send()).text();
        return text === '' || (JSON.parse(text) as { boolean?: boolean }).boolean !== false;
      } catch (error) {
        // The answer to the attempt before was lost, and it had succeeded.
        if (attempt > 1 && problemOf(error) === 'missing' && (await this.#exists(target, signal)))
          return true;
        throw error;
      }
    });
    if (isDone) return;
    if (!(await this.#exists(source, signal)))
      throw fileError(`Cannot rename ${from}: it does not exist.`, 'missing');
    if (await this.#exists(target, signal))
      throw fileError(`Cannot rename ${from} to ${to}: that exists already.`, 'exists');
    throw fileError(`Cannot rename ${from} to ${to}: HDFS does not say why. Does the folder exist?`);
  }

  async create(location: string, options: CreateOptions = {}): Promise<WriteHandle> {
    const place = parseHdfsLocation(location);
    if (!options.overwrite && (await this.#exists(place, options.signal))) {
      throw fileError(`Cannot create ${location}: it exists already.`, 'exists');
    }
    return new HdfsWriteHandle(this.#requests, place, options, () => this.remove(location));
  }

  async append(location: string, bytes: Uint8Array, { signal }: FileWaitOptions = {}): Promise<void> {
    const place = parseHdfsLocation(location);
    const sizeOf = async () => (await this.#remoteStatus(place, 'append to', { signal })).length;
    await appendBytes(this.#requests, place, bytes, sizeOf, signal);
  }

  close(): void {
    this.#requests.close();
  }

  async #remoteStatus(place: HdfsLocation, verb: string, { signal }: FileWaitOptions): Promise<RemoteStatus> {
    const parameters = { op: 'GETFILESTATUS' };
    type Answer = { FileStatus: RemoteStatus };
    return (await this.#json<Answer>(verb, 'GET', place, parameters, signal)).FileStatus;
  }

  async #exists(place: HdfsLocation, signal: AbortSignal | undefined): Promise<boolean> {
    try {
      await this.#remoteStatus(place, 'read', { signal });
      return true;
    } catch (error) {
      if (problemOf(error) === 'missing') return false;
      throw error;
    }
  }

  /** In batches where the server can: a folder with many files would be one large answer. */
  async #entries(place: HdfsLocation, { signal }: FileWaitOptions): Promise<RemoteStatus[]> {
    type Batch = { DirectoryListing: { partialListing: Listing; remainingEntries: number } };
    const entries: RemoteStatus[] = [];
    for (;;) {
      const parameters = { op: 'LISTSTATUS_BATCH', startAfter: entries.at(-1)?.pathSuffix };
      let batch: Batch['DirectoryListing'];
      try {
        batch = (await this.#json<Batch>('list', 'GET', place, parameters, signal)).DirectoryListing;
      } catch (error) {
        // Servers before Hadoop 2.8, and some gateways.
        if (entries.length > 0 || !isUnknownOperation(error)) throw error;
        const all = await this.#json<{ FileStatuses: Listing['FileStatuses'] }>(
          'list',
          'GET',
          place,
          { op: 'LISTSTATUS' },
          signal,
        );
        return [...all.FileStatuses.FileStatus];
      }
      const page = batch.partialListing.FileStatuses.FileStatus;
      entries.push(...page);
      if (batch.remainingEntries === 0 || page.length === 0) return entries;
    }
  }

  #json<T>(
    verb: string,
    method: Operation['method'],
    location: HdfsLocation,
    parameters: Operation['parameters'],
    signal: AbortSignal | undefined,
  ): Promise<T> {
    return this.#requests.json<T>({ verb, method, location, parameters, signal });
  }
}

function isUnknownOperation(error: unknown): boolean {
  return /IllegalArgumentException|UnsupportedOperationException|HTTP 400/.test((error as Error).message);
}

function statusFrom(status: RemoteStatus, location: string): FileStatus {
  return {
    location,
    name: nameOf(location),
    kind: status.type === 'DIRECTORY' ? 'folder' : 'file',
    size: status.type === 'DIRECTORY' ? 0 : status.length,
    modifiedMs: status.modificationTime,
    owner: status.owner,
    permission: Number.parseInt(status.permission, 8),
  };
}
