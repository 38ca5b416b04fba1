// Addresses: host:port and [v6]:port as text, and the list of those under which a listener of this machine may be
// reached. A name of an interface says nothing about who can reach it (every machine may have a docker0), so
// everything is a candidate; who connects tries them all and takes the first that proves itself.

import { BlockList, isIP, isIPv6 } from 'node:net';
import { networkInterfaces as systemInterfaces } from 'node:os';
import { HorovodError } from '../errors.ts';

export interface Address {
  readonly host: string;
  readonly port: number;
}

/** What os.networkInterfaces() gives of an address, as far as it matters here. */
export interface InterfaceAddress {
  readonly address: string;
  readonly internal: boolean;
}

export type Interfaces = Readonly<Record<string, readonly InterfaceAddress[] | undefined>>;

/** host:port, [v6]:port; undefined for anything else. A host name is taken as it is. */
export function parseAddress(text: string): Address | undefined {
  const match = /^(?:\[([^\]]+)\]|([^\s:[\],]+)):(\d{1,5})$/.exec(text.trim());
  if (match === null) return undefined;
  const [, v6, name, digits] = match;
  const port = Number(digits);
  if (port < 1 || port > 65_535 || (v6 !== undefined && !isIPv6(v6))) return undefined;
  return { host: (v6 ?? name) as string, port };
}

export function formatAddress({ host, port }: Address): string {
  return isV6(host) ? `[${host}]:${port}` : `${host}:${port}`;
}

/** Most have no colon: the expression of Node, which takes a millisecond to compile, is not needed for these. */
function isV6(address: string): boolean {
  return address.includes(':') && isIPv6(address);
}

/** A list with commas, as HOROVOD_RENDEZVOUS_ADDR is one; undefined if one of them is no address. */
export function parseAddresses(text: string): Address[] | undefined {
  const addresses = text.split(',').map(parseAddress);
  return addresses.every((address) => address !== undefined) ? addresses : undefined;
}

/**
 * The addresses of this machine, IPv4 first, loopback last. Link-local ones are left out: they mean nothing
 * without the name of an interface of the other side. `filter` has names of interfaces, addresses or CIDR blocks
 * (10.0.0.0/8); loopback always stays, for ranks of this machine.
 */
export function listLocalAddresses(
  filter: readonly string[] = [],
  interfaces: Interfaces = systemInterfaces(),
): string[] {
  const found = Object.entries(interfaces).flatMap(([name, addresses]) =>
    (addresses ?? []).map((each) => ({ ...each, name })),
  );
  const outer = found.filter((each) => !each.internal && !isLinkLocal(each.address));
  const wanted = outer.filter((each) => filter.length === 0 || filter.some((rule) => matches(rule, each)));
  const isLoopbackWanted = filter.some((rule) => found.some((each) => each.internal && matches(rule, each)));
  if (filter.length > 0 && wanted.length === 0 && !isLoopbackWanted) {
    const there = found.map(({ name, address }) => `${name} ${address}`).join(', ');
    throw new HorovodError(
      'ERR_HVD_SETTING',
      `--network-interfaces (HOROVOD_NETWORK_INTERFACES) ${filter.join(',')} matches no address of this machine. ` +
        `It has ${there}.`,
    );
  }
  const loopback = found.filter((each) => each.internal).map(({ address }) => address);
  const inner = loopback.find((address) => !isV6(address)) ?? loopback[0] ?? '127.0.0.1';
  const unique = new Set(wanted.map(({ address }) => address));
  return [...[...unique].sort((a, b) => Number(isV6(a)) - Number(isV6(b))), inner];
}

/** The same with a port, as text to be published. */
export function listCandidates(
  port: number,
  filter: readonly string[] = [],
  interfaces: Interfaces = systemInterfaces(),
): string[] {
  return listLocalAddresses(filter, interfaces).map((host) => formatAddress({ host, port }));
}

/** Is this address one of an interface of this machine? Names have to be resolved before. */
export function isLocalAddress(address: string, interfaces: Interfaces = systemInterfaces()): boolean {
  if (/^127\./.test(address) || address === '::1') return true;
  return Object.values(interfaces).some((list) => list?.some((each) => each.address === address));
}

export function isLoopback(address: string): boolean {
  return /^(127\.|::1$|::ffff:127\.)/.test(address) || address === 'localhost';
}

/** The addresses, host:port, under which another machine may reach this one: there, loopback would be that machine itself. */
export function withoutLoopback(addresses: readonly string[]): readonly string[] {
  return addresses.filter((address) => !isLoopback(parseAddress(address)?.host ?? ''));
}

/** Is `address` in the block `cidr` (10.0.0.0/8)? False where that is none. */
export function isInSubnet(address: string, cidr: string): boolean {
  const [network = '', digits = ''] = cidr.split('/');
  const family = isIP(network) === 6 ? 'ipv6' : 'ipv4';
  const bits = Number(digits);
  if (isIP(network) === 0 || !/^\d{1,3}$/.test(digits) || bits > (family === 'ipv4' ? 32 : 128)) return false;
  const block = new BlockList();
  block.addSubnet(network, bits, family);
  return block.check(address, isIPv6(address) ? 'ipv6' : 'ipv4');
}

function isLinkLocal(address: string): boolean {
  return /^(169\.254\.|fe[89ab][0-9a-f]:)/i.test(address);
}

function matches(rule: string, { name, address }: InterfaceAddress & { name: string }): boolean {
  return rule === name || rule === address || isInSubnet(address, rule);
}
