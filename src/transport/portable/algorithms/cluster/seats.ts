// Who of a group sits on which host, and who works for whom. Pure functions from the members' host numbers.
//
// Words. A host's members are numbered in order of their index (*place*). What a member's part in an operation is, its
// *share*, is looked after on every host by one member, its *partner* there: the one at the member's place, modulo the
// host's members. On its own host that is the member itself. So each member looks after its own share and those of
// some members of other hosts; hosts may differ in size, and members may be placed in any order.

export interface Seats {
  readonly index: number;
  readonly size: number;
  /** Members of each host, in order; hosts in order of their first member. */
  readonly hosts: readonly (readonly number[])[];
  /** By member: its host (index into `hosts`) and its place there. */
  readonly hostOf: readonly number[];
  readonly placeOf: readonly number[];
  /** Members of the own host, in order. */
  readonly local: readonly number[];
  /** Members of other hosts. */
  readonly remote: readonly number[];
  /** Members whose share this one looks after, itself first. */
  readonly wards: readonly number[];
  /** The partner of this member on each other host, in order of hosts. */
  readonly partners: readonly number[];
  /** The most wards that any member has. */
  readonly mostWards: number;
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
    mostWards: Math.max(...members.map((member) => wardsOf(member).length)),
  };
}

/** Members whose share `member` looks after, in order of index; `member` sits on the own host. */
export function wardsOnOwnHost(seats: Seats, member: number): number[] {
  const { local, placeOf } = seats;
  return placeOf.flatMap((place, ward) => (local[place % local.length] === member ? [ward] : []));
}
