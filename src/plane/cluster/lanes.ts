// Who is connected with whom in a group that spans hosts. A pure function; native/src/hierarchical has the same rules.
//
// Each host's members are numbered in order of their index. As many of them as the smallest host has are *lanes*: lane l
// of a host is connected with lane l of every other host. Flat groups are connected all with all.

export interface GroupLayout {
  /** Members of the own host, as indices, in order. */
  readonly local: readonly number[];
  /** Members to be connected with, as indices. */
  readonly peers: readonly number[];
}

/** `hosts` are the host numbers of the members. */
export function layoutOf(hosts: readonly number[], index: number, isHierarchical: boolean): GroupLayout {
  const membersOn = (host: number) => hosts.flatMap((each, member) => (each === host ? [member] : []));
  const own = hosts[index] as number;
  const local = membersOn(own);
  if (!isHierarchical) {
    return { local, peers: hosts.flatMap((_, member) => (member === index ? [] : [member])) };
  }
  const all = [...new Set(hosts)].map((host) => membersOn(host));
  const lanes = Math.min(...all.map((members) => members.length));
  const lane = local.indexOf(index);
  const peers = lane < lanes ? all.map((members) => members[lane] as number) : [];
  return { local, peers: peers.filter((member) => member !== index) };
}
