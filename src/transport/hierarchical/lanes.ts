// Who is connected with whom in a group that spans hosts. A pure function; native/src/hierarchical has the same rules.
//
// Each host's members are numbered in order of their index. As many of them as the smallest host has are *lanes*: lane l
// of a host is connected with lane l of every other host. In a flat group all members are one lane.

export interface GroupLayout {
  /** Members of the own host, as indices, in order. */
  readonly local: readonly number[];
  /** Members of the own lane, this one among them, in the order that the addon numbers them; empty for a member without one. */
  readonly lane: readonly number[];
}

/** `hosts` are the host numbers of the members. */
export function layoutOf(hosts: readonly number[], index: number, isHierarchical: boolean): GroupLayout {
  const membersOn = (host: number) => hosts.flatMap((each, member) => (each === host ? [member] : []));
  const own = hosts[index] as number;
  const local = membersOn(own);
  if (!isHierarchical) {
    return { local, lane: hosts.map((_, member) => member) };
  }
  const all = [...new Set(hosts)].map((host) => membersOn(host));
  const lanes = Math.min(...all.map((members) => members.length));
  const number = local.indexOf(index);
  return { local, lane: number < lanes ? all.map((members) => members[number] as number) : [] };
}
