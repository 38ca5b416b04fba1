// Memory of this process that the other ranks of its host reach without a copy: the blocks of alloc(), and adopted heaps of
// WebAssembly. A transport has its own, and its end is the transport's; a worker of an elastic job keeps one for all of its
// generations, because a heap can be adopted once only, and tensors in it live on.

import { HorovodError } from '../../errors.ts';
import type { GrowingMemory } from '../transport.ts';
import type { NativeAddon, NativeArena } from './addon.ts';

export class ReachableMemory {
  #addon: NativeAddon | undefined;
  #arena: NativeArena | undefined;
  /** With the buffer that was tried, which growing replaces. Memory in here is not collected, so its addresses stay valid. */
  readonly #adopted = new Map<GrowingMemory, ArrayBufferLike>();

  /** Made with the first call. Throws what the addon throws. */
  arenaOf(addon: NativeAddon): NativeArena {
    this.#addon = addon;
    this.#arena ??= addon.openArena();
    return this.#arena;
  }

  /** Zeroed; garbage collected like any other. `rank`: for the error. */
  alloc(addon: NativeAddon, bytes: number, rank: number): ArrayBufferLike {
    const buffer = addon.alloc(this.arenaOf(addon), bytes);
    if (buffer === undefined) {
      throw new HorovodError(
        'ERR_HVD_OUT_OF_MEMORY',
        `rank ${rank}: alloc() could not get ${bytes} bytes of shared memory. ` +
          'Free other tensors, or use an ordinary typed array.',
      );
    }
    return buffer ?? new ArrayBuffer(bytes);
  }

  isAdopted(memory: GrowingMemory): boolean {
    return this.#adopted.get(memory) === memory.buffer;
  }

  /** While nothing writes to it. */
  adopt(memory: GrowingMemory): void {
    const { buffer } = memory;
    if (this.#addon !== undefined && this.#arena !== undefined && buffer instanceof ArrayBuffer)
      this.#addon.adopt(this.#arena, buffer);
    this.#adopted.set(memory, buffer);
  }

  close(): void {
    this.#adopted.clear();
    if (this.#arena !== undefined) this.#addon?.closeArena(this.#arena);
    this.#arena = undefined;
  }
}
