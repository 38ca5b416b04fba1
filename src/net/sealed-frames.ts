// Frames that only the other end of a connection can have sent. The handshake proves who is there at the start; whoever
// passes it on between two honest sides could change what follows. So every frame carries its number and a MAC over
// number, length and content, with keys that only the two ends of this connection have, one for each direction:
//   length 4 · number 6 · content · MAC 16
// A frame that was altered, repeated, left out, moved, or sent back to its sender is seen at once, and the connection is of
// no use any more. The MAC is HMAC-SHA256, cut to 16 bytes; docs/decisions/0020-authenticated-frames.md has its price.

import { createHmac, createSecretKey, type KeyObject, timingSafeEqual } from 'node:crypto';
import { HorovodError, type HorovodErrorDetails } from '../errors.ts';
import type { KeyPair } from './connection-keys.ts';
import { FrameReader, ProtocolError } from './frames.ts';

const lengthBytes = 4;
const numberBytes = 6;
const headBytes = lengthBytes + numberBytes;
const macBytes = 16;

/** Thrown for a frame that its sender has not sent like this. The text completes 'rank 3 at 10.0.0.2:4000 sent …'. */
export class TamperedFrame extends ProtocolError {}

/** Seals what goes out and opens what comes in, on one side of one connection. */
export class SealedFrames {
  readonly #maxBytes: number;
  readonly #sendKey: KeyObject;
  readonly #receiveKey: KeyObject;
  readonly #reader: FrameReader;
  #sent = 0;
  #received = 0;

  /** `maxBytes` is the limit of a frame's content. */
  constructor({ send, receive }: KeyPair, maxBytes: number) {
    this.#maxBytes = maxBytes;
    this.#sendKey = createSecretKey(send);
    this.#receiveKey = createSecretKey(receive);
    this.#reader = new FrameReader(numberBytes + maxBytes + macBytes);
  }

  /** The next frame to send. It has its number now: frames go out in the order in which they were sealed, all of them. */
  seal(content: Uint8Array | string): Buffer {
    const length = Buffer.byteLength(content);
    if (length > this.#maxBytes)
      throw new ProtocolError(`a message of ${length} bytes is longer than ${this.#maxBytes}`);
    const end = headBytes + length;
    const frame = Buffer.allocUnsafe(end + macBytes);
    frame.writeUInt32BE(end + macBytes - lengthBytes, 0);
    frame.writeUIntBE(this.#sent++, lengthBytes, numberBytes);
    if (typeof content === 'string') frame.write(content, headBytes);
    else frame.set(content, headBytes);
    macOf(this.#sendKey, frame.subarray(0, end)).copy(frame, end, 0, macBytes);
    return frame;
  }

  /** Cuts a stream, in whatever pieces it comes, into the contents of frames. Throws a TamperedFrame or a ProtocolError. */
  open(piece: Buffer): Buffer[] {
    return this.#reader.push(piece).map((body) => this.#check(body));
  }

  /** The connection may end here: no frame has come in part. */
  get isWhole(): boolean {
    return this.#reader.isEmpty;
  }

  #check(body: Buffer): Buffer {
    const due = this.#received++;
    const end = body.length - macBytes;
    if (end <= numberBytes) throw new ProtocolError(`a frame of ${body.length} bytes`);
    const length = Buffer.allocUnsafe(lengthBytes);
    length.writeUInt32BE(body.length, 0);
    const mac = macOf(this.#receiveKey, length, body.subarray(0, end)).subarray(0, macBytes);
    if (!timingSafeEqual(mac, body.subarray(end)))
      throw new TamperedFrame(`frame ${due} with a wrong authentication code`);
    const number = body.readUIntBE(0, numberBytes);
    if (number < due) throw new TamperedFrame(`frame ${number} for a second time`);
    if (number > due) throw new TamperedFrame(`frame ${number} where frame ${due} was due`);
    return body.subarray(numberBytes, end);
  }
}

/** `sender` is where the frame came from: 'rank 3 at 10.0.0.2:4000'. */
export function tamperedError(
  sender: string,
  frame: TamperedFrame,
  details?: HorovodErrorDetails,
): HorovodError {
  return new HorovodError(
    'ERR_HVD_TAMPERED',
    `${sender} sent ${frame.message}: the connection carries something that this process of the job did not send. ` +
      'Somebody may be tampering with it, or a proxy or a broken network device changes it. The connection is closed.',
    { ...details, cause: frame },
  );
}

function macOf(key: KeyObject, ...parts: readonly Buffer[]): Buffer {
  const hmac = createHmac('sha256', key);
  for (const part of parts) hmac.update(part);
  return hmac.digest();
}
