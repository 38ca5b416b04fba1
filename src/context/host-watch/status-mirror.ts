// Status pages between hosts: about once a second a watch sends the others the status pages of its ranks that have
// changed, and writes those it receives into the control block of its host.

import { type ControlBlock, controlLayout } from '../../control/control-block.ts';
import { decodeRankStatus, encodeRankStatus, type RankStatus } from '../../observe/status/rank-status.ts';
import type { WatchMessage } from './messages.ts';

type StatusMessage = Extract<WatchMessage, { type: 'status' }>;

const periodMs = 1000;
/** More ranks than this, and everybody tells less often: each host tells every other. */
const ranksAtFullPace = 128;

export class StatusMirror {
  readonly #block: ControlBlock;
  readonly #localRanks: readonly number[];
  readonly #say: (message: StatusMessage) => void;
  readonly #told = new Map<number, number>();
  #written = 0;

  constructor(block: ControlBlock, localRanks: readonly number[], say: (message: StatusMessage) => void) {
    this.#block = block;
    this.#localRanks = localRanks;
    this.#say = say;
  }

  get periodMs(): number {
    return periodMs * Math.max(1, this.#block.ranks / ranksAtFullPace);
  }

  /** What has changed since the last call. */
  tell(): void {
    for (const rank of this.#localRanks) {
      const page = this.#block.readStatus(rank);
      if (page === undefined || this.#told.get(rank) === page.sequence) continue;
      const status = decodeRankStatus(page.text);
      if (status === undefined) continue;
      this.#told.set(rank, page.sequence);
      this.#say({ type: 'status', rank, ageMs: Math.max(Date.now() - status.updatedAt, 0), status });
    }
  }

  /** `message.rank` is of the host that says it. */
  hear({ rank, ageMs, status }: StatusMessage): void {
    // In the time of this host: clocks of machines differ.
    const updatedAt = Date.now() - ageMs;
    const { last } = status;
    const shifted = last === undefined || last.atMs === 0 ? 0 : last.atMs + updatedAt - status.updatedAt;
    const here: RankStatus = {
      ...status,
      updatedAt,
      last: last === undefined ? undefined : { ...last, atMs: shifted },
    };
    const text = encodeRankStatus(here, controlLayout.statusBytes);
    if (text.length <= controlLayout.statusBytes) this.#block.writeStatus(rank, ++this.#written, text);
  }
}
