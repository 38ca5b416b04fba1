// The messages of TensorBoard's event files. Summaries other than scalars are tensors, and the metadata says which plugin shows them:
//
//   Event       { double wall_time = 1; int64 step = 2; string file_version = 3; Summary summary = 5 }
//   Summary     { repeated Value value = 1 }
//   Value       { string tag = 1; float simple_value = 2; TensorProto tensor = 8; Metadata metadata = 9 }
//   Metadata    { PluginData plugin_data = 1 { string plugin_name = 1; bytes content = 2 }; DataClass data_class = 4 }
//   TensorProto { DataType dtype = 1; Shape shape = 2 { repeated Dim dim = 2 { int64 size = 1 } };
//                 bytes content = 4; repeated float float_val = 5; repeated bytes string_val = 8 }

import type { Bucket } from './buckets.ts';
import { bytes, double, float, text, whole } from './protobuf.ts';

/** What charts are on the page Custom Scalars: for each category its charts, with the tags of their lines. Tags may be patterns. */
export type Layout = Readonly<Record<string, Readonly<Record<string, readonly string[]>>>>;

export type HparamValue = string | number | boolean;

const dataType = { float: 1, double: 2, string: 7 } as const;
const dataClass = { tensor: 2, blobSequence: 3 } as const;

const hparamsTag = { start: '_hparams_/session_start_info', end: '_hparams_/session_end_info' } as const;
const layoutTag = 'custom_scalars__config__';
/** Session states of the hparams plugin. */
const sessionState = { success: 1, failure: 2 } as const;

/** The first event of every file. */
export function versionEvent(wallTimeSeconds: number): Buffer {
  return Buffer.concat([double(1, wallTimeSeconds), text(3, 'brain.Event:2')]);
}

/** `values`: made by the functions below. */
export function summaryEvent(wallTimeSeconds: number, step: number, values: readonly Buffer[]): Buffer {
  const summary = bytes(5, ...values.map((value) => bytes(1, value)));
  return Buffer.concat([double(1, wallTimeSeconds), whole(2, step), summary]);
}

export function scalarValue(tag: string, value: number): Buffer {
  return Buffer.concat([text(1, tag), float(2, value)]);
}

export function histogramValue(tag: string, buckets: readonly Bucket[]): Buffer {
  const content = Buffer.alloc(buckets.length * 24);
  for (const [index, { left, right, count }] of buckets.entries()) {
    content.writeDoubleLE(left, index * 24);
    content.writeDoubleLE(right, index * 24 + 8);
    content.writeDoubleLE(count, index * 24 + 16);
  }
  const tensor = bytes(8, whole(1, dataType.double), shape(buckets.length, 3), bytes(4, content));
  return Buffer.concat([text(1, tag), tensor, metadata('histograms', dataClass.tensor)]);
}

/** `images`: PNG files, all of this size. */
export function imageValue(
  tag: string,
  { width, height }: { readonly width: number; readonly height: number },
  images: readonly Uint8Array[],
): Buffer {
  const parts = [Buffer.from(String(width)), Buffer.from(String(height)), ...images];
  return Buffer.concat([text(1, tag), strings(parts), metadata('images', dataClass.blobSequence)]);
}

/** Markdown. */
export function textValue(tag: string, markdown: string): Buffer {
  return Buffer.concat([text(1, tag), strings([Buffer.from(markdown)]), metadata('text', dataClass.tensor)]);
}

export function layoutValue(layout: Layout): Buffer {
  const categories = Object.entries(layout).map(([category, charts]) =>
    bytes(
      2,
      text(1, category),
      ...Object.entries(charts).map(([chart, tags]) =>
        bytes(2, text(1, chart), bytes(2, ...tags.map((tag) => text(1, tag)))),
      ),
    ),
  );
  const tensor = bytes(8, whole(1, dataType.string), bytes(2), bytes(8, ...categories));
  return Buffer.concat([text(1, layoutTag), tensor, metadata('custom_scalars', dataClass.tensor)]);
}

/** The run begins, with these hyperparameters. */
export function sessionStartValue(
  startedAtSeconds: number,
  group: string,
  hparams: Readonly<Record<string, HparamValue>>,
): Buffer {
  const map = Object.entries(hparams).map(([name, value]) =>
    bytes(1, text(1, name), bytes(2, hparam(value))),
  );
  const start = bytes(3, ...map, text(4, group), double(5, startedAtSeconds));
  return Buffer.concat([text(1, hparamsTag.start), nothing, metadata('hparams', dataClass.tensor, start)]);
}

export function sessionEndValue(endedAtSeconds: number, hasFailed = false): Buffer {
  const state = hasFailed ? sessionState.failure : sessionState.success;
  const end = bytes(4, whole(1, state), double(2, endedAtSeconds));
  return Buffer.concat([text(1, hparamsTag.end), nothing, metadata('hparams', dataClass.tensor, end)]);
}

/** google.protobuf.Value */
function hparam(value: HparamValue): Buffer {
  if (typeof value === 'number') return double(2, value);
  return typeof value === 'string' ? text(3, value) : whole(4, value ? 1 : 0);
}

/** What sessions are is in their metadata, but every value has a tensor. */
const nothing: Buffer = bytes(8, whole(1, dataType.float), bytes(2), float(5, 0));

function strings(parts: readonly Uint8Array[]): Buffer {
  return bytes(8, whole(1, dataType.string), shape(parts.length), ...parts.map((part) => bytes(8, part)));
}

function shape(...sizes: readonly number[]): Buffer {
  return bytes(2, ...sizes.map((size) => bytes(2, whole(1, size))));
}

function metadata(plugin: string, kind: number, content: Uint8Array = Buffer.alloc(0)): Buffer {
  return bytes(9, bytes(1, text(1, plugin), bytes(2, content)), whole(4, kind));
}
