// Which ranks share a machine, and what follows from it: local ranks, cross ranks, the leader of each host. Nothing is
// assumed about the order in which ranks lie on hosts: schedulers also deal them out in turn.

import { hostname } from 'node:os';
import { bootId, loopbackId, namespaceOf } from '../../net/machine.ts';
import type { World } from '../context-parts.ts';

/** Where a rank is, as it tells the others. */
export interface Whereabouts {
  /** For texts: what the user calls the host. */
  readonly hostname: string;
  /** Equal on ranks that can share memory, and on no others. */
  readonly machine: string;
  /** Equal on ranks that reach each other at 127.0.0.1, and on no others. */
  readonly loopback: string;
  /** What may keep ranks of one machine from sharing memory. */
  readonly apart: {
    /** Empty where the system has none. */
    readonly boot: string;
    readonly pid: string;
    readonly users: string;
    readonly user: number | string;
  };
}

/**
 * `givenName` is the name in -H. Two names of one machine are two hosts, as in Horovod. Memory files are opened through
 * /proc/<pid>/fd: ranks of different users, or in containers with process numbers or users of their own, cannot share any.
 */
export function whereabouts(givenName: string | undefined): Whereabouts {
  const name = givenName ?? hostname();
  // Not userInfo(): in a container the user may have a number and no name.
  const user = process.geteuid?.() ?? '';
  const apart = { boot: bootId(), pid: namespaceOf('pid'), users: namespaceOf('user'), user };
  const facts = [name, hostname(), user, apart.boot, apart.pid, apart.users];
  return { hostname: name, machine: facts.join(' '), loopback: loopbackId(), apart };
}

/** The ranks of a job (or of a part of it) on their hosts. Places are those in the list of members. */
export class HostMap {
  /** Host number of each place; hosts count in order of their first member. */
  readonly hostOf: readonly number[];
  readonly names: readonly string[];

  constructor(members: readonly Pick<Whereabouts, 'hostname' | 'machine'>[]) {
    const machines = [...new Set(members.map(({ machine }) => machine))];
    this.hostOf = members.map(({ machine }) => machines.indexOf(machine));
    this.names = machines.map(
      (machine) => members.find((member) => member.machine === machine)?.hostname ?? machine,
    );
  }

  get hosts(): number {
    return this.names.length;
  }

  /** The places on a host, in order; the first is its leader. */
  placesOn(host: number): number[] {
    return this.hostOf.flatMap((each, place) => (each === host ? [place] : []));
  }

  nameOf(place: number): string {
    return this.names[this.hostOf[place] as number] as string;
  }

  worldOf(place: number): World {
    const host = this.hostOf[place] as number;
    const own = this.placesOn(host);
    const localRank = own.indexOf(place);
    const counts = this.names.map((_, each) => this.placesOn(each).length);
    const withIt = counts.flatMap((count, each) => (count > localRank ? [each] : []));
    return {
      rank: place,
      size: this.hostOf.length,
      localRank,
      localSize: own.length,
      crossRank: withIt.indexOf(host),
      crossSize: withIt.length,
      isHomogeneous: counts.every((count) => count === counts[0]),
    };
  }
}
