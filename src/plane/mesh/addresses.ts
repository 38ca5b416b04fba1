// Under which addresses this process may be reached: every address of every interface that is up, the likely ones
// first. Which of them really leads here is found out by trying, never by the interface's name; --network-interfaces
// leaves out what the user does not want tried.

import { BlockList, isIP } from 'node:net';
import { networkInterfaces } from 'node:os';
import { HorovodError } from '../../errors.ts';

export interface LocalAddress {
  readonly name: string;
  readonly address: string;
  readonly family: 'IPv4' | 'IPv6';
}

/** The addresses of this machine in the order they should be tried, link-local IPv6 left out (it needs a scope). */
export function localAddresses(
  interfaces: ReturnType<typeof networkInterfaces> = networkInterfaces(),
): LocalAddress[] {
  return Object.entries(interfaces)
    .flatMap(([name, list]) => (list ?? []).map(({ address, family }) => ({ name, address, family })))
    .filter(({ address, family }) => family === 'IPv4' || !linkLocal.check(address, 'ipv6'))
    .sort((a, b) => order(a) - order(b));
}

/**
 * `host:port` for each address that `wanted` (names of interfaces, CIDR subnets or single addresses) lets through;
 * all where it is left out.
 */
export function candidatesOf(
  addresses: readonly LocalAddress[],
  port: number,
  wanted: readonly string[] = [],
): string[] {
  const chosen =
    wanted.length === 0 ? addresses : addresses.filter((each) => wanted.some((entry) => fits(each, entry)));
  if (chosen.length === 0) {
    const own = addresses.map(({ name, address }) => `${name} (${address})`).join(', ');
    throw new HorovodError(
      'ERR_HVD_SETTING',
      `--network-interfaces=${wanted.join(',')} fits no address of this host, which has ${own || 'none at all'}. ` +
        'Give names of interfaces or subnets (10.0.0.0/24) that every host of the job has.',
    );
  }
  return [...new Set(chosen.map(({ address }) => formatAddress(address, port)))];
}

/** '10.0.0.1:4000', '[fd00::1]:4000'. */
export function formatAddress(address: string, port: number): string {
  // What a socket for both families says of an IPv4 peer.
  const plain = address.replace(/^::ffff:(?=\d+\.)/, '');
  return isIP(plain) === 6 ? `[${plain}]:${port}` : `${plain}:${port}`;
}

/** Undefined for text that is no candidate. */
export function parseAddress(text: string): { host: string; port: number } | undefined {
  const match = /^(?:\[([0-9a-f:.]+)\]|([^\s[\]:]+)):(\d{1,5})$/i.exec(text);
  const host = match?.[1] ?? match?.[2];
  const port = Number(match?.[3]);
  if (host === undefined || port < 1 || port > 65_535) return undefined;
  return match?.[1] !== undefined && isIP(host) !== 6 ? undefined : { host, port };
}

const linkLocal = subnets(['fe80::/10']);
const unlikely = subnets(['169.254.0.0/16']);
const loopback = subnets(['127.0.0.0/8', '::1/128']);

function order({ address, family }: LocalAddress): number {
  const type = family === 'IPv4' ? 'ipv4' : 'ipv6';
  if (loopback.check(address, type)) return family === 'IPv4' ? 3 : 4;
  if (unlikely.check(address, type)) return 2;
  return family === 'IPv4' ? 0 : 1;
}

function fits({ name, address, family }: LocalAddress, entry: string): boolean {
  const [start = '', prefix] = entry.split('/');
  const type = isIP(start);
  if (type === 0) return entry === name;
  if ((family === 'IPv4') !== (type === 4)) return false;
  if (prefix === undefined) return start === address;
  const bits = /^\d{1,3}$/.test(prefix) ? Number(prefix) : Number.POSITIVE_INFINITY;
  return bits <= (type === 4 ? 32 : 128) && subnets([entry]).check(address, type === 4 ? 'ipv4' : 'ipv6');
}

function subnets(list: readonly string[]): BlockList {
  const result = new BlockList();
  for (const entry of list) {
    const [start = '', prefix] = entry.split('/');
    result.addSubnet(start, Number(prefix), isIP(start) === 4 ? 'ipv4' : 'ipv6');
  }
  return result;
}
