// Where the ranks of a job put up what they do, and read what the others do: the status pages of the host's control
// block, or a list in memory for ranks of one process.

import { type ControlBlock, controlLayout } from '../../control/control-block.ts';
import { decodeRankStatus, encodeRankStatus, type RankStatus } from './rank-status.ts';

export interface StatusBoard {
  publish(status: RankStatus): void;
  /** Undefined: never published, or cannot be read just now. Ranks of other hosts come about a second late. */
  read(rank: number): RankStatus | undefined;
}

/**
 * `members`: the numbers by which the block knows the ranks. Pages speak of ranks by these too: whoever looks at the block
 * from outside knows no others.
 */
export class ControlBlockBoard implements StatusBoard {
  readonly #block: ControlBlock;
  readonly #members: readonly number[];
  #sequence = 0;

  constructor(block: ControlBlock, members: readonly number[]) {
    this.#block = block;
    this.#members = members;
  }

  publish(status: RankStatus): void {
    const page = renumbered(status, (rank) => this.#members[rank]);
    const text = encodeRankStatus(page, controlLayout.statusBytes);
    if (text.length > controlLayout.statusBytes) return;
    this.#sequence = (this.#sequence % 0xfffffffe) + 1;
    this.#block.writeStatus(page.rank, this.#sequence, text);
  }

  read(rank: number): RankStatus | undefined {
    const member = this.#members[rank];
    const page = member === undefined ? undefined : this.#block.readStatus(member);
    const status = page === undefined ? undefined : decodeRankStatus(page.text);
    return status && renumbered(status, (each) => this.#members.indexOf(each));
  }
}

function renumbered(status: RankStatus, numberOf: (rank: number) => number | undefined): RankStatus {
  const toNumber = (rank: number) => numberOf(rank) ?? -1;
  return {
    ...status,
    rank: toNumber(status.rank),
    pending: status.pending.map((each) => ({
      ...each,
      missing: each.missing.map(toNumber).filter((rank) => rank >= 0),
    })),
  };
}

/** One for all ranks of a process. */
export class MemoryBoard implements StatusBoard {
  readonly #statuses = new Map<number, RankStatus>();

  publish(status: RankStatus): void {
    this.#statuses.set(status.rank, status);
  }

  read(rank: number): RankStatus | undefined {
    return this.#statuses.get(rank);
  }
}
