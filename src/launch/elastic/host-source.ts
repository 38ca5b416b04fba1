// Where an elastic job has its hosts from: a fixed list, or a script or function that is asked each second. A list that cannot be had
// at the start is an error; later the last one stays, with a warning.

import type { PlanHost } from '../../rendezvous/driver/plan.ts';

export interface HostSource {
  /** Resolves when the first list is there. */
  start(onHosts: (hosts: readonly PlanHost[]) => void): Promise<void>;
  stop(): void;
}

export function fixedHosts(hosts: readonly PlanHost[]): HostSource {
  return {
    async start(onHosts) {
      onHosts(hosts);
    },
    stop() {},
  };
}
