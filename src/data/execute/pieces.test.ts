import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ReadHandle } from '../../files/file-system.ts';
import type { ByteFormat } from '../formats/format.ts';
import { ElementBlocks } from './element-blocks.ts';
import { FileReader, type IndexedFile } from './pieces.ts';

test('a file that is closed while it is opened or read stays closed', async () => {
  let open = 0;
  let letOpen: () => void = () => {};
  const mayOpen = new Promise<void>((resolve) => {
    letOpen = resolve;
  });
  const opener = async (): Promise<ReadHandle> => {
    await mayOpen;
    open += 1;
    const close = async () => {
      open -= 1;
    };
    return { size: 8, read: async () => 0, close, [Symbol.asyncDispose]: close } as unknown as ReadHandle;
  };
  const file: IndexedFile = {
    location: 'x',
    size: 8,
    first: 0,
    records: 1,
    offsets: Float64Array.of(0, 8),
    blocks: [1],
  };
  const source = { kind: 'bytes', format: {} as ByteFormat } as const;
  const reader = new FileReader(
    file,
    source,
    opener,
    (bytes) => new Uint8Array(bytes),
    new ElementBlocks(1024),
    () => {},
  );
  const early = reader.read(0, 1);
  const closing = reader.close();
  letOpen();
  await assert.rejects(early);
  await closing;
  assert.equal(open, 0);
  await assert.rejects(reader.read(0, 1), { code: 'ERR_HVD_STALE' });
  assert.equal(open, 0);
});
