// Reads protocol-buffer messages in place. Every read is checked against the end of the message it belongs to, so bytes that
// are no message, or a hostile one, end in an error and never outside.

import { HorovodError } from '../../../errors.ts';

/** Wire types of protocol buffers. */
export const wire = { varint: 0, eightBytes: 1, lengthPrefixed: 2, fourBytes: 5 } as const;

export class WireReader {
  bytes: Uint8Array = new Uint8Array(0);
  view: DataView = new DataView(this.bytes.buffer);
  at = 0;
  /** Low and high 32 bits of the last varint; both signed. */
  low = 0;
  high = 0;

  use(bytes: Uint8Array): void {
    if (bytes === this.bytes) return;
    this.bytes = bytes;
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  /** Into low and high. */
  varint(end: number): void {
    const { bytes } = this;
    let { at } = this;
    let low = 0;
    let high = 0;
    for (let shift = 0; shift < 70; shift += 7) {
      if (at >= end) throw malformed('a number is cut off');
      const byte = bytes[at++] as number;
      const bits = byte & 127;
      if (shift < 28) low |= bits << shift;
      else if (shift === 28) {
        low |= bits << 28;
        high = bits >> 4;
      } else high |= bits << (shift - 32);
      if (byte < 128) {
        this.at = at;
        this.low = low;
        this.high = high;
        return;
      }
    }
    throw malformed('a number has more than ten bytes');
  }

  /** A field's number and wire type, as in the message: number · 8 + type. */
  key(end: number): number {
    const byte = this.bytes[this.at] as number;
    if (this.at < end && byte < 128) {
      this.at++;
      return byte;
    }
    this.varint(end);
    return this.low >>> 0;
  }

  /** The length of what follows; returns where that ends. */
  endOfField(end: number): number {
    const { at } = this;
    const byte = this.bytes[at] as number;
    if (at < end && byte < 128) {
      this.at = at + 1;
      this.low = byte;
    } else {
      this.varint(end);
      if (this.high !== 0 || this.low < 0) throw malformed('a field is longer than the message');
    }
    const fieldEnd = this.at + this.low;
    if (fieldEnd > end) throw malformed('a field is longer than the message');
    return fieldEnd;
  }

  /** Passes over a field whose key was just read: fields that we do not know are no mistake. */
  skip(key: number, end: number): void {
    const type = key & 7;
    if (type === wire.varint) this.varint(end);
    else if (type === wire.lengthPrefixed) this.at = this.endOfField(end);
    else if (type === wire.eightBytes) this.at += 8;
    else if (type === wire.fourBytes) this.at += 4;
    else throw malformed(`a field has the unknown wire type ${type}`);
    if (this.at > end) throw malformed('a field is cut off');
  }
}

export function malformed(what: string): HorovodError {
  return new HorovodError('ERR_HVD_DATA_FILE', `The record is not an Example: ${what}.`);
}
