// Reads a socket into memory of the owner's choice. Node's streams take new memory for each 64 KiB, from which the bytes of a batch
// would have to be copied again. Only sockets that this process has opened can be read so.

import type { OnReadOpts, Socket } from 'node:net';

/** Who gets the bytes. */
export interface SocketSink {
  /** Where bytes go, at least one. Asked after each read, so one more read goes to the memory that was there before. */
  memory(): Uint8Array;
  /** `count` bytes are at the beginning of `memory`. */
  take(memory: Uint8Array, count: number): void;
}

/** Before there is an owner: more than a handshake. */
const firstBytes = 1024;

export class SocketReader {
  /** For createConnection(). */
  readonly onread: OnReadOpts;
  #socket: Socket | undefined;
  #sink: SocketSink;

  constructor() {
    const first = new Uint8Array(firstBytes);
    this.#sink = {
      memory: () => first,
      take: (memory, count) => this.#socket?.emit('data', Buffer.from(memory.subarray(0, count))),
    };
    this.onread = {
      buffer: () => this.#sink.memory(),
      callback: (count, memory) => {
        this.#sink.take(memory, count);
        return true;
      },
    };
  }

  /** Until readInto(), the bytes are events of the socket, as without a reader. */
  begin(socket: Socket): void {
    this.#socket = socket;
  }

  /** The socket is paused; nothing was read that the handshake does not need. */
  readInto(sink: SocketSink): void {
    this.#sink = sink;
    this.#socket?.resume();
  }
}
