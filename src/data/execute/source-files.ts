// The files of a source. Most are files of a file system. The arrays of npyDataset() and the images of imageFolderDataset() are
// *gathered*: one file for the reader, put together from several when it is read.

import type { ReadHandle } from '../../files/file-system.ts';
import { locationOf } from '../../files/location.ts';
import type { Files } from '../../files/registry.ts';
import type { FormatFile } from '../formats/format.ts';
import { listImageFolder } from '../formats/images/image-folder.ts';
import { imageOffsets, imageRecords } from '../formats/images/image-records.ts';
import { npyRows, npyRowsFormat } from '../formats/npy/npy-rows.ts';
import { openNpzMember, splitMember } from '../formats/npy/npz-member.ts';
import { blocksOfOffsets } from '../order/blocks.ts';
import type { SourceNode } from '../plan/nodes.ts';
import type { IndexedFile } from './pieces.ts';

export function isGathered({ node }: SourceNode): boolean {
  return node === 'npyDataset' || node === 'imageFolderDataset';
}

/** The one file of a gathered source. */
export async function indexGathered(source: SourceNode, files: Files): Promise<IndexedFile> {
  if (source.node === 'imageFolderDataset') return indexImages(source, files);
  const { file, columns, close } = await openArrays(source, files);
  try {
    const { records, offsets } = await npyRowsFormat(columns).index(file);
    const { location, size } = file;
    const blocks = blocksOfOffsets(offsets as Float64Array);
    return { location, size, records, first: 0, offsets, blocks, columns };
  } finally {
    await close();
  }
}

/** Opens the files that an index has. */
export function openerOf(source: SourceNode, files: Files): (file: IndexedFile) => Promise<ReadHandle> {
  if (source.node === 'imageFolderDataset') {
    return async ({ location, images = [] }) => handleOf(imageRecords(location, images, files));
  }
  if (source.node === 'npyDataset') {
    return async () => {
      const { file, close } = await openArrays(source, files);
      return handleOf(file, close);
    };
  }
  return async ({ location }) => (await files.fileSystem(location)).open(location);
}

async function indexImages({ paths, format }: SourceNode, files: Files): Promise<IndexedFile> {
  const root = locationOf(paths[0] as string).replace(/(?<=[^/])\/+$/, '');
  const labels = format['labels'] as readonly string[] | undefined;
  const { images } = await listImageFolder(files, root, { labels });
  const offsets = imageOffsets(images);
  const records = images.length;
  return {
    location: root,
    size: offsets[records] as number,
    records,
    first: 0,
    offsets,
    blocks: blocksOfOffsets(offsets),
    images,
  };
}

/** Arrays of one archive share its handle. */
async function openArrays({ paths, format }: SourceNode, files: Files) {
  const handles = new Map<string, ReadHandle>();
  const close = async () => {
    for (const handle of handles.values()) await handle.close();
  };
  try {
    const names = format['names'] as readonly string[];
    const arrays: [string, FormatFile][] = [];
    for (const [place, name] of names.entries()) {
      const [path, member] = splitMember(paths[place] as string);
      const location = locationOf(path);
      const handle = handles.get(location) ?? (await (await files.fileSystem(location)).open(location));
      handles.set(location, handle);
      arrays.push([name, member === undefined ? handle : await openNpzMember(handle, member)]);
    }
    return Object.assign(await npyRows(arrays), { close });
  } catch (error) {
    await close();
    throw error;
  }
}

function handleOf(file: FormatFile, close = async (): Promise<void> => {}): ReadHandle {
  const { location, size } = file;
  return {
    location,
    size,
    isSequential: false,
    read: (target, position) => file.read(target, position),
    close,
    [Symbol.asyncDispose]: close,
  };
}
