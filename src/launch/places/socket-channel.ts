// The channel to an agent that has dialed back: an authenticated connection, with messages in sealed frames.

import type { Connection } from '../../net/connection.ts';
import { ProtocolError } from '../../net/frames.ts';
import { SealedFrames } from '../../net/sealed-frames.ts';
import type { AgentChannel, ChannelListener } from '../agent/channel.ts';
import { maxFrameBytes } from '../agent/protocol.ts';
import { within } from '../job-parts/within.ts';

/** How long an agent may take to end. Its ranks have ended before. */
const closeMs = 4000;

export class SocketChannel implements AgentChannel {
  readonly #connection: Connection;
  readonly #frames: SealedFrames;
  readonly #closed: Promise<void>;
  #isOver = false;

  constructor(connection: Connection) {
    this.#connection = connection;
    this.#frames = new SealedFrames(connection.keysFor('frames'), maxFrameBytes);
    const { socket } = connection;
    socket.on('error', () => undefined);
    this.#closed = new Promise((resolve) => socket.once('close', () => resolve()));
  }

  /** Of the agent, as this side sees it. */
  get address(): string {
    return this.#connection.address;
  }

  listen(listener: ChannelListener): void {
    const { socket } = this.#connection;
    const end = (why: string) => {
      if (this.#isOver) return;
      this.#isOver = true;
      socket.destroy();
      listener.onEnd(why);
    };
    socket.on('data', (piece: Buffer) => {
      listener.onHeard();
      try {
        for (const body of this.#frames.open(piece)) listener.onMessage(body);
      } catch (error) {
        if (!(error instanceof ProtocolError)) throw error;
        end(`its agent sent ${error.message}, which is not a valid message`);
      }
    });
    void this.#closed.then(() =>
      end('its agent was killed, perhaps together with the task or executor that ran it'),
    );
    socket.resume();
  }

  send(body: Buffer): void {
    if (!this.#isOver) this.#connection.socket.write(this.#frames.seal(body));
  }

  async close(): Promise<void> {
    this.#isOver = true;
    this.#connection.socket.end();
    await within(this.#closed, closeMs);
    this.#connection.socket.destroy();
  }

  kill(): void {
    this.#isOver = true;
    this.#connection.socket.destroy();
  }
}
