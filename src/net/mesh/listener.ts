// Where other ranks of the job connect to this one: one listener for each process. A rank that connects for a channel
// nobody here has asked for yet is parked until somebody does.

import { HorovodError } from '../../errors.ts';
import type { Connection } from '../connection.ts';
import { channelDigest, type Identity, type Purpose } from '../handshake.ts';
import { type Incoming, Listener, type ListenerOptions } from '../listener.ts';

export interface MeshListenerOptions
  extends Identity,
    Pick<ListenerOptions, 'networkInterfaces' | 'maxStrangers' | 'handshakeTimeoutMs'> {
  /** Default: 'ranks'. */
  readonly purpose?: Purpose;
  readonly rank: number;
  /** Connections for channels nobody here has asked for yet, and how long they are kept. */
  readonly maxParked?: number;
  readonly parkedTimeoutMs?: number;
}

export class MeshListener {
  readonly rank: number;
  readonly identity: Identity;
  readonly purpose: Purpose;
  /** Where this process may be reached, the likely addresses first: '10.0.0.1:4000', '[fd00::1]:4000'. */
  candidates: readonly string[] = [];
  readonly #maxParked: number;
  readonly #parkedTimeoutMs: number;
  readonly #parked = new Map<string, { incoming: Incoming; unpark(): void }>();
  readonly #awaited = new Map<string, (connection: Connection) => void>();
  #listener: Listener | undefined;

  private constructor(options: MeshListenerOptions) {
    const { rank, secret, jobId, purpose = 'ranks', maxParked = 4096, parkedTimeoutMs = 60_000 } = options;
    this.rank = rank;
    this.identity = { secret, jobId };
    this.purpose = purpose;
    this.#maxParked = maxParked;
    this.#parkedTimeoutMs = parkedTimeoutMs;
  }

  static async open(options: MeshListenerOptions): Promise<MeshListener> {
    const mesh = new MeshListener(options);
    const { rank, purpose } = mesh;
    const onIncoming = (incoming: Incoming) => mesh.#arrive(incoming);
    try {
      mesh.#listener = await Listener.open({ ...options, purpose, number: rank, onIncoming });
      mesh.#listener.holdProcess(false);
      mesh.candidates = mesh.#listener.addresses;
      return mesh;
    } catch (error) {
      mesh.close();
      if (HorovodError.is(error)) throw error;
      const text = `rank ${rank} cannot listen for the other ranks: ${(error as Error).message}.`;
      throw new HorovodError('ERR_HVD_RENDEZVOUS', text, { cause: error });
    }
  }

  /**
   * Hands the connection that `rank` makes for `channel` to `onConnection`, once; a later one replaces it as long as the
   * returned function, which ends the waiting, has not been called.
   */
  await(channel: string, rank: number, onConnection: (connection: Connection) => void): () => void {
    const key = keyOf(rank, channelDigest(this.identity, channel));
    if (this.#awaited.has(key)) {
      throw new Error(`rank ${this.rank} waits for rank ${rank} on the channel "${channel}" already`);
    }
    this.#awaited.set(key, onConnection);
    const parked = this.#parked.get(key);
    if (parked !== undefined) {
      parked.unpark();
      onConnection(parked.incoming.accept());
    }
    return () => {
      if (this.#awaited.get(key) === onConnection) this.#awaited.delete(key);
    };
  }

  /** Connections that wait for somebody here to ask for their channel. */
  get parked(): number {
    return this.#parked.size;
  }

  /** Connections that were handed out stay open. Twice is fine. */
  close(): void {
    void this.#listener?.close();
    for (const { incoming } of this.#parked.values()) incoming.socket.destroy();
    this.#awaited.clear();
  }

  #arrive(incoming: Incoming): void {
    const { from, channel } = incoming.claim;
    const key = keyOf(from, channel);
    const onConnection = this.#awaited.get(key);
    if (onConnection === undefined) this.#park(incoming, key);
    else onConnection(incoming.accept());
  }

  #park(incoming: Incoming, key: string): void {
    const { socket } = incoming;
    // A rank that comes again has lost its first connection.
    this.#parked.get(key)?.incoming.socket.destroy();
    if (this.#parked.size >= this.#maxParked) {
      const [oldest] = this.#parked.values();
      oldest?.unpark();
      oldest?.incoming.socket.destroy();
    }
    const timer = setTimeout(() => socket.destroy(), this.#parkedTimeoutMs).unref();
    // It has to wait for 'done': whatever it says before is wrong, and an end is seen because we read.
    const onData = () => socket.destroy();
    const unpark = () => {
      clearTimeout(timer);
      socket.off('data', onData);
      socket.off('close', unpark);
      if (this.#parked.get(key)?.incoming === incoming) this.#parked.delete(key);
    };
    socket.on('data', onData);
    socket.once('close', unpark);
    this.#parked.set(key, { incoming, unpark });
  }
}

function keyOf(rank: number, channel: Buffer): string {
  return `${rank} ${channel.toString('hex')}`;
}
