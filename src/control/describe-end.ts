// A rank and how its process ended, in words.

import type { ProcessEnd } from './process-status.ts';

/** 'rank 3 (pid 5 on host2)' */
export function describeRank(rank: number, pid: number, host: string): string {
  const place = [pid === 0 ? '' : `pid ${pid}`, host === '' ? '' : `on ${host}`].filter(
    (part) => part !== '',
  );
  return place.length === 0 ? `rank ${rank}` : `rank ${rank} (${place.join(' ')})`;
}

/** 'was killed by SIGKILL', 'exited with code 3', … */
export function describeEnd(end: ProcessEnd | undefined, hadJoined = true): string {
  if (end === undefined) return 'has ended; how is not known';
  if ('signal' in end) return `was killed by ${end.signal}`;
  if (end.code !== 0) return `exited with code ${end.code}`;
  return hadJoined ? 'exited with code 0 without calling shutdown()' : 'exited with code 0 before init()';
}
