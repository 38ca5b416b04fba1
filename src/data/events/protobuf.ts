// Writes fields of protocol-buffer messages. A message is the concatenation of its fields, so each function returns the bytes of one
// field, and messages within messages are `bytes` fields.

/** Wire types of protocol buffers. */
const wire = { varint: 0, eightBytes: 1, lengthPrefixed: 2, fourBytes: 5 } as const;

/** A whole number from 0 to 2^53. */
export function whole(field: number, value: number): Buffer {
  return Buffer.concat([key(field, wire.varint), varint(value)]);
}

export function double(field: number, value: number): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeDoubleLE(value);
  return Buffer.concat([key(field, wire.eightBytes), bytes]);
}

export function float(field: number, value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeFloatLE(value);
  return Buffer.concat([key(field, wire.fourBytes), bytes]);
}

export function text(field: number, value: string): Buffer {
  return bytes(field, Buffer.from(value));
}

/** A field of bytes, or a message given by its fields. */
export function bytes(field: number, ...parts: readonly Uint8Array[]): Buffer {
  const length = parts.reduce((sum, part) => sum + part.length, 0);
  return Buffer.concat([key(field, wire.lengthPrefixed), varint(length), ...parts]);
}

function key(field: number, type: number): Buffer {
  return varint(field * 8 + type);
}

/** Seven bits a byte, lowest first. */
function varint(value: number): Buffer {
  const bytes: number[] = [];
  let rest = value;
  for (; rest >= 128; rest = Math.floor(rest / 128)) bytes.push((rest % 128) + 128);
  bytes.push(rest);
  return Buffer.from(bytes);
}
