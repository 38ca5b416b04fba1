// Which address of this host an engine with connections of its own (gloo) is to be bound to: one that the other hosts reach.
// A pure function of what the ranks have told each other. Tunnels and bridges that every machine has (docker0) show up as
// the same address on several hosts: such an address leads nowhere.

import { isIPv6 } from 'node:net';

/** `own` and `others`: candidates as 'address:port', those of the others by host. */
export function engineAddress(own: readonly string[], others: readonly (readonly string[])[]): string {
  const addresses = own.map(addressOf).filter((address) => !isIPv6(address) || !address.includes('%'));
  const theirs = others.map((list) => list.map(addressOf));
  const unique = addresses.filter(
    (address) => !isLoopback(address) && !theirs.some((list) => list.includes(address)),
  );
  const inSameNet = (address: string) =>
    theirs.filter((list) => list.some((other) => netOf(other) === netOf(address))).length;
  const best = unique.toSorted((a, b) => inSameNet(b) - inSameNet(a))[0];
  // All addresses are shared: the "hosts" are one machine.
  return best ?? addresses.find(isLoopback) ?? addresses[0] ?? '127.0.0.1';
}

function addressOf(candidate: string): string {
  return candidate.slice(0, candidate.lastIndexOf(':')).replace(/^\[(.*)\]$/, '$1');
}

function isLoopback(address: string): boolean {
  return address === '::1' || address.startsWith('127.');
}

/** The first three of four bytes, or the first half of an IPv6 address: what most networks have in common. */
function netOf(address: string): string {
  return isIPv6(address)
    ? address.split(':').slice(0, 4).join(':')
    : address.slice(0, address.lastIndexOf('.'));
}
