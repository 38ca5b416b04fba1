// What the transports of the native addon have in common: the mapped control block, memory that other ranks can reach, and
// the open groups. Each transport opens groups in its own way.

import { availableParallelism } from 'node:os';
import type { ControlBlock } from '../../control/control-block.ts';
import { createMemoryFile, type MemoryFile, openMemoryFile } from '../../control/memory-file.ts';
import type { HorovodError } from '../../errors.ts';
import type { CompressionKernels } from '../../tensor/compression/kernels.ts';
import { Openings, waitForCalibration, waitForMembers } from '../group/open-members.ts';
import type {
  Background,
  GroupSpec,
  GrowingMemory,
  Transport,
  TransportGroup,
  TransportName,
} from '../transport.ts';
import type { NativeAddon, NativeArena, NativeControl, NativeGroup, NativeGroupOptions } from './addon.ts';
import { addonError } from './addon-error.ts';
import { AddonGroup } from './addon-group.ts';
import { handsOffMs, lateWriterError, ranksKillAfterMs } from './hands-off.ts';
import { ReachableMemory } from './reachable-memory.ts';

export interface AddonTransportOptions {
  readonly rank: number;
  /** Ranks on this host, which share its cores. */
  readonly localSize: number;
  /** The cores they share, where each rank may use only some of them. Default: what this process may use. */
  readonly localCores?: number | undefined;
  readonly shmDirectory?: string | undefined;
  /** Whether peers' memory may be read directly (process_vm_readv). */
  readonly cma: boolean;
  /**
   * Whether groups try, when they open, from which sizes on that is faster; only if all members of a host want it. Undefined: none of
   * them does.
   */
  readonly calibrates?: boolean | undefined;
  /** Limits of the quick paths, which take none with each call. */
  readonly timeoutMs: number;
  readonly stallAfterMs: number;
  /** horovodrun watches the control block and kills a rank for which the others wait in fence(). */
  readonly hasLauncher?: boolean | undefined;
  /** Of a process that outlives this transport and goes on with the same memory. Default: its own. */
  readonly memory?: ReachableMemory | undefined;
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
  readonly #memory: ReachableMemory;
  readonly #openings: Openings;
  readonly #spins: number;
  readonly #groups = new Set<AddonGroup>();
  /** After fence(): the rank that may still write into memory of this one, or -1. */
  #lateWriter: number | undefined;
  #unsafe: HorovodError | undefined;

  /** `waitsForNetwork`: operations wait more than they compute, so a thread for them takes little from the ranks' computation. */
  constructor(addon: NativeAddon, block: ControlBlock, options: Options, waitsForNetwork = false) {
    const { rank, localSize, localCores = availableParallelism() } = options;
    this.addon = addon;
    this.kernels = addon.compressionKernels;
    this.block = block;
    this.options = options;
    this.background = waitsForNetwork || localSize < localCores ? 'spare' : 'crowded';
    this.#spins = localSize > localCores ? 0 : spinsWithACoreForEveryRank;
    this.#openings = new Openings(rank);
    try {
      this.#memory = options.memory ?? new ReachableMemory();
      // First: it leaves nothing behind if the other one fails.
      this.arena = this.#memory.arenaOf(addon);
      this.control = addon.openControl(block.fd, rank, block.ranks);
    } catch (error) {
      throw addonError(rank, 'the native transport did not start', error);
    }
  }

  abstract openGroup(spec: GroupSpec): Promise<TransportGroup>;

  alloc(bytes: number): ArrayBufferLike {
    return this.#memory.alloc(this.addon, bytes, this.options.rank);
  }

  adopt(memory: GrowingMemory): void {
    if (this.#memory.isAdopted(memory)) return;
    // An operation in the background might write to the memory while its pages are replaced.
    for (const group of this.#groups) if (group.isBusy) return;
    this.#memory.adopt(memory);
  }

  fence(failure: HorovodError): HorovodError {
    this.#lateWriter ??= this.#waitForHandsOff();
    if (this.#lateWriter < 0) return failure;
    const { rank } = this.options;
    this.#unsafe ??= lateWriterError(rank, this.#lateWriter, this.block.pid(this.#lateWriter), failure);
    return this.#unsafe;
  }

  /** Returns the rank that may still write into memory that this rank will use again; -1 if there is none. */
  #waitForHandsOff(): number {
    const deadline = performance.now() + handsOffMs;
    const killAfterMs = ranksKillAfterMs[this.options.hasLauncher === true ? 'withLauncher' : 'alone'];
    const lateWriter = this.addon.fence(this.control, killAfterMs, handsOffMs);
    // The threads of this process write into its arrays, too. They have noticed the failure, or will at their next wait.
    for (const group of this.#groups) group.settle(Math.max(0, deadline - performance.now()));
    if (lateWriter < 0) return lateWriter;
    // A process that cannot be killed (state D) must not end all ranks of its host: memory of alloc() is given up instead.
    const exposed = [...this.#groups].flatMap((group) => group.exposed);
    return this.addon.retire(this.arena, exposed) ? -1 : lateWriter;
  }

  close(): void {
    this.#openings.close();
    for (const group of this.#groups) group.close();
    this.addon.closeControl(this.control);
    if (this.options.memory === undefined) this.#memory.close();
  }

  /** The memory that the members of a group on this host share. */
  protected createSegment(members: number): MemoryFile {
    return createMemoryFile(this.addon.bytesPerMember * members, {
      directory: this.options.shmDirectory,
      label: 'the shared segment of a process set',
    });
  }

  /** That of a group of `members`, which `rank` has created. */
  protected openSegment(path: string, members: number, rank: number): MemoryFile {
    return openMemoryFile(path, {
      bytes: this.addon.bytesPerMember * members,
      pids: [this.block.pid(rank)],
    });
  }

  /** To be called first in openGroup(). */
  protected beginOpening(spec: GroupSpec): GroupSpec & { readonly signal: AbortSignal } {
    return this.#openings.begin(spec);
  }

  /** This member's half of a group, which `open` makes with the addon; admit() completes it. */
  protected createGroup(
    spec: GroupSpec,
    segment: MemoryFile | undefined,
    open: (options: NativeGroupOptions) => NativeGroup,
  ): AddonGroup {
    const { rank, timeoutMs, stallAfterMs } = this.options;
    try {
      return new AddonGroup({
        block: this.block,
        rank,
        spec,
        tryUpToBytes: this.background === 'spare' ? tryUpToBytesWithASpareCore : tryUpToBytesWithout,
        fence: (failure) => this.fence(failure),
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
            handsOffMs,
            report,
            mailbox,
          }),
      });
    } catch (error) {
      throw addonError(
        rank,
        `process set ${spec.id} of ranks ${spec.members.join(', ')} did not open`,
        error,
      );
    }
  }

  /** After admit(): finds out how this member reaches the memory of the others on its host. All of them call it. */
  protected async explore(group: AddonGroup, spec: GroupSpec): Promise<void> {
    const { cma, calibrates } = this.options;
    group.probe(cma);
    if (calibrates === undefined) return;
    await waitForCalibration(group, calibrates, spec);
  }

  /** Registers the group and waits until every member has opened its half. */
  protected async admit(group: AddonGroup, spec: GroupSpec): Promise<void> {
    this.#groups.add(group);
    group.onClose = () => this.#groups.delete(group);
    await waitForMembers(group, spec);
  }
}
