// The native plane for ranks of one host: a memory-mapped segment for each group, moved and reduced by the
// addon. This file opens and closes things; native/addon-group.ts runs jobs.

import { availableParallelism } from 'node:os';
import { HorovodError } from '../../errors.ts';
import type { NativeAddon, NativeArena, NativeControl } from '../../native/addon.ts';
import type { ControlBlock } from '../control-block.ts';
import { createMemoryFile, openMemoryFile } from '../memory-file.ts';
import { AddonGroup } from '../native/addon-group.ts';
import type { Background, DataPlane, GroupSpec, GrowingMemory, Outcome, PlaneGroup } from '../plane.ts';

export interface ShmPlaneOptions {
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

export class ShmPlane implements DataPlane {
  readonly name = 'shm';
  readonly canBlock = true;
  readonly background: Background;
  readonly #addon: NativeAddon;
  readonly #block: ControlBlock;
  readonly #options: ShmPlaneOptions;
  readonly #cores: number;
  readonly #control: NativeControl;
  readonly #arena: NativeArena;
  readonly #groups = new Set<AddonGroup>();
  /** With the buffer that was tried: growing makes a new one. What is here is not collected, so its addresses stay its own. */
  readonly #adopted = new Map<GrowingMemory, ArrayBufferLike>();

  constructor(addon: NativeAddon, block: ControlBlock, options: ShmPlaneOptions) {
    this.#addon = addon;
    this.#block = block;
    this.#options = options;
    this.#cores = options.localCores ?? availableParallelism();
    this.background = options.localSize < this.#cores ? 'spare' : 'crowded';
    this.#control = addon.openControl(block.fd, options.rank, block.ranks);
    this.#arena = addon.openArena();
  }

  async openGroup(spec: GroupSpec): Promise<PlaneGroup> {
    const { rank, shmDirectory, cma, localSize, timeoutMs, stallAfterMs } = this.#options;
    const own =
      spec.index === 0
        ? createMemoryFile(this.#addon.bytesPerMember * spec.members.length, {
            directory: shmDirectory,
            label: 'the shared segment of a process set',
          })
        : undefined;
    const [path = ''] = await spec.exchange(own?.path ?? '');
    const file = own ?? openMemoryFile(path);
    try {
      const spins = localSize > this.#cores ? 0 : spinsWithACoreForEveryRank;
      const tryUpToBytes = this.background === 'spare' ? tryUpToBytesWithACoreToSpare : tryUpToBytesWithout;
      const group = new AddonGroup(this.#block, rank, spec, tryUpToBytes, (report, mailbox) =>
        this.#addon.openGroup(
          this.#control,
          this.#arena,
          file.fd,
          Int32Array.from(spec.members),
          spec.index,
          spins,
          timeoutMs,
          stallAfterMs,
          report,
          mailbox,
        ),
      );
      this.#groups.add(group);
      group.onClose = () => this.#groups.delete(group);
      await this.#meet(group, spec);
      group.probe(cma);
      return group;
    } finally {
      // All have mapped it, or the group does not come about.
      file.close();
    }
  }

  alloc(bytes: number): ArrayBufferLike {
    const buffer = this.#addon.alloc(this.#arena, bytes);
    if (buffer === undefined) {
      throw new HorovodError(
        'ERR_HVD_OUT_OF_MEMORY',
        `rank ${this.#options.rank}: alloc() found no ${bytes} bytes of shared memory. ` +
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
    if (buffer instanceof ArrayBuffer) this.#addon.adopt(this.#arena, buffer);
    this.#adopted.set(memory, buffer);
  }

  close(): void {
    this.#adopted.clear();
    for (const group of this.#groups) group.close();
    this.#addon.closeControl(this.#control);
  }

  /** A first barrier: when it is over every member has mapped the segment. */
  #meet(group: AddonGroup, spec: GroupSpec): Promise<Outcome> {
    return new Promise((resolve, reject) => {
      const settle = (outcome: Outcome | HorovodError) =>
        outcome instanceof HorovodError ? reject(outcome) : resolve(outcome);
      const outcome = group.submit(
        {
          rounds: [{ fingerprintLow: 0, fingerprintHigh: 0, operation: { kind: 'barrier' } }],
          passive: false,
          timeoutMs: spec.timeoutMs,
          stallAfterMs: 0,
          label: `the opening of process set ${spec.id}`,
        },
        settle,
      );
      if (outcome !== undefined) settle(outcome);
    });
  }
}
