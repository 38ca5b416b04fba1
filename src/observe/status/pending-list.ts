// The pending operations of a rank, as its status page shows them.

import type { Channel } from '../../engine/channel.ts';
import { labelOf } from '../../engine/description.ts';
import { type PendingCollective, pendingLimit } from './rank-status.ts';

/** Oldest first. `rank` is the rank that asks; it is never listed as missing. */
export function pendingList(
  channels: readonly Channel[],
  nowMs: number,
  rank: number,
): readonly PendingCollective[] {
  return channels
    .flatMap((channel) => [...channel.pending].map((request) => ({ channel, request })))
    .sort((a, b) => a.request.submittedAtMs - b.request.submittedAtMs)
    .slice(0, pendingLimit)
    .map(({ channel, request }) => ({
      label: labelOf(request.description),
      waitedMs: Math.max(nowMs - request.submittedAtMs, 0),
      missing: channel.missingFor(request).filter((member) => member !== rank),
    }));
}
