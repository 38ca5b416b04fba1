// Ranks of one machine that cannot share memory: in containers with process numbers or users of their own, or run by different users.
// They use TCP as if they were on different machines; this says so. Pure.

import type { Whereabouts } from './hosts.ts';

/** What to tell the user; undefined if all ranks of each machine share memory, or are apart because of the names in -H. */
export function describeApart(
  members: readonly Pick<Whereabouts, 'apart'>[],
  ranks: readonly number[],
): string | undefined {
  const machines = new Map<string, number[]>();
  for (const [place, { apart }] of members.entries()) {
    if (apart.boot === '') continue;
    machines.set(apart.boot, [...(machines.get(apart.boot) ?? []), place]);
  }
  for (const places of machines.values()) {
    const differ = (key: 'pid' | 'users' | 'user') =>
      new Set(places.map((place) => members[place]?.apart[key])).size > 1;
    const reasons = [
      ...(differ('pid') ? ['process numbers of their own'] : []),
      ...(differ('users') ? ['users of their own'] : []),
    ];
    const numbers = places.map((place) => ranks[place]).join(', ');
    if (reasons.length > 0) {
      return (
        `ranks ${numbers} are on one machine, and not all of them can open each other's memory, because they are in containers with ` +
        `${reasons.join(' and ')}. These use TCP, which is slower. To share memory, run all ranks of a machine in one container, or start the ` +
        'containers with the process numbers and users of the host (docker --pid=host; Apptainer without --pid and --userns).'
      );
    }
    if (differ('user')) {
      return (
        `ranks ${numbers} are on one machine, and cannot open each other's memory, because different users run them. They use TCP, which is ` +
        'slower. To share memory, start them as one user.'
      );
    }
  }
  return undefined;
}
