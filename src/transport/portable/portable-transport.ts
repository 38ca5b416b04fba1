// The portable transport for ranks of one host, without native code. Bytes go through files on a memory file system, by
// plain reads and writes; WASM kernels reduce them. It is slower than shared memory because of the system calls, and works
// wherever Node does.

import { availableParallelism } from 'node:os';
import { type ControlBlock, toError, toFailureRecord } from '../../control/control-block.ts';
import { defaultMemoryDirectory, type MemoryFile } from '../../control/memory-file.ts';
import type { HorovodError } from '../../errors.ts';
import { exchangePrepared, Openings, waitForMembers } from '../group/open-members.ts';
import type { GroupSpec, Transport, TransportGroup } from '../transport.ts';
import { createGroupFiles, type GroupFileSizes, mappedFiles, openGroupFiles } from './group-files.ts';
import { type GroupHost, PortableGroup } from './portable-group.ts';
import { type Rounds, roundsOf } from './round.ts';

export interface PortableTransportOptions {
  /** This process's global rank. */
  readonly rank: number;
  /** Ranks of this host. Default: all ranks of the control block. */
  readonly localSize?: number | undefined;
  /** The cores they share, where each rank may use only some of them. Default: what this process may use. */
  readonly localCores?: number | undefined;
  /** A memory file system. Default: /dev/shm. */
  readonly shmDirectory?: string | undefined;
  /** For tests: other sizes of posts and slots. All ranks need the same. */
  readonly sizes?: GroupFileSizes | undefined;
}

/**
 * Up to 64 KiB, one message between each pair of members costs less than the two extra synchronizations that steps need.
 * With slots of 64 to 512 KiB the bandwidth hardly differs; 256 KiB keeps what a step touches in a core's L2 cache.
 */
export const defaultSizes: GroupFileSizes = { eagerBytes: 64 * 1024, slotBytes: 256 * 1024 };

export class PortableTransport<Options extends PortableTransportOptions = PortableTransportOptions>
  implements Transport
{
  readonly name = 'portable';
  readonly canBlock = true;
  readonly background = 'none';
  protected readonly options: Options;
  readonly #control: ControlBlock;
  protected readonly openings: Openings;
  readonly #groups = new Set<PortableGroup>();
  readonly #host: GroupHost;
  #failure: HorovodError | undefined;

  constructor(control: ControlBlock, options: Options) {
    this.#control = control;
    this.options = options;
    this.openings = new Openings(options.rank);
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

  async openGroup(given: GroupSpec): Promise<TransportGroup> {
    if (this.#failure !== undefined) throw this.#failure;
    const spec = this.openings.begin(given);
    const sizes = this.options.sizes ?? defaultSizes;
    const members = spec.members.map((_, member) => member);
    const files = await this.openLocalFiles(spec, members, sizes);
    return this.admit(roundsOf(mappedFiles(files, spec.index, sizes)), spec);
  }

  /** One file for each member of this host (`local`: their indices); the first of them creates all. */
  protected async openLocalFiles(
    spec: GroupSpec,
    local: readonly number[],
    sizes: GroupFileSizes,
  ): Promise<MemoryFile[]> {
    const [first] = local as [number];
    let files: MemoryFile[] | undefined;
    try {
      const paths = await exchangePrepared(spec, () => {
        const directory = this.options.shmDirectory ?? defaultMemoryDirectory();
        if (spec.index === first)
          files = createGroupFiles(local.length, sizes, directory, spec.members.length);
        return files?.map(({ path }) => path) ?? [];
      });
      if (files !== undefined) return files;
      const pid = this.#control.pid(spec.members[first] as number);
      return openGroupFiles(paths[first] as string[], sizes, spec.members.length, pid);
    } catch (error) {
      for (const file of files ?? []) file.close();
      throw error;
    }
  }

  /** The group that runs these rounds, once all of its members are there. `pollUs` as in PortableGroup. */
  protected async admit(rounds: Rounds, spec: GroupSpec, pollUs?: number): Promise<TransportGroup> {
    const group = new PortableGroup(rounds, spec.members, this.#host, pollUs);
    this.#groups.add(group);
    // The creator of the files must not leave before the others have opened them.
    await waitForMembers(group, spec);
    return group;
  }

  adopt(): void {}

  alloc(bytes: number): ArrayBufferLike {
    return new ArrayBuffer(bytes);
  }

  /** Ends every wait, now and later, with this error, or with one that another rank has reported before. */
  fail(error: HorovodError): HorovodError {
    if (this.#failure === undefined) {
      this.#control.fail(toFailureRecord(error));
      const record = this.#control.failure();
      // This rank's error keeps its stack; of another rank's error there is only the record.
      const isOurs = record === undefined || error.message === `${record.code}: ${record.message}`;
      this.#failure = isOurs ? error : toError(record);
    }
    for (const group of this.#groups) group.fail(this.#failure);
    return this.#failure;
  }

  close(): void {
    this.openings.close();
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
}
