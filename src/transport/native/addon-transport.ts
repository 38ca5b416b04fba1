// What the transports of the native addon have in common: the mapped control block, memory that other ranks can reach, and
// the groups that are open. How a group comes about is each transport's own.

import { availableParallelism } from 'node:os';
import type { ControlBlock } from '../../control/control-block.ts';
import { HorovodError } from '../../errors.ts';
import { abortedBy } from '../../net/wait.ts';
import type { CompressionKernels } from '../../tensor/compression/kernels.ts';
import type {
  Background,
  GroupSpec,
  GrowingMemory,
  Outcome,
  Transport,
  TransportGroup,
  TransportName,
} from '../transport.ts';
import type { NativeAddon, NativeArena, NativeControl } from './addon.ts';
import type { AddonGroup } from './addon-group.ts';

export interface AddonTransportOptions {
  readonly rank: number;
  /** Ranks on this host, which share its cores. */
  readonly localSize: number;
  /** How many those are, where each rank may use only some of them; else what this process may use. */
  readonly localCores?: number | undefined;
  readonly shmDirectory?: string | undefined;
  /** May peers' memory be read directly (process_vm_readv)? */
  readonly cma: boolean;
  /** Defaults of the quick paths, which take no limits of their own. */
  readonly timeoutMs: number;
  readonly stallAfterMs: number;
}

/** Looks at the processor this often before it lets others run; measured, see docs/decisions. */
const spinsWithACoreForEveryRank = 50;

/**
 * Promise forms of up to this size run in the call itself if the peers are there already; larger ones go to the
 * group's thread and leave the event loop free. Where no core is to spare the thread would take it from this
 * rank's own computation anyway, and the two changes of thread cost more than the copying of megabytes.
 */
const tryUpToBytesWithACoreToSpare = 64 * 1024;
const tryUpToBytesWithout = 4 * 1024 * 1024;

export abstract class AddonTransport implements Transport {
  abstract readonly name: TransportName;
  readonly canBlock = true;
  readonly background: Background;
  readonly kernels: CompressionKernels;
  protected readonly addon: NativeAddon;
  protected readonly block: ControlBlock;
  protected readonly control: NativeControl;
  protected readonly arena: NativeArena;
  protected readonly spins: number;
  readonly #rank: number;
  readonly #groups = new Set<AddonGroup>();
  /** With the buffer that was tried: growing makes a new one. What is here is not collected, so its addresses stay its own. */
  readonly #adopted = new Map<GrowingMemory, ArrayBufferLike>();

  /** `waitsForWires`: operations wait more than they compute, so that a thread for them takes little from the ranks' own work. */
  constructor(
    addon: NativeAddon,
    block: ControlBlock,
    options: AddonTransportOptions,
    waitsForWires = false,
  ) {
    const { rank, localSize, localCores = availableParallelism() } = options;
    this.addon = addon;
    this.kernels = addon.compressionKernels;
    this.block = block;
    this.#rank = rank;
    this.background = waitsForWires || localSize < localCores ? 'spare' : 'crowded';
    this.spins = localSize > localCores ? 0 : spinsWithACoreForEveryRank;
    this.control = addon.openControl(block.fd, rank, block.ranks);
    this.arena = addon.openArena();
  }

  abstract openGroup(spec: GroupSpec): Promise<TransportGroup>;

  alloc(bytes: number): ArrayBufferLike {
    const buffer = this.addon.alloc(this.arena, bytes);
    if (buffer === undefined) {
      throw new HorovodError(
        'ERR_HVD_OUT_OF_MEMORY',
        `rank ${this.#rank}: alloc() found no ${bytes} bytes of shared memory. ` +
          'Free other tensors, or use an ordinary typed array.',
      );
    }
    return buffer ?? new ArrayBuffer(bytes);
  }

  adopt(memory: GrowingMemory): void {
    const { buffer } = memory;
    if (this.#adopted.get(memory) === buffer) return;
    // An operation that goes on may write to it while its pages are exchanged.
    for (const group of this.#groups) if (group.isBusy) return;
    if (buffer instanceof ArrayBuffer) this.addon.adopt(this.arena, buffer);
    this.#adopted.set(memory, buffer);
  }

  close(): void {
    this.#adopted.clear();
    for (const group of this.#groups) group.close();
    this.addon.closeControl(this.control);
  }

  /** What a promise form of a group with these peers may do on the main thread. */
  protected get tryUpToBytes(): number {
    return this.background === 'spare' ? tryUpToBytesWithACoreToSpare : tryUpToBytesWithout;
  }

  /** Takes the group over and runs a first barrier: when it is over every member has opened its half. */
  protected async admit(group: AddonGroup, spec: GroupSpec): Promise<void> {
    this.#groups.add(group);
    group.onClose = () => this.#groups.delete(group);
    const { id, signal, timeoutMs } = spec;
    const label = `the opening of process set ${id}`;
    let onAbort = (): void => {};
    const opened = new Promise((resolve, reject) => {
      const settle = (outcome: Outcome | HorovodError) =>
        outcome instanceof HorovodError ? reject(outcome) : resolve(outcome);
      onAbort = () => reject(abortedBy(signal, `rank ${this.#rank}: ${label}`));
      if (signal?.aborted === true) onAbort();
      signal?.addEventListener('abort', onAbort, { once: true });
      const outcome = group.submit(
        {
          rounds: [{ fingerprintLow: 0, fingerprintHigh: 0, operation: { kind: 'barrier' } }],
          passive: false,
          timeoutMs,
          stallAfterMs: 0,
          label,
        },
        settle,
      );
      if (outcome !== undefined) settle(outcome);
    });
    try {
      await opened;
    } catch (error) {
      group.close();
      throw error;
    } finally {
      signal?.removeEventListener('abort', onAbort);
    }
  }
}
