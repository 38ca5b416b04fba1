// The addon as backends use it: it computes on their memory and exchanges tensors with them, which has nothing to do with how ranks
// communicate. The only file of the adapters that imports transport/native.

import { processEnvironment } from '../../../settings/environment.ts';
import { readSettings } from '../../../settings/read-settings.ts';
import type { NativeAddon } from '../../../transport/native/addon.ts';
import { loadNative } from '../../../transport/native/load.ts';

export type {
  NativeAddon,
  NativeComputeKernels,
  NativeTensorList,
} from '../../../transport/native/addon.ts';

/** The addon of this process, or why there is none. */
export function addonForBackends(): NativeAddon | { readonly reason: string } {
  const native = loadNative(readSettings(processEnvironment()));
  return native.built ? native.addon : { reason: native.reason };
}
