// A connection between two parts of the data service: messages as sealed JSON frames, in order, and behind some of them a *payload*,
// the bytes of a batch. A frame is [payload bytes, message]; its MAC covers the length of the payload, not the payload, which is
// encrypted and authenticated only with --encrypt. Both sides beat every second. Silence, a frame that was changed or a payload that
// is too long ends the link, with an error that says who it was.

import { createCipheriv, createDecipheriv } from 'node:crypto';
import { HorovodError } from '../../errors.ts';
import type { Connection } from '../../net/connection.ts';
import { Dial } from '../../net/dial.ts';
import { ProtocolError } from '../../net/frames.ts';
import type { Identity } from '../../net/handshake.ts';
import { SealedFrames, TamperedFrame, tamperedError } from '../../net/sealed-frames.ts';
import { SilenceDetector } from '../../net/silence.ts';
import { inSeconds, waitFor } from '../../net/wait.ts';
import { type Message, messageFrom } from './messages.ts';

export interface LinkOptions {
  /** The other side, for errors: 'worker 3 of the data service'. */
  readonly name: string;
  readonly isEncrypted: boolean;
  /** Of one payload; 0: none are expected. */
  readonly maxPayloadBytes: number;
  readonly silenceMs?: number | undefined;
  readonly onMessage: (message: Message, payload: Uint8Array | undefined) => void;
  /** Memory for a payload, at least so many bytes. Default: new memory. */
  readonly allocate?: ((bytes: number) => ArrayBuffer) | undefined;
  /** Once; not after close(). */
  readonly onLost: (error: HorovodError) => void;
}

/** A link is lost after this long without a byte. */
export const defaultSilenceMs = 10_000;
const beatMs = 1000;
/** Plans and cuts are the longest messages. */
const maxFrameBytes = 4 << 20;
const lengthBytes = 4;
/** For messages, where payloads are read into their own memory. */
const smallReadBytes = 64 * 1024;
const tagBytes = 16;
const ivBytes = 12;
/** How long what was sent last may take to leave. */
const goodbyeMs = 1000;

export class Link {
  readonly #options: LinkOptions;
  readonly #connection: Connection;
  readonly #frames: SealedFrames;
  readonly #silence: SilenceDetector<'other'>;
  readonly #beat: NodeJS.Timeout;
  readonly #keys: { send: Buffer; receive: Buffer } | undefined;
  #sentPayloads = 0;
  #receivedPayloads = 0;
  #isOver = false;
  // What is being read: the length of a frame, a frame, or a payload.
  #reading: 'length' | 'frame' | 'payload' = 'length';
  #target: Buffer = Buffer.alloc(lengthBytes);
  #filled = 0;
  #message: Message | undefined;

  constructor(connection: Connection, options: LinkOptions) {
    this.#connection = connection;
    this.#options = options;
    this.#frames = new SealedFrames(connection.keysFor('frames'), maxFrameBytes);
    this.#keys = options.isEncrypted ? connection.keysFor('tensors') : undefined;
    const { silenceMs = defaultSilenceMs } = options;
    const { socket } = connection;
    this.#silence = new SilenceDetector(silenceMs, () =>
      this.#end(lost(`nothing has come from ${this.name} for ${inSeconds(silenceMs)}`)),
    );
    this.#silence.heard('other');
    this.#beat = setInterval(() => this.send({ kind: 'beat' }), beatMs);
    const take = (piece: Uint8Array, isInPlace: boolean) => {
      if (this.#isOver) return;
      this.#silence.heard('other');
      try {
        this.#receive(piece, isInPlace);
      } catch (error) {
        this.#end(this.#describe(error));
      }
    };
    const onEnd = () => this.#end(lost(`${this.name} has closed its connection, or is gone`));
    socket.on('error', onEnd);
    socket.on('end', onEnd);
    socket.on('close', onEnd);
    if (connection.reader === undefined) {
      socket.on('data', (piece: Buffer) => take(piece, false));
      socket.resume();
      return;
    }
    const small = new Uint8Array(smallReadBytes);
    let rest: Uint8Array | undefined;
    connection.reader.readInto({
      // What is left of a payload; messages are copied out of a small piece of memory, several of which may come at once.
      memory: () => {
        rest = this.#reading === 'payload' ? this.#target.subarray(this.#filled) : undefined;
        return rest ?? small;
      },
      take: (memory, count) => take(memory.subarray(0, count), memory === rest),
    });
  }

  get name(): string {
    return `${this.#options.name} at ${this.#connection.address}`;
  }

  get isOpen(): boolean {
    return !this.#isOver;
  }

  /** Bytes that have not left yet. */
  get waitingBytes(): number {
    return this.#connection.socket.writableLength;
  }

  /** Messages arrive in the order in which they were sent, or not at all. `payload`: pieces that follow each other. */
  send(message: Message, payload: readonly Uint8Array[] = []): void {
    if (this.#isOver) return;
    const { socket } = this.#connection;
    const pieces = this.#keys === undefined ? payload : this.#encrypted(payload, this.#keys.send);
    const bytes = pieces.reduce((sum, piece) => sum + piece.byteLength, 0);
    const frame = this.#frames.seal(JSON.stringify([bytes, message]));
    if (bytes === 0) {
      socket.write(frame);
      return;
    }
    socket.cork();
    socket.write(frame);
    for (const piece of pieces) if (piece.byteLength > 0) socket.write(piece);
    socket.uncork();
  }

  /** What was sent still leaves. Twice is fine. */
  close(): void {
    if (this.#isOver) return;
    this.#stop();
    const { socket } = this.#connection;
    socket.destroySoon();
    setTimeout(() => socket.destroy(), goodbyeMs).unref();
  }

  /** As if the other side were gone. */
  fail(error: HorovodError): void {
    this.#end(error);
  }

  /** Whether it keeps the process alive; at first it does. */
  holdProcess(isHeld: boolean): void {
    const { socket } = this.#connection;
    if (isHeld) socket.ref();
    else socket.unref();
    if (isHeld) this.#beat.ref();
    else this.#beat.unref();
  }

  #stop(): void {
    this.#isOver = true;
    clearInterval(this.#beat);
    this.#silence.stop();
  }

  #end(error: HorovodError): void {
    if (this.#isOver) return;
    this.#stop();
    this.#connection.socket.destroy();
    this.#options.onLost(error);
  }

  #describe(error: unknown): HorovodError {
    if (HorovodError.is(error)) return error;
    if (error instanceof TamperedFrame) return tamperedError(this.name, error);
    if (error instanceof ProtocolError) return lost(`${this.name} sent ${error.message}`);
    throw error;
  }

  /** `isInPlace`: its bytes are where they belong. */
  #receive(piece: Uint8Array, isInPlace: boolean): void {
    let at = 0;
    while (at < piece.length && !this.#isOver) {
      const count = Math.min(piece.length - at, this.#target.length - this.#filled);
      if (!isInPlace) this.#target.set(piece.subarray(at, at + count), this.#filled);
      at += count;
      this.#filled += count;
      if (this.#filled === this.#target.length) this.#full();
    }
  }

  #full(): void {
    const full = this.#target;
    switch (this.#reading) {
      case 'length': {
        const length = full.readUInt32BE(0);
        if (length > maxFrameBytes + 64) throw new ProtocolError(`a frame of ${length} bytes`);
        const frame = Buffer.allocUnsafe(lengthBytes + length);
        full.copy(frame);
        this.#expect('frame', frame, lengthBytes);
        return;
      }
      case 'frame': {
        const [content] = this.#frames.open(full);
        if (content === undefined) throw new ProtocolError('a frame without an end');
        this.#open(content);
        return;
      }
      case 'payload': {
        const message = this.#message as Message;
        this.#message = undefined;
        this.#expect('length', Buffer.alloc(lengthBytes));
        this.#options.onMessage(message, this.#payloadOf(full));
        return;
      }
      default:
        this.#reading satisfies never;
    }
  }

  #open(content: Buffer): void {
    const { bytes, message } = messageFrom(content);
    const { maxPayloadBytes, onMessage } = this.#options;
    if (bytes > maxPayloadBytes)
      throw new ProtocolError(
        `a batch of ${bytes} bytes, and there is room for ${maxPayloadBytes}. Make batches smaller, or raise HOROVOD_DATA_MEMORY_MB`,
      );
    if (bytes > 0) {
      this.#message = message;
      const { allocate = (count) => new ArrayBuffer(count) } = this.#options;
      this.#expect('payload', Buffer.from(allocate(bytes), 0, bytes));
      return;
    }
    this.#expect('length', Buffer.alloc(lengthBytes));
    if (message.kind !== 'beat') onMessage(message, undefined);
  }

  #expect(what: 'length' | 'frame' | 'payload', target: Buffer, filled = 0): void {
    this.#reading = what;
    this.#target = target;
    this.#filled = filled;
  }

  /** The number of the payload is its nonce: each key belongs to one direction of one connection. */
  #encrypted(payload: readonly Uint8Array[], key: Buffer): Uint8Array[] {
    if (payload.length === 0) return [];
    const cipher = createCipheriv('aes-256-gcm', key, nonceOf(this.#sentPayloads++));
    const pieces: Uint8Array[] = payload.map((piece) => cipher.update(piece));
    pieces.push(cipher.final(), cipher.getAuthTag());
    return pieces;
  }

  #payloadOf(bytes: Buffer): Uint8Array {
    if (this.#keys === undefined) return bytes;
    const end = bytes.length - tagBytes;
    if (end < 0) throw new ProtocolError(`an encrypted batch of ${bytes.length} bytes`);
    const decipher = createDecipheriv('aes-256-gcm', this.#keys.receive, nonceOf(this.#receivedPayloads++));
    decipher.setAuthTag(bytes.subarray(end));
    const plain = decipher.update(bytes.subarray(0, end));
    try {
      decipher.final();
    } catch {
      throw new TamperedFrame('a batch with a wrong authentication code');
    }
    // Nothing else may be in its memory, which goes to another thread.
    return plain.byteLength === plain.buffer.byteLength ? plain : new Uint8Array(plain);
  }
}

export interface DialLinkOptions {
  readonly identity: Identity;
  /** The listener's number, and what the connection is for. */
  readonly to: number;
  readonly channel: string;
  readonly from: number;
  readonly addresses: readonly string[];
  readonly timeoutMs: number;
  readonly signal?: AbortSignal | undefined;
}

/** Connects; the error names what was tried. */
export async function dialLink(options: DialLinkOptions, link: LinkOptions): Promise<Link> {
  const { identity, to, channel, from, addresses, timeoutMs, signal } = options;
  const claim = { purpose: 'data', from, to, channel } as const;
  let dial: Dial | undefined;
  try {
    const connection = await waitFor<Connection>(
      (resolve) => {
        dial = new Dial({ identity, claim, addresses, onConnection: resolve, hasReader: true });
      },
      `to connect to ${link.name}`,
      { timeoutMs, signal },
      () =>
        lost(
          `no connection to ${link.name} within ${inSeconds(timeoutMs)}: ${dial?.describe() ?? ''}. Check firewalls between the hosts, and that HOROVOD_ENCRYPT is the same in the compute job and in the training job`,
        ),
    );
    return new Link(connection, link);
  } finally {
    dial?.cancel();
  }
}

function nonceOf(number: number): Buffer {
  const nonce = Buffer.alloc(ivBytes);
  nonce.writeUIntBE(number, ivBytes - 6, 6);
  return nonce;
}

function lost(reason: string): HorovodError {
  return new HorovodError('ERR_HVD_DATA_SERVICE', `data service: ${reason}.`);
}
