// Which member is on which host, and which member handles whose share. Pure functions of the members' host numbers.
//
// Words. The members of a host are numbered in index order (*place*). Each member has a *share* of an operation. On every
// host one member, the *partner*, handles that share: the one at the member's place, modulo the number of the host's
// members. On the member's host that is the member itself. So each member handles its own share and those of its *wards*,
// members of other hosts. Hosts may differ in size, and members may be placed in any order.

export interface Seats {
  readonly index: number;
  readonly size: number;
  /** Members of each host, in order; hosts in order of their first member. */
  readonly hosts: readonly (readonly number[])[];
  /** By member: its host (index into `hosts`) and its place there. */
  readonly hostOf: readonly number[];
  readonly placeOf: readonly number[];
  /** Members of this member's host, in order. */
  readonly local: readonly number[];
  /** Members of other hosts. */
  readonly remote: readonly number[];
  /** Members whose share this one handles, itself first. */
  readonly wards: readonly number[];
  /** The partner of this member on each other host, in order of hosts. */
  readonly partners: readonly number[];
  /** The largest number of wards that any member has. */
  readonly maxWards: number;
}

/** `hostNumbers[i]` is any number that is the same for members of one host. */
export function seatsOf(hostNumbers: readonly number[], index: number): Seats {
  const members = hostNumbers.map((_, member) => member);
  const numbers = [...new Set(hostNumbers)];
  const hosts = numbers.map((number) => members.filter((member) => hostNumbers[member] === number));
  const hostOf = hostNumbers.map((number) => numbers.indexOf(number));
  const placeOf = members.map((member) => (hosts[hostOf[member] as number] as number[]).indexOf(member));
  const partnerOn = (host: number, member: number): number => {
    const there = hosts[host] as number[];
    return there[(placeOf[member] as number) % there.length] as number;
  };
  const wardsOf = (member: number): number[] =>
    members.filter((ward) => partnerOn(hostOf[member] as number, ward) === member);
  const ownHost = hostOf[index] as number;
  return {
    index,
    size: members.length,
    hosts,
    hostOf,
    placeOf,
    local: hosts[ownHost] as number[],
    remote: members.filter((member) => hostOf[member] !== ownHost),
    wards: [index, ...wardsOf(index).filter((ward) => ward !== index)],
    partners: hosts.flatMap((_, host) => (host === ownHost ? [] : [partnerOn(host, index)])),
    maxWards: Math.max(...members.map((member) => wardsOf(member).length)),
  };
}

/** Members whose share `member`, a member of this host, handles, in index order. */
export function wardsOnOwnHost(seats: Seats, member: number): number[] {
  const { local, placeOf } = seats;
  return placeOf.flatMap((place, ward) => (local[place % local.length] === member ? [ward] : []));
}
