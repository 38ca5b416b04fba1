import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { crc32c, maskCrc } from '../../../data/formats/tfrecord/crc32c.ts';
import { TensorBoard } from '../callbacks/tensorboard.ts';
import { EventWriter } from './event-writer.ts';

const folder = mkdtempSync(join(tmpdir(), 'horovod-tensorboard-'));
after(() => rmSync(folder, { recursive: true }));

test('an event file has its version first, then the scalars, all with right checksums', async () => {
  const writer = await EventWriter.create(join(folder, 'writer'));
  await writer.scalars(0, { loss: 0.5, acc: 0.25 });
  await writer.scalars(300, { loss: -1 });
  const [version, first, second] = readEvents(join(folder, 'writer'));
  assert.equal(version?.fileVersion, 'brain.Event:2');
  assert.deepEqual([first?.step, first?.scalars], [0, { loss: 0.5, acc: 0.25 }]);
  assert.deepEqual([second?.step, second?.scalars], [300, { loss: -1 }]);
  assert.ok(Math.abs((first?.wallTime ?? 0) - Date.now() / 1000) < 3600);
});

describe('the TensorBoard callback', () => {
  const train = async (logDir: string, rank: number, updateFreq: 'epoch' | number) => {
    const callback = new TensorBoard({ logDir, updateFreq }, { rank: () => rank, size: () => 2 });
    for (let epoch = 0; epoch < 2; epoch += 1) {
      for (let batch = 0; batch < 4; batch += 1) {
        await callback.onBatchEnd(batch, { batch, size: 8, loss: epoch * 4 + batch });
      }
      await callback.onEpochEnd(epoch, { loss: 0.5, lr: 0.125, val_loss: 0.75 });
    }
  };

  test('leaves no file open when fit() fails, or is over', {
    skip: !existsSync('/proc/self/fd'),
  }, async () => {
    const opened = () =>
      readdirSync('/proc/self/fd').filter((fd) => {
        const path = `/proc/self/fd/${fd}`;
        return existsSync(path) && readlinkSync(path).includes('tfevents');
      });
    await train(join(folder, 'failed'), 0, 1);
    assert.deepEqual(opened(), []);
  });

  test('rank 0 writes epochs, training and validation apart, and batches as often as asked', async () => {
    const logDir = join(folder, 'rank 0');
    await train(logDir, 0, 3);
    const training = readEvents(join(logDir, 'train')).slice(1);
    assert.deepEqual(
      training.map(({ step, scalars }) => [step, scalars]),
      [
        [2, { batch_loss: 2 }],
        [0, { epoch_loss: 0.5, epoch_lr: 0.125 }],
        [5, { batch_loss: 5 }],
        [1, { epoch_loss: 0.5, epoch_lr: 0.125 }],
      ],
    );
    const validation = readEvents(join(logDir, 'validation')).slice(1);
    assert.deepEqual(
      validation.map(({ scalars }) => scalars),
      [{ epoch_loss: 0.75 }, { epoch_loss: 0.75 }],
    );
  });

  test('other ranks write nothing', async () => {
    await train(join(folder, 'rank 1'), 1, 1 as never);
    assert.ok(!readdirSync(folder).includes('rank 1'));
  });

  test('wrong options are rejected', () => {
    const code = 'ERR_HVD_INVALID_ARGUMENT';
    assert.throws(() => new TensorBoard(''), { code });
    assert.throws(() => new TensorBoard({ logDir: 'x', updateFreq: 0 }), { code, message: /updateFreq/ });
  });
});

interface Event {
  wallTime?: number;
  step?: number;
  fileVersion?: string;
  scalars: Record<string, number>;
}

/** A reader of its own, field by field, that shares nothing with the writer but the checksum. */
function readEvents(run: string): Event[] {
  const [name, ...others] = readdirSync(run);
  assert.deepEqual(others, []);
  assert.match(name ?? '', /tfevents/);
  const file = readFileSync(join(run, name ?? ''));
  const events: Event[] = [];
  for (let at = 0; at < file.length; ) {
    const length = Number(file.readBigUInt64LE(at));
    const data = file.subarray(at + 12, at + 12 + length);
    assert.equal(file.readUInt32LE(at + 8), maskCrc(crc32c(file, at, at + 8)));
    assert.equal(file.readUInt32LE(at + 12 + length), maskCrc(crc32c(data)));
    events.push(readEvent(data));
    at += length + 16;
  }
  return events;
}

function readEvent(data: Buffer): Event {
  const event: Event = { scalars: {} };
  for (const [field, value] of fieldsOf(data)) {
    if (field === 1) event.wallTime = (value as Buffer).readDoubleLE();
    if (field === 2) event.step = value as number;
    if (field === 3) event.fileVersion = String(value);
    if (field !== 5) continue;
    for (const [, scalar] of fieldsOf(value as Buffer)) {
      const parts = new Map(fieldsOf(scalar as Buffer));
      event.scalars[String(parts.get(1))] = (parts.get(2) as Buffer).readFloatLE();
    }
  }
  return event;
}

function fieldsOf(data: Buffer): [number, Buffer | number][] {
  const fields: [number, Buffer | number][] = [];
  let at = 0;
  const varint = () => {
    let value = 0;
    for (let shift = 1; ; shift *= 128) {
      const byte = data[at++] as number;
      value += (byte & 127) * shift;
      if (byte < 128) return value;
    }
  };
  const bytes = (count: number) => {
    at += count;
    return data.subarray(at - count, at);
  };
  while (at < data.length) {
    const key = varint();
    const type = key % 8;
    const value = type === 0 ? varint() : bytes(type === 1 ? 8 : type === 5 ? 4 : varint());
    fields.push([Math.floor(key / 8), value]);
  }
  return fields;
}
