// Writes the MNIST digits as TFRecord files, for the examples that read such files.

import { mkdirSync } from 'node:fs';
import { glob, writeTfRecords } from 'horovod/data';
import * as hvd from 'horovod/tensorflow';
import { loadMnist, pixels } from './mnist.ts';

/** Each rank writes its shards, unless the files are there. Call it on all ranks. */
export async function writeMnist(folder: string, part: 'train' | 'test', limit: number): Promise<void> {
  const found = await glob(`${folder}/${part}-*.tfrecord`);
  if (await hvd.broadcastObject(found.length > 0, 0)) return;
  if (hvd.rank() === 0) console.log(`writing ${folder}/${part}-*.tfrecord`);
  mkdirSync(folder, { recursive: true });
  const { count, images, labels } = loadMnist(part, { limit });
  const examples = Array.from({ length: count }, (_, each) => ({
    image: Uint8Array.from(images.subarray(each * pixels, (each + 1) * pixels), (ink) => 255 * ink),
    label: labels[each] as number,
  }));
  const shards = { shards: 4, rank: hvd.rank(), size: hvd.size() };
  await writeTfRecords(examples, `${folder}/${part}-{shard}-of-{shards}.tfrecord`, shards);
  await hvd.barrier();
}
