// How a dashboard sees its job: in the control blocks of this machine, which it keeps open. A launcher knows the blocks of its job and
// hands them over; beside a job of somebody else, they are looked for among all processes, which takes longer and is done now and then.

import { ControlBlock } from '../../control/control-block.ts';
import { type FoundBlock, findBlocks } from '../status/find-jobs.ts';
import { type JobView, joinViews, lookAt } from '../status/job-view.ts';

interface HeldBlock {
  readonly block: ControlBlock;
  readonly mark: string;
  readonly isForeign: boolean;
}

/** The blocks of one job, by the name of the host or whatever else tells them apart. */
export class JobSampler {
  readonly #held = new Map<string, HeldBlock>();

  get isEmpty(): boolean {
    return this.#held.size === 0;
  }

  has(key: string): boolean {
    return this.#held.has(key);
  }

  /** The block at `path` from now on, in place of an earlier one with this key. False: it cannot be opened. */
  use(key: string, { path, mark, isForeign }: FoundBlock): boolean {
    let block: ControlBlock;
    try {
      block = ControlBlock.open(path, { access: 'read' });
    } catch {
      return false;
    }
    this.#held.get(key)?.block.close();
    this.#held.set(key, { block, mark, isForeign });
    return true;
  }

  /** Undefined: no block is known yet. */
  look(): JobView | undefined {
    return joinViews(
      [...this.#held.values()].map(({ block, mark, isForeign }) => lookAt(block, mark, isForeign)),
    );
  }

  /** Blocks of generations before this one. */
  forgetBefore(generation: number): void {
    for (const [key, { block }] of this.#held) {
      if (block.generation >= generation) continue;
      block.close();
      this.#held.delete(key);
    }
  }

  close(): void {
    for (const { block } of this.#held.values()) block.close();
    this.#held.clear();
  }
}

export interface JobSearchOptions {
  /** Where memory files are created. */
  readonly directory: string;
  /** Whether it is the job that is looked for. */
  readonly isWanted: (view: JobView) => boolean;
  readonly searchMs?: number | undefined;
}

/** The search takes 20 to 150 ms, depending on how many processes there are. */
const defaultSearchMs = 5000;
/** Before it is found. */
const firstSearchMs = 1000;

/** Looks at a job that another process has started. */
export class JobSearch {
  readonly #options: JobSearchOptions;
  readonly #sampler = new JobSampler();
  #searchedAt = Number.NEGATIVE_INFINITY;

  constructor(options: JobSearchOptions) {
    this.#options = options;
  }

  /** Undefined: it is not there yet. */
  look(): JobView | undefined {
    const now = performance.now();
    const { searchMs = this.#sampler.isEmpty ? firstSearchMs : defaultSearchMs } = this.#options;
    // A timer may fire a little early.
    if (now - this.#searchedAt >= 0.9 * searchMs) {
      this.#searchedAt = now;
      this.#search();
    }
    return this.#sampler.look();
  }

  close(): void {
    this.#sampler.close();
  }

  #search(): void {
    for (const found of findBlocks(this.#options.directory).blocks) {
      if (this.#sampler.has(found.mark)) continue;
      const alone = new JobSampler();
      try {
        const view = alone.use(found.mark, found) ? alone.look() : undefined;
        if (view === undefined || !this.#options.isWanted(view)) continue;
        if (this.#sampler.use(found.mark, found) && view.generation !== undefined)
          this.#sampler.forgetBefore(view.generation);
      } finally {
        alone.close();
      }
    }
  }
}
