// What a lossy compressor keeps of the gradients of one optimizer or gradient function of horovod/jax (adapters/residuals.ts), by the place
// of a leaf in its tree.

import type { MemoryOptions } from '../../operations/collectives/allreduce-compressed.ts';
import { isReducing } from '../../tensor/compression/compressor.ts';
import type { AdapterContext } from '../context.ts';
import type { Reduction } from '../gradient-options.ts';
import { Residuals } from '../residuals.ts';
import { takeApart } from './trees.ts';

export class TreeResiduals {
  readonly #reduction: Reduction;
  readonly #residuals: Residuals;

  /** Undefined where the compressor keeps nothing. */
  static of(reduction: Reduction): TreeResiduals | undefined {
    return isReducing(reduction.compression) ? new TreeResiduals(reduction) : undefined;
  }

  private constructor(reduction: Reduction) {
    this.#reduction = reduction;
    this.#residuals = new Residuals(reduction);
  }

  /** More options for an allreduce of this tree. */
  optionsFor(context: AdapterContext, tree: unknown): MemoryOptions {
    const { leaves } = takeApart(tree, this.#reduction.what);
    return {
      compressionMemory: this.#residuals.memoryIn(context),
      compressionKeys: leaves.map((_, place) => `${place}`),
    };
  }

  save(slot: number): void {
    this.#residuals.save(slot);
  }

  goBack(slot: number): void {
    this.#residuals.goBack(slot);
  }

  forget(slot: number): void {
    this.#residuals.forget(slot);
  }

  /** Collective; `leaves`: at least as many as the gradients have. */
  async sync(root: number, lacking: readonly number[], leaves: number): Promise<void> {
    await this.#residuals.sync(root, lacking, this.#keys(leaves));
  }

  digest(leaves: number): string {
    return this.#residuals.digest(this.#keys(leaves));
  }

  /** As in operations/collectives/allreduce-compressed.ts. */
  #keys(leaves: number): string[] {
    return Array.from({ length: leaves }, (_, place) => `${this.#reduction.compression.name}/${place}`);
  }
}
