// Somebody between two processes of a job, without the secret: a relay that passes the handshake on, as it is, and then
// changes frames. Dialers think that it is the listener.

import { createConnection, createServer, type Socket } from 'node:net';
import { parseAddress } from '../../src/net/addresses.ts';
import { encodeFrame, FrameReader } from '../../src/net/frames.ts';

export type Direction = 'to listener' | 'to dialer';

/** What goes on instead of a frame; 'cut' ends the connection after half of it, 'back' returns it to its sender. */
export type Change = Buffer[] | 'cut' | 'back';

export interface DecoyOptions {
  /** Of what the dialer says before its first frame: a watch sends a ready byte. */
  readonly extraBytes?: number;
  /** Called for every frame after the handshake, with its place in its direction. */
  readonly change: (direction: Direction, frame: Buffer, place: number) => Change;
}

/** Bytes of the handshake: answer and 'taken'; hello, verdict and 'done'. */
const handshakeBytes = { 'to listener': 108 + 1, 'to dialer': 36 + 37 + 1 } as const;

/** The address to give to a dialer instead of `address`. */
export async function startDecoy(
  t: { after(fn: () => unknown): void },
  address: string,
  { extraBytes = 0, change }: DecoyOptions,
): Promise<string> {
  const target = parseAddress(address);
  if (target === undefined) throw new Error(`${address} is not an address`);
  const sockets = new Set<Socket>();
  const relay = (direction: Direction, from: Socket, to: Socket, plainBytes: number) => {
    const reader = new FrameReader(2 ** 20);
    let left = plainBytes;
    let place = 0;
    from.on('data', (piece) => {
      const plain = piece.subarray(0, left);
      left -= plain.length;
      if (plain.length > 0) to.write(plain);
      for (const body of reader.push(piece.subarray(plain.length))) {
        const frame = encodeFrame(body, 2 ** 20);
        const changed = change(direction, frame, place++);
        if (changed === 'cut') to.end(frame.subarray(0, frame.length / 2));
        else if (changed === 'back') from.write(frame);
        else for (const each of changed) to.write(each);
      }
    });
    from.on('close', () => to.destroySoon());
    from.on('error', () => undefined);
    sockets.add(from);
  };
  const server = createServer({ noDelay: true }, (dialer) => {
    const listener = createConnection({ ...target, noDelay: true });
    relay('to listener', dialer, listener, handshakeBytes['to listener'] + extraBytes);
    relay('to dialer', listener, dialer, handshakeBytes['to dialer']);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(async () => {
    for (const socket of sockets) socket.destroy();
    await new Promise((resolve) => server.close(resolve));
  });
  return `127.0.0.1:${(server.address() as { port: number }).port}`;
}

/** A frame with one changed byte, in the middle of its content. */
export function altered(frame: Buffer): Buffer {
  const copy = Buffer.from(frame);
  const at = Math.floor(copy.length / 2);
  copy.writeUInt8(copy.readUInt8(at) ^ 1, at);
  return copy;
}
