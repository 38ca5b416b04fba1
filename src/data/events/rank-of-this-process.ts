// Which rank this process is, for code that runs before init() and after shutdown() too.

import { isInitialized } from '../../context/default/default-context.ts';
import { rank } from '../../context/default/default-membership.ts';
import { HorovodError } from '../../errors.ts';
import { processEnvironment } from '../../settings/environment.ts';
import { readSettings } from '../../settings/read-settings.ts';

/** -1: a process of an elastic job that has left it. */
export function rankOfThisProcess(): number {
  if (isInitialized()) return rank();
  const { launcher, worker } = readSettings(processEnvironment());
  // Its rank in the environment is the first one it had.
  if (worker !== undefined) return -1;
  if (launcher.rank !== undefined) return launcher.rank;
  if (launcher.kind === 'alone') return 0;
  throw new HorovodError(
    'ERR_HVD_NOT_INITIALIZED',
    'SummaryWriter: which rank this process is, and so whether it writes, is known after init(); call and await init() first.',
  );
}
