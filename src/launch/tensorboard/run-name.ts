// The name of a job's folder for TensorBoard. The launcher chooses it, so that logdir() is the same on all ranks.

import { randomBytes } from 'node:crypto';
import { timeName } from '../../data/events/logdir.ts';
import { settingsTable } from '../../settings/table.ts';

/** A variable for the ranks. Two jobs may start within a second, so a random part follows the time. */
export function runNameVariable(): Record<string, string> {
  const name = `${timeName(new Date())}-${randomBytes(2).toString('hex')}`;
  return { [settingsTable.tensorboardRun.env as string]: name };
}
