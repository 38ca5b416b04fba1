// A rank that was lost before it could be started.

import { Readable } from 'node:stream';
import { deferred } from '../deferred.ts';
import type { Slot } from '../hosts/plan-slots.ts';
import type { RankEnding, StartedRank } from './host-ranks.ts';

/** `why` completes 'host2: …'. */
export function lostRank(slot: Slot, why: string): StartedRank {
  const ended = deferred<RankEnding>();
  ended.resolve({ end: { code: 1 }, lost: why });
  return {
    slot,
    pid: undefined,
    stdout: Readable.from([]),
    stderr: Readable.from([]),
    endsItsStreams: true,
    ended: ended.promise,
    cleared: Promise.resolve(),
    testament: undefined,
    signal: () => undefined,
  };
}
