// The keys of the store that more than one part of the system knows.

/** Where the job's control block is. `generation` counts init() calls of a rank from 1: all ranks call it alike. */
export function controlBlockKey(generation: number): string {
  return `control-block/${generation}`;
}
