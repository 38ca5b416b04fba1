// The addresses of a host's name. The system's resolver has deadlines of its own, of up to half a minute; whoever
// starts a job has another one.

import { setTimeout as sleep } from 'node:timers/promises';

/** None where nobody knows the name, or has said so in time. */
export async function resolveHost(
  name: string,
  timeoutMs: number,
  resolve: (name: string) => Promise<readonly { readonly address: string }[]> = resolveBySystem,
): Promise<string[]> {
  const timer = new AbortController();
  try {
    const found = await Promise.race([
      resolve(name).catch(() => []),
      sleep(timeoutMs, [], { signal: timer.signal }).catch(() => []),
    ]);
    return found.map(({ address }) => address);
  } finally {
    timer.abort();
  }
}

async function resolveBySystem(name: string): Promise<{ address: string }[]> {
  // Few processes look up names.
  const { lookup } = await import('node:dns/promises');
  return lookup(name, { all: true });
}
