// What tells machines, and containers of one machine, apart.

import { readFileSync, readlinkSync } from 'node:fs';
import { hostname } from 'node:os';

/** Two machines, or two boots of one, have different ones. Empty where the system has none. */
export function bootId(): string {
  try {
    return readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
  } catch {
    return '';
  }
}

/** Equal for processes that see the same process numbers, users or network; empty where the system has none. */
export function namespaceOf(kind: 'pid' | 'user' | 'net'): string {
  try {
    return readlinkSync(`/proc/self/ns/${kind}`);
  } catch {
    return '';
  }
}

/** Equal for processes that reach each other at 127.0.0.1, and for no others. */
export function loopbackId(): string {
  const boot = bootId();
  return boot === '' ? hostname() : `${boot} ${namespaceOf('net')}`;
}

/** Equal for processes of one user that can open each other's files below /proc, and so share memory. */
export function machineId(): string {
  const boot = bootId();
  const user = process.getuid?.() ?? '';
  return boot === ''
    ? `${hostname()} ${user}`
    : [boot, namespaceOf('pid'), namespaceOf('user'), user].join(' ');
}
