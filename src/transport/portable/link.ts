// A connection to another member, read and written without blocking and without the event loop: by plain system calls
// on its descriptor, directly from and into the memory of an operation. What cannot be moved at once stays in two
// queues, bytes to send and places to fill, which pump() works on.
//
// NOTE [Why not streams]. Sync forms block the main thread, and streams would stand still with it; a separate thread for
// them would cost two thread switches and a copy for every piece. A poll that finds nothing costs an exception, some µs.

import { readSync, writeSync } from 'node:fs';
import { type Connection, readyByte } from '../../net/connection.ts';
import { ForgedRecordError, SealedWire, type Wire } from './sealed-wire.ts';

/** Why the connection ended. */
export interface LinkEnd {
  /** 'forged': it is encrypted, and somebody on the way has altered, repeated or left out bytes. */
  readonly kind: 'lost' | 'forged';
  /** 'was closed by the other side', 'broke (ECONNRESET)'. */
  readonly reason: string;
  readonly atMs: number;
}

/** More would not fit into a socket's buffer anyway, and a system call takes at most 2 GiB. */
const maxBytesAtOnce = 4 * 1024 * 1024;

export class Link {
  readonly #connection: Connection;
  readonly #wire: Wire;
  readonly #sends: Uint8Array[] = [];
  readonly #places: Uint8Array[] = [];
  /** Bytes already moved of the first entry. */
  #sentOfFirst = 0;
  #filledOfFirst = 0;
  /** Tickets: how many entries were queued and how many are done. */
  #queuedSends = 0;
  #doneSends = 0;
  #queuedPlaces = 0;
  #donePlaces = 0;
  readonly #ready: Uint8Array | undefined;
  #end: LinkEnd | undefined;
  #isClosed = false;

  constructor(connection: Connection, { isEncrypted = false }: { readonly isEncrypted?: boolean } = {}) {
    this.#connection = connection;
    const plain: Wire = {
      read: (place, offset, bytes) => readSync(connection.takeDescriptor(), place, offset, bytes, null),
      write: (source, offset, bytes) => writeSync(connection.takeDescriptor(), source, offset, bytes),
    };
    this.#wire = isEncrypted ? new SealedWire(plain, connection.keysFor('tensors')) : plain;
    connection.socket.unref();
    if (connection.accepted) {
      // The other side may still be reading through its event loop: send nothing before its ready byte is here.
      this.#ready = new Uint8Array(1);
      this.receive(this.#ready);
    } else {
      this.send(Uint8Array.of(readyByte));
    }
  }

  /** Of the other end, as this one sees it. */
  get address(): string {
    return this.#connection.address;
  }

  /** Undefined while the connection is up, as far as pump() has seen. */
  get end(): LinkEnd | undefined {
    return this.#end;
  }

  /** Queues bytes, which must not change before hasSent(ticket). Returns the ticket. */
  send(bytes: Uint8Array): number {
    if (bytes.length === 0) return this.#queuedSends;
    this.#sends.push(bytes);
    return ++this.#queuedSends;
  }

  /** Queues a place for the next bytes that arrive. Returns a ticket for hasReceived(). */
  receive(place: Uint8Array): number {
    if (place.length === 0) return this.#queuedPlaces;
    this.#places.push(place);
    return ++this.#queuedPlaces;
  }

  hasSent(ticket: number): boolean {
    return this.#doneSends >= ticket;
  }

  hasReceived(ticket: number): boolean {
    return this.#donePlaces >= ticket;
  }

  get isIdle(): boolean {
    return this.#sends.length === 0 && this.#places.length === 0;
  }

  /** Moves what can be moved right now. True if any byte was moved. */
  pump(): boolean {
    // Node may not have written the last byte of the handshake yet.
    if (this.#isClosed || this.#connection.socket.writableLength > 0) return false;
    const hasRead = this.#places.length > 0 && this.#end === undefined && this.#read();
    const isOurTurn = this.#ready === undefined || this.#donePlaces > 0;
    const hasWritten = isOurTurn && this.#sends.length > 0 && this.#end === undefined && this.#write();
    return hasRead || hasWritten;
  }

  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#sends.length = 0;
    this.#places.length = 0;
    this.#connection.release();
  }

  #read(): boolean {
    let hasMoved = false;
    while (this.#places.length > 0) {
      const place = this.#places[0] as Uint8Array;
      const wanted = Math.min(place.length - this.#filledOfFirst, maxBytesAtOnce);
      const bytes = this.#call(() => this.#wire.read(place, this.#filledOfFirst, wanted));
      if (bytes === undefined) return hasMoved;
      if (bytes === 0) {
        this.#endWith('was closed by the other side');
        return hasMoved;
      }
      hasMoved = true;
      this.#filledOfFirst += bytes;
      // Less than requested: nothing more is here, and reading again would only cost an exception.
      if (bytes < wanted) return true;
      if (this.#filledOfFirst < place.length) continue;
      this.#places.shift();
      this.#filledOfFirst = 0;
      this.#donePlaces++;
      if (place === this.#ready && place[0] !== readyByte) {
        this.#endWith(`began with a wrong byte (${place[0]})`);
        return true;
      }
    }
    return hasMoved;
  }

  #write(): boolean {
    let hasMoved = false;
    while (this.#sends.length > 0) {
      const source = this.#sends[0] as Uint8Array;
      const left = Math.min(source.length - this.#sentOfFirst, maxBytesAtOnce);
      const bytes = this.#call(() => this.#wire.write(source, this.#sentOfFirst, left));
      if (bytes === undefined) return hasMoved;
      hasMoved = true;
      this.#sentOfFirst += bytes;
      if (bytes < left) return true;
      if (this.#sentOfFirst < source.length) continue;
      this.#sends.shift();
      this.#sentOfFirst = 0;
      this.#doneSends++;
    }
    return hasMoved;
  }

  /** Undefined if the call would have had to wait, or the connection is broken. */
  #call(call: () => number): number | undefined {
    const stackTraceLimit = Error.stackTraceLimit;
    try {
      // Nobody needs the stack of "try again", and it takes half of the time.
      Error.stackTraceLimit = 0;
      return call();
    } catch (error) {
      if (error instanceof ForgedRecordError) {
        this.#endWith('carries bytes that the other side has not sent', 'forged');
        return undefined;
      }
      const { code, message } = error as NodeJS.ErrnoException;
      // Not the connection's fault: for example, a buffer that was detached in the meantime.
      if (code?.startsWith('ERR_') === true) throw error;
      if (code !== 'EAGAIN' && code !== 'EINTR') this.#endWith(`broke (${code ?? message})`);
      return undefined;
    } finally {
      Error.stackTraceLimit = stackTraceLimit;
    }
  }

  #endWith(reason: string, kind: LinkEnd['kind'] = 'lost'): void {
    this.#end ??= { kind, reason, atMs: performance.now() };
  }
}
