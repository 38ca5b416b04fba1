// A reader of TensorBoard's event files, field by field, that shares nothing with the writer but the checksum.

import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { crc32c, maskCrc } from '../../src/data/formats/tfrecord/crc32c.ts';

export interface ReadTensor {
  readonly dtype: number;
  readonly shape: readonly number[];
  readonly content: Buffer;
  readonly strings: readonly Buffer[];
}

export interface ReadValue {
  readonly tag: string;
  readonly scalar?: number | undefined;
  readonly tensor?: ReadTensor | undefined;
  readonly plugin?: string | undefined;
  readonly pluginContent?: Buffer | undefined;
  readonly dataClass?: number | undefined;
}

export interface ReadEvent {
  readonly wallTime: number;
  readonly step: number;
  readonly fileVersion?: string | undefined;
  readonly values: readonly ReadValue[];
  /** Of the values that are plain scalars. */
  readonly scalars: Readonly<Record<string, number>>;
}

/** Of the only file in a folder, beside folders. */
export function readEvents(run: string): ReadEvent[] {
  const entries = readdirSync(run, { withFileTypes: true });
  const [name, ...others] = entries.filter((entry) => !entry.isDirectory()).map((entry) => entry.name);
  assert.deepEqual(others, []);
  assert.match(name ?? '', /tfevents/);
  return decodeEvents(readFileSync(join(run, name ?? '')));
}

export function decodeEvents(file: Buffer): ReadEvent[] {
  const events: ReadEvent[] = [];
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

/** The fields of a message: numbers of varints, bytes of all others. */
export function fieldsOf(data: Buffer): [field: number, value: Buffer | number][] {
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

function readEvent(data: Buffer): ReadEvent {
  const fields = fieldsOf(data);
  const summary = bytesIn(fields, 5)[0];
  const values = summary === undefined ? [] : bytesIn(fieldsOf(summary), 1).map(readValue);
  const scalars = values.flatMap(({ tag, scalar }) => (scalar === undefined ? [] : [[tag, scalar] as const]));
  return {
    wallTime: bytesIn(fields, 1)[0]?.readDoubleLE() ?? Number.NaN,
    step: numbersIn(fields, 2)[0] ?? 0,
    fileVersion: bytesIn(fields, 3)[0]?.toString(),
    values,
    scalars: Object.fromEntries(scalars),
  };
}

function readValue(data: Buffer): ReadValue {
  const fields = fieldsOf(data);
  const [tensor] = bytesIn(fields, 8);
  const metadata = fieldsOf(bytesIn(fields, 9)[0] ?? Buffer.alloc(0));
  const plugin = fieldsOf(bytesIn(metadata, 1)[0] ?? Buffer.alloc(0));
  return {
    tag: String(bytesIn(fields, 1)[0]),
    scalar: bytesIn(fields, 2)[0]?.readFloatLE(),
    tensor: tensor === undefined ? undefined : readTensor(tensor),
    plugin: bytesIn(plugin, 1)[0]?.toString(),
    pluginContent: bytesIn(plugin, 2)[0],
    dataClass: numbersIn(metadata, 4)[0],
  };
}

function readTensor(data: Buffer): ReadTensor {
  const fields = fieldsOf(data);
  const dimensions = bytesIn(fieldsOf(bytesIn(fields, 2)[0] ?? Buffer.alloc(0)), 2);
  return {
    dtype: numbersIn(fields, 1)[0] ?? 0,
    shape: dimensions.map((dimension) => numbersIn(fieldsOf(dimension), 1)[0] ?? 0),
    content: bytesIn(fields, 4)[0] ?? Buffer.alloc(0),
    strings: bytesIn(fields, 8),
  };
}

function bytesIn(fields: readonly [number, Buffer | number][], field: number): Buffer[] {
  return fields.flatMap(([each, value]) => (each === field && typeof value !== 'number' ? [value] : []));
}

function numbersIn(fields: readonly [number, Buffer | number][], field: number): number[] {
  return fields.flatMap(([each, value]) => (each === field && typeof value === 'number' ? [value] : []));
}
