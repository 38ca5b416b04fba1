// A connection whose handshake is over. Node has read not one byte beyond it and reads none until the owner says so:
// the bytes wait in the kernel, where native code that is given the descriptor finds them.

import type { Socket } from 'node:net';
import type { KeyPair, KeyUse } from './connection-keys.ts';
import type { SocketReader } from './socket-reader.ts';

export interface Connection {
  /** Paused; resume() starts it for an owner in TypeScript. */
  readonly socket: Socket;
  /** If the dialer has asked for one: instead of events of the socket. */
  readonly reader?: SocketReader | undefined;
  /** True on the listener's side: its owner sends nothing before it has read the ready byte. */
  readonly accepted: boolean;
  /** Of the other side, as this one sees it: '10.0.0.2:4000'. */
  readonly address: string;
  /** Known to the two ends of this connection only. */
  keysFor(use: KeyUse): KeyPair;
  /** For the addon, which duplicates it; call release() afterwards. */
  takeDescriptor(): number;
  /** Ends Node's side without shutting the connection down: a duplicate goes on. */
  release(): void;
}

/**
 * The first byte that the dialer's owner sends. A listener's owner that speaks first has to wait for it: until then Node
 * on the dialer's side may still be reading, and would take bytes that are meant for native code.
 */
export const readyByte = 0x52;

/** To be called at once when the last byte of the handshake has come. */
export function handOver(
  socket: Socket,
  details: Pick<Connection, 'accepted' | 'address' | 'keysFor' | 'reader'>,
): Connection {
  stopReading(socket);
  return {
    socket,
    ...details,
    takeDescriptor() {
      const fd = handleOf(socket)?.fd;
      if (fd === undefined || fd < 0)
        throw new Error('the connection is closed, or this system has no descriptors');
      if (socket.writableLength > 0) throw new Error('bytes of the handshake are still on their way');
      return fd;
    },
    release() {
      socket.destroy();
    },
  };
}

/**
 * pause() alone would let Node read on until its buffer is full; without a buffer, and with the handle stopped, the next
 * byte stays in the kernel. resume() starts it again.
 */
function stopReading(socket: Socket): void {
  const stream = socket as unknown as { _readableState: { highWaterMark: number; reading: boolean } };
  stream._readableState.highWaterMark = 0;
  socket.pause();
  const handle = handleOf(socket);
  if (handle === undefined) return;
  handle.reading = false;
  handle.readStop();
  // Otherwise resume() would assume that a read is under way.
  stream._readableState.reading = false;
}

interface Handle {
  readonly fd?: number;
  reading: boolean;
  readStop(): void;
}

function handleOf(socket: Socket): Handle | undefined {
  return (socket as unknown as { _handle: Handle | null })._handle ?? undefined;
}
