// PMI-1, the text protocol between a process and MPICH's process manager (also that of Intel MPI and of
// srun --mpi=pmi2), over an inherited socket: lines of `cmd=… key=value …`, one answer for each. Enough of it to carry
// one text of rank 0 to all ranks.

import { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { HorovodError } from '../../errors.ts';
import { type WaitOptions, waitFor } from '../../net/wait.ts';

export interface PmiOptions {
  readonly rank: number;
  /** Rank 0's text. */
  readonly text: string | undefined;
  /** False: MPI itself is going to use the connection, in this process. */
  readonly finalizes: boolean;
}

type Answer = Readonly<Record<string, string>>;

/** The socket of PMI_FD. Nobody else may use it meanwhile. */
export function openPmi(fd: number): Socket {
  try {
    return new Socket({ fd, readable: true, writable: true });
  } catch (error) {
    const text = `PMI_FD=${fd} is not a connection to a process manager: ${(error as Error).message}. Has a wrapper closed it?`;
    throw new HorovodError('ERR_HVD_RENDEZVOUS', text, { cause: error });
  }
}

/** Node's internal handle of a socket, as far as it matters here. */
interface Handle {
  setBlocking?(isBlocking: boolean): number;
  readStop?(): number;
}

/** Gives a socket that MPI is going to use back as it was: blocking, and read by nobody. */
export function returnPmi(socket: Socket): void {
  socket.pause();
  socket.unref();
  const { _handle: handle } = socket as unknown as { _handle?: Handle };
  // pause() alone reads on until Node's buffer is full.
  handle?.readStop?.();
  handle?.setBlocking?.(true);
}

/** Rank 0's text. */
export async function exchangeOverPmi(
  stream: Duplex,
  options: PmiOptions,
  wait: WaitOptions,
): Promise<string> {
  const { rank, text, finalizes } = options;
  const line = new PmiLine(stream, rank, wait);
  try {
    await line.ask('init pmi_version=1 pmi_subversion=1', 'response_to_init');
    const maxes = await line.ask('get_maxes', 'maxes');
    const longest = Math.min(Number(maxes['vallen_max'] ?? 0) || 256, 1024) - 16;
    const { kvsname } = await line.ask('get_my_kvsname', 'my_kvsname');
    if (rank === 0) {
      const pieces = cut(Buffer.from(text ?? '').toString('base64url'), longest);
      for (const [place, piece] of pieces.entries()) {
        const value = place === 0 ? `${pieces.length}.${piece}` : piece;
        await line.ask(`put kvsname=${kvsname} key=horovod-${place} value=${value}`, 'put_result');
      }
    }
    await line.ask('barrier_in', 'barrier_out');
    const get = async (place: number): Promise<string> => {
      const { value = '' } = await line.ask(`get kvsname=${kvsname} key=horovod-${place}`, 'get_result');
      return value;
    };
    const [count = '', first = ''] = (await get(0)).split('.');
    let encoded = first;
    for (let place = 1; place < Number(count); place++) encoded += await get(place);
    // Without it the manager would take the end of this process for a crash and end the other ranks.
    if (finalizes) await line.ask('finalize', 'finalize_ack');
    return Buffer.from(encoded, 'base64url').toString();
  } finally {
    line.end();
  }
}

class PmiLine {
  readonly #stream: Duplex;
  readonly #rank: number;
  readonly #signal: AbortSignal | undefined;
  readonly #deadline: number;
  #received = '';
  #isOver = false;
  #onLine: ((line: string | undefined) => void) | undefined;
  readonly #onData = (piece: Buffer): void => {
    this.#received += piece.toString('latin1');
    const end = this.#received.indexOf('\n');
    if (end < 0) return;
    const line = this.#received.slice(0, end);
    this.#received = this.#received.slice(end + 1);
    this.#onLine?.(line);
  };
  readonly #onEnd = (): void => {
    this.#isOver = true;
    this.#onLine?.(undefined);
  };

  constructor(stream: Duplex, rank: number, wait: WaitOptions) {
    this.#stream = stream;
    this.#rank = rank;
    this.#signal = wait.signal;
    this.#deadline = performance.now() + (wait.timeoutMs ?? 30_000);
    stream.on('data', this.#onData);
    for (const event of ['end', 'close', 'error']) stream.on(event, this.#onEnd);
  }

  async ask(command: string, answer: string): Promise<Answer> {
    const [name] = command.split(' ');
    const line = await this.#next(command);
    if (line === undefined) throw this.#failure(`closed the connection at "${name}"`);
    const fields: Answer = Object.fromEntries(
      line
        .split(' ')
        .filter((word) => word.includes('='))
        .map((word) => [word.slice(0, word.indexOf('=')), word.slice(word.indexOf('=') + 1)]),
    );
    if (fields['cmd'] === answer && (fields['rc'] ?? '0') === '0') return fields;
    throw this.#failure(`answered "${name}" with ${JSON.stringify(line.slice(0, 200))}`);
  }

  end(): void {
    this.#stream.off('data', this.#onData);
    for (const event of ['end', 'close', 'error']) this.#stream.off(event, this.#onEnd);
    this.#stream.on('error', () => undefined);
  }

  #next(command: string): Promise<string | undefined> {
    if (this.#isOver) return Promise.resolve(undefined);
    const timeoutMs = Math.max(1, this.#deadline - performance.now());
    const start = (resolve: (line: string | undefined) => void) => {
      this.#onLine = resolve;
      this.#stream.write(`cmd=${command}\n`);
    };
    const what = `of rank ${this.#rank} for the process manager (PMI)`;
    return waitFor(start, what, { signal: this.#signal, timeoutMs }, () => this.#timedOut(command));
  }

  #timedOut(command: string): HorovodError {
    const text = command.startsWith('barrier')
      ? 'not all ranks have come. Does every rank call init()?'
      : 'it does not answer.';
    return new HorovodError(
      'ERR_HVD_TIMEOUT',
      `rank ${this.#rank} waited too long for the process manager of mpiexec or srun (PMI): ${text} ` +
        'To wait longer, set HOROVOD_START_TIMEOUT.',
    );
  }

  #failure(what: string): HorovodError {
    return new HorovodError(
      'ERR_HVD_RENDEZVOUS',
      `rank ${this.#rank}: the process manager of mpiexec or srun (PMI) ${what}. ` +
        'Set HOROVOD_RENDEZVOUS=host:port, with a host of the job, to do without it.',
    );
  }
}

function cut(text: string, length: number): string[] {
  const pieces = text.match(new RegExp(`.{1,${length}}`, 'g'));
  return pieces ?? [''];
}
