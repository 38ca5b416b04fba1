// What a process has open: to find out that something is left, or becomes more with every round.

import { readdirSync } from 'node:fs';

/** Open files, threads, listeners on the process and resources of Node. */
export function held(): Record<'files' | 'threads' | 'listeners' | 'resources', number> {
  const listeners = process.eventNames().map((name) => process.listenerCount(name));
  return {
    files: readdirSync('/proc/self/fd').length,
    threads: readdirSync('/proc/self/task').length,
    listeners: listeners.reduce((total, count) => total + count, 0),
    resources: process.getActiveResourcesInfo().filter((name) => name !== 'Immediate').length,
  };
}
