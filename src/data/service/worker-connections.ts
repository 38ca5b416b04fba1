// A trainer's connections to the compute workers of its dispatcher, and the batches that come over them or, on the same host, through
// the memory of the worker.

import { hostname } from 'node:os';
import { HorovodError } from '../../errors.ts';
import type { Identity } from '../../net/handshake.ts';
import type { NativeSearch } from '../../transport/native/load.ts';
import { type ArenaPlace, PeerBatches } from './batch-arena.ts';
import { nameOf } from './job.ts';
import { dialLink, type Link } from './link.ts';
import type { Message, WorkerPlace } from './messages.ts';
import { workerChannel } from './worker.ts';

type BatchMessage = Extract<Message, { kind: 'batch' }>;

export interface WorkerConnectionsOptions {
  readonly identity: Identity;
  readonly isEncrypted: boolean;
  readonly consumer: number;
  readonly timeoutMs: number;
  readonly maxBatchBytes: number;
  readonly silenceMs?: number | undefined;
  /** Undefined: no memory is shared. */
  readonly sharing: NativeSearch | undefined;
  /** Memory for a payload, at least so many bytes. */
  readonly allocate: (bytes: number) => ArrayBuffer;
  readonly onBatch: (message: BatchMessage, payload: Uint8Array | undefined) => void;
  /** It would fail again. */
  readonly onFailed: (error: unknown) => void;
}

interface WorkerConnection {
  readonly place: WorkerPlace;
  readonly controller: AbortController;
  link: Link | undefined;
  /** The worker's arena. */
  memory: PeerBatches | undefined;
  /** Its memory was in reach, and is no longer. */
  hasFailed: boolean;
}

const redialMs = 200;

export class WorkerConnections {
  readonly #options: WorkerConnectionsOptions;
  readonly #workers = new Map<string, WorkerConnection>();
  #job: string | undefined;

  constructor(options: WorkerConnectionsOptions) {
    this.#options = options;
  }

  /** Connects to those that are new, and leaves those that are not among them. */
  set(places: readonly WorkerPlace[]): void {
    const known = new Set(places.map(({ token }) => token));
    for (const [token, each] of this.#workers) {
      if (known.has(token)) continue;
      // What it has sent may still arrive.
      each.controller.abort();
      this.#workers.delete(token);
      setTimeout(() => {
        each.link?.close();
        each.memory?.close();
      }, redialMs).unref();
    }
    for (const place of places) {
      if (this.#workers.has(place.token)) continue;
      const controller = new AbortController();
      const connection = { place, controller, link: undefined, memory: undefined, hasFailed: false };
      this.#workers.set(place.token, connection);
      void this.#connect(connection);
    }
  }

  /** The job that workers are told from now on; undefined: none, until the dispatcher has one. */
  introduce(job: string | undefined): void {
    this.#job = job;
    for (const each of this.#workers.values()) this.#introduce(each);
  }

  close(): void {
    for (const { controller, link, memory } of this.#workers.values()) {
      controller.abort();
      link?.close();
      memory?.close();
    }
    this.#workers.clear();
  }

  /** For tests: as if the process had been killed. */
  fail(error: HorovodError): void {
    for (const { link } of this.#workers.values()) link?.fail(error);
  }

  async #connect(connection: WorkerConnection): Promise<void> {
    const { identity, isEncrypted, consumer, timeoutMs, maxBatchBytes, silenceMs, allocate, onFailed } =
      this.#options;
    const { place, controller } = connection;
    const { signal } = controller;
    while (!signal.aborted) {
      let onLost: () => void = () => {};
      const ended = new Promise<void>((resolve) => {
        onLost = resolve;
      });
      try {
        connection.link = await dialLink(
          {
            identity,
            from: consumer,
            to: 0,
            channel: workerChannel(place.token, isEncrypted),
            addresses: place.addresses,
            timeoutMs,
            signal,
          },
          {
            name: nameOf(place),
            isEncrypted,
            maxPayloadBytes: maxBatchBytes,
            silenceMs,
            allocate,
            onMessage: (message, payload) => this.#receive(connection, message, payload),
            onLost: (error) => {
              connection.link = undefined;
              connection.memory?.close();
              connection.memory = undefined;
              // Tampered, or too large: it would be so again.
              const isOfLink = error.code === 'ERR_HVD_TAMPERED' || /there is room for/.test(error.detail);
              if (isOfLink) onFailed(error);
              onLost();
            },
          },
        );
      } catch (error) {
        // The dispatcher reaches it, and this trainer does not.
        if (!signal.aborted) onFailed(error);
        return;
      }
      this.#introduce(connection);
      await ended;
      if (!signal.aborted) await new Promise((resolve) => setTimeout(resolve, redialMs));
    }
  }

  #introduce({ link, place, hasFailed }: WorkerConnection): void {
    const { consumer, sharing } = this.#options;
    const shares = sharing !== undefined && !hasFailed && place.host === hostname();
    if (this.#job !== undefined) link?.send({ kind: 'receive', job: this.#job, consumer, shares });
  }

  #receive(connection: WorkerConnection, message: Message, payload: Uint8Array | undefined): void {
    if (message.kind === 'arena') this.#openArena(connection, message.place);
    if (message.kind !== 'batch') return;
    const { shared } = message;
    if (shared === undefined) {
      this.#options.onBatch(message, payload);
      return;
    }
    const { link, place, memory } = connection;
    const bytes = shared.pieces.reduce((sum, [, each]) => sum + each, 0);
    const { maxBatchBytes, allocate } = this.#options;
    if (bytes > maxBatchBytes) {
      link?.fail(
        lost(
          `${nameOf(place)} has a batch of ${bytes} bytes, and there is room for ${maxBatchBytes}. Make batches smaller, or raise HOROVOD_DATA_MEMORY_MB`,
        ),
      );
      return;
    }
    const target = new Uint8Array(allocate(bytes), 0, bytes);
    if (memory?.copy(shared.pieces, target) !== true) {
      // The next connection does without.
      connection.hasFailed = true;
      link?.fail(lost(`the memory of ${nameOf(place)} cannot be read`));
      return;
    }
    link?.send({ kind: 'copied', number: shared.number });
    this.#options.onBatch(message, target);
  }

  #openArena(connection: WorkerConnection, place: ArenaPlace): void {
    const { sharing } = this.#options;
    connection.memory?.close();
    connection.memory = sharing === undefined ? undefined : PeerBatches.open(sharing, place);
    connection.link?.send({ kind: 'arena-opened', id: place.id, isOpen: connection.memory !== undefined });
  }
}

function lost(reason: string): HorovodError {
  return new HorovodError('ERR_HVD_DATA_SERVICE', `data service: ${reason}.`);
}
