// Does a host name mean this machine?

import { hostname, networkInterfaces } from 'node:os';
import { resolveHost } from '../../net/resolve-host.ts';

/** A name nobody can resolve is not this machine. */
export async function isLocalHost(name: string, timeoutMs: number): Promise<boolean> {
  const own = hostname();
  if (name === 'localhost' || name === own || name === own.split('.', 1)[0]) return true;
  const addresses = Object.values(networkInterfaces()).flatMap((list) =>
    (list ?? []).map((one) => one.address),
  );
  const isOwn = (address: string) =>
    address.startsWith('127.') || address === '::1' || addresses.includes(address);
  if (isOwn(name)) return true;
  return (await resolveHost(name, timeoutMs)).some(isOwn);
}
