// The record kernels of this process: those of the addon, or the same in JavaScript where it is missing or turned off.

import { processEnvironment } from '../settings/environment.ts';
import { readSettings } from '../settings/read-settings.ts';
import { loadNative, type NativeSearch } from '../transport/native/load.ts';
import { portableRecordKernels, type RecordKernels } from './formats/tfrecord/record-kernels.ts';

/** `search`: default as the settings of this process say. Threads pass what they were given. */
export function recordKernels(search?: NativeSearch): RecordKernels {
  const { native, nativePath } = search ?? readSettings(processEnvironment());
  const found = loadNative({ native, nativePath });
  return found.built ? found.addon.recordKernels : portableRecordKernels;
}
