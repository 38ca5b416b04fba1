// What the transports of the native addon have in common: the mapped control block, memory that other ranks can reach, and
// the open groups. Each transport opens groups in its own way.

import { availableParallelism } from 'node:os';
import type { ControlBlock } from '../../control/control-block.ts';
import { createMemoryFile, type MemoryFile } from '../../control/memory-file.ts';
import { HorovodError } from '../../errors.ts';
import type { CompressionKernels } from '../../tensor/compression/kernels.ts';
import { waitForMembers } from '../group/open-members.ts';
import type {
  Background,
  GroupSpec,
  GrowingMemory,
  Transport,
  TransportGroup,
  TransportName,
} from '../transport.ts';
import type { NativeAddon, NativeArena, NativeControl, NativeGroup, NativeGroupOptions } from './addon.ts';
import { AddonGroup } from './addon-group.ts';

export interface AddonTransportOptions {
  readonly rank: number;
  /** Ranks on this host, which share its cores. */
  readonly localSize: number;
  /** The cores they share, where each rank may use only some of them. Default: what this process may use. */
  readonly localCores?: number | undefined;
  readonly shmDirectory?: string | undefined;
  /** Whether peers' memory may be read directly (process_vm_readv). */
  readonly cma: boolean;
  /** Limits of the quick paths, which take none with each call. */
  readonly timeoutMs: number;
  readonly stallAfterMs: number;
}

/** How often a waiting rank polls before it yields its core; measured, see docs/decisions. */
const spinsWithACoreForEveryRank = 50;

/**
 * Promise forms of up to this size run in the call itself if the peers are there already; larger ones go to the
 * group's thread and leave the event loop free. Without a spare core the thread would compete with this
 * rank's computation anyway, and two thread switches cost more than copying megabytes.
 */
const tryUpToBytesWithASpareCore = 64 * 1024;
const tryUpToBytesWithout = 4 * 1024 * 1024;

export abstract class AddonTransport<Options extends AddonTransportOptions = AddonTransportOptions>
  implements Transport
{
  abstract readonly name: TransportName;
  readonly canBlock = true;
  readonly background: Background;
  readonly kernels: CompressionKernels;
  protected readonly addon: NativeAddon;
  protected readonly block: ControlBlock;
  protected readonly options: Options;
  protected readonly control: NativeControl;
  protected readonly arena: NativeArena;
  readonly #spins: number;
  readonly #groups = new Set<AddonGroup>();
  /** With the buffer that was tried, which growing replaces. Memory in here is not collected, so its addresses stay valid. */
  readonly #adopted = new Map<GrowingMemory, ArrayBufferLike>();

  /** `waitsForNetwork`: operations wait more than they compute, so a thread for them takes little from the ranks' computation. */
  constructor(addon: NativeAddon, block: ControlBlock, options: Options, waitsForNetwork = false) {
    const { rank, localSize, localCores = availableParallelism() } = options;
    this.addon = addon;
    this.kernels = addon.compressionKernels;
    this.block = block;
    this.options = options;
    this.background = waitsForNetwork || localSize < localCores ? 'spare' : 'crowded';
    this.#spins = localSize > localCores ? 0 : spinsWithACoreForEveryRank;
    this.control = addon.openControl(block.fd, rank, block.ranks);
    this.arena = addon.openArena();
  }

  abstract openGroup(spec: GroupSpec): Promise<TransportGroup>;

  alloc(bytes: number): ArrayBufferLike {
    const buffer = this.addon.alloc(this.arena, bytes);
    if (buffer === undefined) {
      throw new HorovodError(
        'ERR_HVD_OUT_OF_MEMORY',
        `rank ${this.options.rank}: alloc() could not get ${bytes} bytes of shared memory. ` +
          'Free other tensors, or use an ordinary typed array.',
      );
    }
    return buffer ?? new ArrayBuffer(bytes);
  }

  adopt(memory: GrowingMemory): void {
    const { buffer } = memory;
    if (this.#adopted.get(memory) === buffer) return;
    // An operation in the background might write to the memory while its pages are replaced.
    for (const group of this.#groups) if (group.isBusy) return;
    if (buffer instanceof ArrayBuffer) this.addon.adopt(this.arena, buffer);
    this.#adopted.set(memory, buffer);
  }

  close(): void {
    this.#adopted.clear();
    for (const group of this.#groups) group.close();
    this.addon.closeControl(this.control);
  }

  /** The memory that the members of a group on this host share. */
  protected createSegment(members: number): MemoryFile {
    return createMemoryFile(this.addon.bytesPerMember * members, {
      directory: this.options.shmDirectory,
      label: 'the shared segment of a process set',
    });
  }

  /** This member's half of a group, which `open` makes with the addon; admit() completes it. */
  protected createGroup(
    spec: GroupSpec,
    segment: MemoryFile | undefined,
    open: (options: NativeGroupOptions) => NativeGroup,
  ): AddonGroup {
    const { rank, timeoutMs, stallAfterMs } = this.options;
    return new AddonGroup({
      block: this.block,
      rank,
      spec,
      tryUpToBytes: this.background === 'spare' ? tryUpToBytesWithASpareCore : tryUpToBytesWithout,
      open: (report, mailbox) =>
        open({
          control: this.control,
          arena: this.arena,
          ranks: Int32Array.from(spec.members),
          index: spec.index,
          segmentFd: segment?.fd ?? -1,
          spins: this.#spins,
          timeoutMs,
          stallAfterMs,
          report,
          mailbox,
        }),
    });
  }

  /** Registers the group and waits until every member has opened its half. */
  protected async admit(group: AddonGroup, spec: GroupSpec): Promise<void> {
    this.#groups.add(group);
    group.onClose = () => this.#groups.delete(group);
    await waitForMembers(group, spec);
  }
}
