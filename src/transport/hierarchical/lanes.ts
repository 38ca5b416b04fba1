// Which members are connected in a group that spans hosts. A pure function; native/src/hierarchical has the same rules.
//
// The members of each host are numbered in index order. As many of them as the smallest host has are *lanes*: lane l
// of a host is connected with lane l of every other host. In a flat group all members are one lane.

export interface GroupLayout {
  /** Indices of the members of this host, in order. */
  readonly local: readonly number[];
  /** Members of this member's lane, itself among them, in the order in which the addon numbers them; empty without a lane. */
  readonly lane: readonly number[];
}

/** `hosts` are the host numbers of the members. */
export function layoutOf(hosts: readonly number[], index: number, isHierarchical: boolean): GroupLayout {
  const membersOn = (host: number) => hosts.flatMap((each, member) => (each === host ? [member] : []));
  const local = membersOn(hosts[index] as number);
  if (!isHierarchical) return { local, lane: hosts.map((_, member) => member) };
  const all = [...new Set(hosts)].map(membersOn);
  const lanes = Math.min(...all.map((members) => members.length));
  const number = local.indexOf(index);
  return { local, lane: number < lanes ? all.map((members) => members[number] as number) : [] };
}
