// Whether a host name means this machine.

import { hostname, networkInterfaces } from 'node:os';
import { resolveHost } from '../../net/resolve-host.ts';

/** False for a name that cannot be resolved. */
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
