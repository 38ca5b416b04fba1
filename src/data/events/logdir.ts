// Where a job writes what TensorBoard shows: HOROVOD_TENSORBOARD_DIR has a folder for each job, so that TensorBoard can compare them.
// horovodrun names the folder of its job; without it, the time at which this process started and its pid are the name.

import { joinLocation, locationOf } from '../../files/location.ts';
import { processEnvironment } from '../../settings/environment.ts';
import { readSettings } from '../../settings/read-settings.ts';

/** The folder of this job, as an absolute path or a URL. It is made when something is written. Works before init() too. */
export function logdir(): string {
  const { tensorboardDir, tensorboardRun } = readSettings(processEnvironment());
  return joinLocation(locationOf(tensorboardDir), tensorboardRun ?? ownRunName());
}

function ownRunName(): string {
  return `${timeName(new Date(performance.timeOrigin))}-${process.pid}`;
}

/** '2026-11-18_20-44-18', in local time: sorts by time, and every file system takes it. */
export function timeName(date: Date): string {
  const two = (value: number) => String(value).padStart(2, '0');
  const day = [date.getFullYear(), two(date.getMonth() + 1), two(date.getDate())].join('-');
  return `${day}_${[date.getHours(), date.getMinutes(), date.getSeconds()].map(two).join('-')}`;
}
