// Somebody on the way: forwards every connection to a listener, keeps what the dialer sends, and does something to it when it
// is told to.

import { type AddressInfo, createConnection, createServer, type Server, type Socket } from 'node:net';

/** What happens to bytes of the dialer: one bit is flipped, they arrive twice, or only a part and then the end. */
export type Mischief = 'flip' | 'repeat' | 'cut';

export class Relay {
  /** What the dialers have sent. */
  readonly captured: Buffer[] = [];
  #armed: { readonly mischief: Mischief; bytesBefore: number } | undefined;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();

  private constructor(target: { readonly host: string; readonly port: number }) {
    this.#server = createServer((dialer) => this.#connect(dialer, createConnection(target)));
  }

  /** `target`: host:port. */
  static async open(target: string): Promise<Relay> {
    const cut = target.lastIndexOf(':');
    const relay = new Relay({ host: target.slice(0, cut), port: Number(target.slice(cut + 1)) });
    await new Promise<void>((resolve) => relay.#server.listen(0, '127.0.0.1', resolve));
    return relay;
  }

  get address(): string {
    return `127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Does it once, when so many bytes have passed from now on. */
  arm(mischief: Mischief, bytesBefore: number): void {
    this.#armed = { mischief, bytesBefore };
  }

  close(): void {
    this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
  }

  #connect(dialer: Socket, listener: Socket): void {
    for (const [socket, other] of [
      [dialer, listener],
      [listener, dialer],
    ] as const) {
      this.#sockets.add(socket);
      socket.setNoDelay(true);
      socket.on('error', () => socket.destroy());
      socket.on('close', () => other.destroy());
    }
    listener.on('data', (bytes) => dialer.write(bytes));
    dialer.on('data', (bytes: Buffer) => {
      this.captured.push(Buffer.from(bytes));
      const mischief = this.#due(bytes.length);
      const middle = Math.floor(bytes.length / 2);
      if (mischief === 'flip') bytes.writeUInt8(bytes.readUInt8(middle) ^ 1, middle);
      if (mischief === 'cut') listener.end(bytes.subarray(0, middle));
      else listener.write(mischief === 'repeat' ? Buffer.concat([bytes, bytes]) : bytes);
    });
  }

  #due(bytes: number): Mischief | undefined {
    const armed = this.#armed;
    if (armed === undefined) return undefined;
    armed.bytesBefore -= bytes;
    if (armed.bytesBefore >= 0) return undefined;
    this.#armed = undefined;
    return armed.mischief;
  }
}
