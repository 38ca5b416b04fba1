// Objects as bytes, for broadcastObject and allgatherObject: whatever structuredClone() takes. V8's serializer needs five
// microseconds for the smallest object. JSON needs one, so small values that it keeps as they are travel as JSON.

import { deserialize, serialize } from 'node:v8';

/** The first byte of what V8's serializer writes; JSON does not begin with it. */
const mark = 0xff;
/** More objects and arrays than that are for V8. */
const maxObjects = 32;
const maxEntries = 256;

/** Throws for what cannot be cloned. */
export function bytesOfObject(value: unknown): Uint8Array {
  return isSameAsJson(value, []) ? Buffer.from(JSON.stringify(value)) : serialize(value);
}

export function objectOfBytes(bytes: Uint8Array): unknown {
  if (bytes[0] === mark) return deserialize(bytes);
  return JSON.parse(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString());
}

/** Whether JSON.parse(JSON.stringify(value)) is what structuredClone(value) is. */
function isSameAsJson(value: unknown, seen: object[]): boolean {
  switch (typeof value) {
    case 'string':
    case 'boolean':
      return true;
    case 'number':
      return Number.isFinite(value) && !Object.is(value, -0);
    case 'object':
      return value === null || isPlainObject(value, seen);
    default:
      return false;
  }
}

function isPlainObject(value: object, seen: object[]): boolean {
  // What is there twice is one object in a clone, too.
  if (seen.length >= maxObjects || seen.includes(value)) return false;
  seen.push(value);
  const prototype = Object.getPrototypeOf(value);
  const entries = value as Record<string, unknown>;
  const keys = Object.keys(value);
  if (keys.length > maxEntries || typeof entries['toJSON'] === 'function') return false;
  if (Array.isArray(value)) {
    // With other properties, or with holes, there are more or fewer keys.
    if (prototype !== Array.prototype || keys.length !== value.length) return false;
    return value.every((entry) => isSameAsJson(entry, seen));
  }
  if (prototype !== Object.prototype) return false;
  for (const key of keys) if (!isSameAsJson(entries[key], seen)) return false;
  return true;
}
