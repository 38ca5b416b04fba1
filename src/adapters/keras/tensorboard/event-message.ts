// The protocol-buffer messages of TensorBoard's event files, as far as scalars need them:
//
//   Event   { double wall_time = 1; int64 step = 2; string file_version = 3; Summary summary = 5 }
//   Summary { repeated Value value = 1 }      Value { string tag = 1; float simple_value = 2 }

/** Wire types of protocol buffers. */
const wire = { varint: 0, eightBytes: 1, lengthPrefixed: 2, fourBytes: 5 } as const;

/** The first event of every file. */
export function versionEvent(wallTimeSeconds: number): Buffer {
  return Buffer.concat([double(1, wallTimeSeconds), message(3, Buffer.from('brain.Event:2'))]);
}

/** Some scalars of one step. */
export function scalarsEvent(
  wallTimeSeconds: number,
  step: number,
  scalars: Readonly<Record<string, number>>,
): Buffer {
  const values = Object.entries(scalars).map(([tag, value]) =>
    message(1, Buffer.concat([message(1, Buffer.from(tag)), float(2, value)])),
  );
  return Buffer.concat([
    double(1, wallTimeSeconds),
    Buffer.concat([key(2, wire.varint), varint(step)]),
    message(5, Buffer.concat(values)),
  ]);
}

function key(field: number, type: number): Buffer {
  return varint(field * 8 + type);
}

/** Seven bits a byte, lowest first; for whole numbers from 0 to 2^53. */
function varint(value: number): Buffer {
  const bytes: number[] = [];
  let rest = value;
  for (; rest >= 128; rest = Math.floor(rest / 128)) bytes.push((rest % 128) + 128);
  bytes.push(rest);
  return Buffer.from(bytes);
}

function message(field: number, content: Uint8Array): Buffer {
  return Buffer.concat([key(field, wire.lengthPrefixed), varint(content.length), content]);
}

function double(field: number, value: number): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeDoubleLE(value);
  return Buffer.concat([key(field, wire.eightBytes), bytes]);
}

function float(field: number, value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeFloatLE(value);
  return Buffer.concat([key(field, wire.fourBytes), bytes]);
}
