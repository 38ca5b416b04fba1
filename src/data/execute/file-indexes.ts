// The index of a data set: its files, how many records each has, and where they are. It comes from index files beside the data,
// or from a look at every file, which the ranks divide among them. Collective where ranks share their data.

import { createHash } from 'node:crypto';
import { allgatherObject, broadcastObject } from '../../context/default/default-collectives.ts';
import { type ErrorCode, HorovodError } from '../../errors.ts';
import { writeFileAtomically } from '../../files/atomic-write.ts';
import { problemOf } from '../../files/file-system.ts';
import { expandPatterns } from '../../files/glob.ts';
import { isHttp, joinLocation, shownLocation } from '../../files/location.ts';
import { readFile, statusOf } from '../../files/read-file.ts';
import type { Files } from '../../files/registry.ts';
import type { FileIndex } from '../formats/format.ts';
import { parquetFilesIn } from '../formats/parquet/parquet-files.ts';
import {
  encodeIndex,
  type FileVersion,
  findIndex,
  indexFileLocation,
} from '../formats/tfrecord/index-file.ts';
import { blocksOfOffsets } from '../order/blocks.ts';
import type { SourceNode } from '../plan/nodes.ts';
import type { IndexedFile, SourceFormat } from './pieces.ts';
import { indexGathered, isGathered } from './source-files.ts';

export interface IndexRequest {
  readonly source: SourceNode;
  readonly format: SourceFormat;
  readonly files: Files;
  /** HOROVOD_DATA_CACHE. */
  readonly cacheFolder: string | undefined;
  /** The ranks that share the work, and that all call this; one of one: nobody else. */
  readonly rank: number;
  readonly size: number;
}

type Failure = { readonly error: { readonly code: ErrorCode; readonly detail: string } };

/** `known`: what this rank has from before. Collective if there are several ranks, also for a rank that lacks nothing. */
export async function shareIndex(
  request: IndexRequest,
  known: readonly IndexedFile[] | undefined,
): Promise<readonly IndexedFile[]> {
  const { rank, size } = request;
  if (size === 1) return known ?? joined(await indexPart(request, await locate(request)));
  const name = 'horovod.data.index';
  const haves = await allgatherObject(known !== undefined, { name: `${name}.known` });
  const root = haves.indexOf(true);
  if (root >= 0) {
    if (haves.every(Boolean)) return known as readonly IndexedFile[];
    const shared = await broadcastObject(known, root, { name: `${name}.share` });
    return known ?? (shared as readonly IndexedFile[]);
  }
  // A rank that fails must not leave the others waiting: all get the first failure.
  const located = await broadcastObject(rank === 0 ? await settled(locate(request)) : undefined, 0, {
    name: `${name}.files`,
  });
  const locations = unwrap(located as string[] | Failure);
  const own = locations.filter((_, place) => place % size === rank);
  const parts = (await allgatherObject(await settled(indexPart(request, own)), { name })).map(unwrap);
  return joined(locations.map((_, place) => parts[place % size]?.[Math.floor(place / size)] as IndexedFile));
}

async function locate({ source, files }: IndexRequest): Promise<string[]> {
  // One rank looks at a gathered source.
  if (isGathered(source)) return [source.paths.join(', ')];
  const found = await expandPatterns(files, source.paths);
  const isParquet = source.node === 'parquetDataset';
  const locations = isParquet ? await filesOfFolders(found, files) : found;
  if (locations.length > 0) return locations;
  throw new HorovodError('ERR_HVD_INVALID_ARGUMENT', `${source.node}(): there is no file.`);
}

/** What Spark calls a Parquet file is a folder. */
async function filesOfFolders(locations: readonly string[], files: Files): Promise<string[]> {
  const lists = await Promise.all(
    locations.map(async (location) => {
      const status = await statusOf(files, location);
      // A missing file has its error when it is opened.
      if (status?.kind !== 'folder') return [location];
      const found = await parquetFilesIn(files, location);
      if (found.length > 0) return found;
      throw new HorovodError('ERR_HVD_DATA_FILE', `${location}: this folder has no file *.parquet.`);
    }),
  );
  return lists.flat();
}

const parallelFiles = 8;

async function indexPart(request: IndexRequest, locations: readonly string[]): Promise<IndexedFile[]> {
  const results: IndexedFile[] = [];
  let next = 0;
  const work = async () => {
    for (let place = next++; place < locations.length; place = next++) {
      results[place] = await indexFile(request, locations[place] as string);
    }
  };
  await Promise.all(Array.from({ length: parallelFiles }, work));
  return results;
}

async function indexFile(request: IndexRequest, location: string): Promise<IndexedFile> {
  const { format, files, source } = request;
  if (isGathered(source)) return indexGathered(source, files);
  const fileSystem = await files.fileSystem(location);
  const status = await fileSystem.stat(location);
  if (status.kind !== 'file') {
    throw new HorovodError('ERR_HVD_DATA_FILE', `${location}: is a folder. Name its files: ${location}/*`);
  }
  const { size } = status;
  const about = { location, size, first: 0 };
  if (source.settings.index === 'none') return { ...about, records: 0, offsets: null, blocks: [] };
  if (format.kind === 'parts') throw new Error('parts are no files');
  if (format.kind === 'elements') {
    await using handle = await fileSystem.open(location);
    const { records, blocks } = await format.format.index(handle);
    const lengths = blocks.slice(1).map((start, place) => start - (blocks[place] as number));
    return { ...about, records, offsets: null, blocks: lengths };
  }
  const isKept = source.node === 'tfRecordDataset';
  let index = isKept && source.settings.index !== 'build' ? await findKept(request, status) : undefined;
  if (index === undefined) {
    await using handle = await fileSystem.open(location);
    index = await format.format.index(handle);
    if (isKept) await keep(request, status, index);
  }
  const { records, offsets, columns } = index;
  const blocks = offsets === null ? (records > 0 ? [records] : []) : blocksOfOffsets(offsets);
  return { ...about, records, offsets, blocks, columns };
}

type Status = FileVersion & { readonly location: string };

async function findKept(
  { files, cacheFolder }: IndexRequest,
  status: Status,
): Promise<FileIndex | undefined> {
  const read = async (location: string) => {
    try {
      return await readFile(files, location);
    } catch (error) {
      if (problemOf(error) === undefined) throw error;
      return undefined;
    }
  };
  const { location } = status;
  if (cacheFolder !== undefined) {
    const kept = await findIndex(cachedName(cacheFolder, location), status, read);
    if (kept !== undefined) return kept;
  }
  // The query of a URL is often a signature of this one file.
  if (isHttp(location) && new URL(location).search !== '') return undefined;
  return findIndex(location, status, read);
}

/** Best effort: data may lie where nobody may write. */
async function keep({ files, cacheFolder }: IndexRequest, status: Status, index: FileIndex): Promise<void> {
  const { location } = status;
  const target = indexFileLocation(cacheFolder === undefined ? location : cachedName(cacheFolder, location));
  try {
    if (cacheFolder !== undefined) await (await files.fileSystem(cacheFolder)).mkdir(cacheFolder);
    await writeFileAtomically(files, target, encodeIndex(index, status));
  } catch (error) {
    if (!(HorovodError.is(error) && error.code === 'ERR_HVD_FILE_SYSTEM')) throw error;
  }
}

function cachedName(folder: string, location: string): string {
  const name = location.slice(location.lastIndexOf('/') + 1);
  const digest = createHash('sha256').update(location).digest('hex').slice(0, 16);
  return joinLocation(folder, `${name}.${digest}`);
}

/** Numbers the records, and compares what decoders have to know: they know it of one file. */
function joined(list: readonly IndexedFile[]): IndexedFile[] {
  let first = 0;
  const columns = JSON.stringify(list[0]?.columns);
  const other = list.find((file) => JSON.stringify(file.columns) !== columns);
  if (other !== undefined) {
    throw new HorovodError(
      'ERR_HVD_DATA_FILE',
      `${shownLocation(other.location)}: its columns are ${JSON.stringify(other.columns)}; those of ${shownLocation(list[0]?.location ?? '')} are ${columns}. All files have the same columns, in the same order.`,
    );
  }
  return list.map((file) => {
    const placed = { ...file, first };
    first += file.records;
    return placed;
  });
}

async function settled<T>(promise: Promise<T>): Promise<T | Failure> {
  try {
    return await promise;
  } catch (error) {
    if (!HorovodError.is(error)) throw error;
    return { error: { code: error.code, detail: error.detail } };
  }
}

function unwrap<T>(result: T | Failure): T {
  if (typeof result === 'object' && result !== null && 'error' in result) {
    throw new HorovodError(result.error.code, result.error.detail);
  }
  return result as T;
}
