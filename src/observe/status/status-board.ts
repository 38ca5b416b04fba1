// Where the ranks of a job publish their status and read that of others: the status pages in the control block of the host, or a list
// in memory for ranks of one process.

import { type ControlBlock, controlLayout } from '../../control/control-block.ts';
import { decodeRankStatus, encodeRankStatus, type RankStatus } from './rank-status.ts';

export interface StatusBoard {
  publish(status: RankStatus): void;
  /** Undefined if it was never published or cannot be read now. The status of other hosts is about a second old. */
  read(rank: number): RankStatus | undefined;
}

/**
 * `members`: the numbers of the ranks in the control block. Pages use these numbers, too, because readers outside of the job know
 * no others.
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

/** Shared by all ranks of a process. */
export class MemoryBoard implements StatusBoard {
  readonly #statuses = new Map<number, RankStatus>();

  publish(status: RankStatus): void {
    this.#statuses.set(status.rank, status);
  }

  read(rank: number): RankStatus | undefined {
    return this.#statuses.get(rank);
  }
}
