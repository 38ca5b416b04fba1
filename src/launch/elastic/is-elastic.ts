// Whether the settings of a launch ask for an elastic job. Most jobs are not, and do not load the code for it.

import type { Settings } from '../../settings/table.ts';

export function isElastic({ minProcesses, hostDiscoveryScript }: Settings): boolean {
  return minProcesses !== undefined || hostDiscoveryScript !== undefined;
}
