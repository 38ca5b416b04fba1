// Who is at fault when nobody has died: from the reports of the members of a generation that has failed. Pure functions.

import type { DriverState } from './driver-state.ts';

/** Of the members in `silent`, the one that most reports from before `before` blame; of several, the highest rank. */
export function blamedMembers(state: DriverState, silent: readonly number[], before: number): number[] {
  const ranks = state.generation?.workers ?? [];
  const votes = new Map<number, number>();
  for (const { report } of state.workers.values()) {
    const blamed = report?.cause?.worker;
    if (report === undefined || blamed === undefined || report.at > before || !silent.includes(blamed))
      continue;
    votes.set(blamed, (votes.get(blamed) ?? 0) + 1);
  }
  const [worst] = [...votes].sort((a, b) => b[1] - a[1] || ranks.indexOf(b[0]) - ranks.indexOf(a[0]));
  return worst === undefined ? [] : [worst[0]];
}

/**
 * All members have reported and nobody has died, but members on different hosts blame each other: these hosts do not reach
 * each other. The host with more accusers goes; of several, the one that was seen last.
 */
export function hostToGiveUp(state: DriverState): string | undefined {
  const members = state.generation?.workers ?? [];
  if (members.some((number) => !state.workers.has(number))) return undefined;
  const accusers = new Map<string, number>();
  for (const number of members) {
    const worker = state.workers.get(number);
    const blamed = worker?.report?.cause?.worker;
    const accused = blamed === undefined ? undefined : state.workers.get(blamed)?.host;
    if (accused === undefined || accused === worker?.host) continue;
    accusers.set(accused, (accusers.get(accused) ?? 0) + 1);
  }
  const order = state.hosts.map(({ name }) => name);
  const [worst] = [...accusers].sort((a, b) => b[1] - a[1] || order.indexOf(b[0]) - order.indexOf(a[0]));
  return worst?.[0];
}
