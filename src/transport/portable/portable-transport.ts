// The portable transport: ranks of one host without any native code. Bytes go through files on a memory file system, by
// plain reads and writes; sums are made by WASM. Slower than shared memory by the system calls, and works
// wherever Node does.

import { availableParallelism } from 'node:os';
import { type ControlBlock, toError, toFailureRecord } from '../../control/control-block.ts';
import { defaultMemoryDirectory } from '../../control/memory-file.ts';
import { HorovodError } from '../../errors.ts';
import { abortedBy } from '../../net/wait.ts';
import type { GroupSpec, Outcome, Transport, TransportGroup } from '../transport.ts';
import { createGroupFiles, type GroupFileSizes, GroupFiles, openGroupFiles } from './group-files.ts';
import { type GroupHost, PortableGroup } from './portable-group.ts';
import { type Rounds, roundsOf } from './round.ts';

export interface PortableTransportOptions {
  /** This process's global rank. */
  readonly rank: number;
  /** Ranks of this host; all that the control block has where left out. */
  readonly localSize?: number | undefined;
  /** Cores of all ranks of this host, where each may use only some of them; else what this process may use. */
  readonly localCores?: number | undefined;
  /** A memory file system; /dev/shm where left out. */
  readonly shmDirectory?: string | undefined;
  /** For tests: other sizes of posts and slots. All ranks need the same. */
  readonly sizes?: GroupFileSizes | undefined;
}

/**
 * Up to 64 KiB one message from each to each costs less than the two more meetings that steps need. With slots
 * of 64 to 512 KiB the bandwidth hardly differs; 256 KiB keeps what a step touches in a core's second cache.
 */
export const defaultSizes: GroupFileSizes = { eagerBytes: 64 * 1024, slotBytes: 256 * 1024 };

export class PortableTransport implements Transport {
  readonly name = 'portable';
  readonly canBlock = true;
  readonly background = 'none';
  readonly #control: ControlBlock;
  readonly #options: PortableTransportOptions;
  readonly #groups = new Set<PortableGroup>();
  readonly #host: GroupHost;
  #failure: HorovodError | undefined;

  constructor(control: ControlBlock, options: PortableTransportOptions) {
    this.#control = control;
    this.#options = options;
    const failure = (): HorovodError | undefined => this.#failure;
    this.#host = {
      get failure() {
        return failure();
      },
      isCrowded: (options.localSize ?? control.ranks) > (options.localCores ?? availableParallelism()),
      fail: (error) => this.fail(error),
      findFailure: (ranks) => this.#findFailure(ranks),
      pumpOthers: (group) => {
        if (this.#groups.size > 1) for (const each of this.#groups) if (each !== group) each.pumpOnce();
      },
      onClose: (group) => this.#groups.delete(group),
    };
  }

  async openGroup(spec: GroupSpec): Promise<TransportGroup> {
    if (this.#failure !== undefined) throw this.#failure;
    const sizes = this.#options.sizes ?? defaultSizes;
    const files = await this.#openFiles(spec, sizes);
    return this.admit(roundsOf(new GroupFiles(files, spec.index, sizes)), spec);
  }

  /** The group that goes through these rounds, when all of its members are there. */
  protected async admit(rounds: Rounds, spec: GroupSpec, questionUs?: number): Promise<TransportGroup> {
    const group = new PortableGroup(rounds, spec.members, this.#host, questionUs);
    this.#groups.add(group);
    try {
      // Who made the files must not go before the others have opened them.
      await waitForAll(group, spec);
    } catch (error) {
      group.close();
      throw error;
    }
    return group;
  }

  adopt(): void {}

  alloc(bytes: number): ArrayBufferLike {
    return new ArrayBuffer(bytes);
  }

  /** Every wait, now and later, ends with this error, or with the one that another rank has reported before. */
  fail(error: HorovodError): HorovodError {
    if (this.#failure === undefined) {
      this.#control.fail(toFailureRecord(error));
      const record = this.#control.failure();
      // Our own error keeps its stack; of another rank's there is only the record.
      const isOurs = record === undefined || error.message === `${record.code}: ${record.message}`;
      this.#failure = isOurs ? error : toError(record);
    }
    for (const group of this.#groups) group.fail(this.#failure);
    return this.#failure;
  }

  close(): void {
    for (const group of [...this.#groups]) group.close();
  }

  #findFailure(ranks: readonly number[]): HorovodError | undefined {
    const record = this.#control.failure();
    if (record !== undefined) return toError(record);
    for (const rank of ranks) {
      const loss = this.#control.lossOf(rank);
      if (loss !== undefined) return loss;
    }
    return undefined;
  }

  async #openFiles(spec: GroupSpec, sizes: GroupFileSizes) {
    if (spec.index !== 0) {
      const [text = ''] = await spec.exchange('');
      const told = JSON.parse(text) as { paths?: string[]; error?: string };
      if (told.paths !== undefined) return openGroupFiles(told.paths);
      throw new HorovodError('ERR_HVD_SHARED_MEMORY', `rank ${spec.members[0]}: ${told.error}`);
    }
    const directory = this.#options.shmDirectory ?? defaultMemoryDirectory();
    let files: ReturnType<typeof createGroupFiles>;
    try {
      files = createGroupFiles(spec.members.length, sizes, directory);
    } catch (error) {
      // The others wait for an answer; an error is one.
      await spec.exchange(JSON.stringify({ error: (error as Error).message }));
      throw error;
    }
    try {
      await spec.exchange(JSON.stringify({ paths: files.map(({ path }) => path) }));
    } catch (error) {
      for (const file of files) file.close();
      throw error;
    }
    return files;
  }
}

async function waitForAll(group: PortableGroup, spec: GroupSpec): Promise<void> {
  const operation = { kind: 'barrier' } as const;
  const batch = {
    rounds: [{ fingerprintLow: spec.id >>> 0, fingerprintHigh: 0, operation }],
    passive: false,
    timeoutMs: spec.timeoutMs,
    stallAfterMs: 0,
    label: `opening the group of ranks ${spec.members.join(', ')}`,
  };
  let onAbort = (): void => {};
  const outcome = await new Promise<Outcome>((resolve, reject) => {
    onAbort = () => reject(abortedBy(spec.signal, batch.label));
    if (spec.signal?.aborted === true) onAbort();
    spec.signal?.addEventListener('abort', onAbort, { once: true });
    const result = group.submit(batch, (each) => (typeof each === 'string' ? resolve(each) : reject(each)));
    if (result !== undefined) resolve(result);
  }).finally(() => spec.signal?.removeEventListener('abort', onAbort));
  if (outcome === 'mismatch') {
    throw new HorovodError('ERR_HVD_PROCESS_SET', `${batch.label}: other ranks are opening another group`);
  }
}
