// Does a host name mean this machine?

import { lookup } from 'node:dns/promises';
import { hostname, networkInterfaces } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';

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
  const timer = new AbortController();
  const resolved = await Promise.race([
    lookup(name, { all: true }).catch(() => []),
    sleep(timeoutMs, [], { signal: timer.signal }).catch(() => []),
  ]);
  timer.abort();
  return resolved.some(({ address }) => isOwn(address));
}
