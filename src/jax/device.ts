// Where jax-js computes. Its own init() without arguments looks for WebGPU and, where there is no `navigator`, as in
// Node 20, fails on the way.

import * as jax from '@jax-js/jax';
import { HorovodError } from '../errors.ts';

/** Makes a device ready and the default for new arrays: 'wasm' (one thread per rank), unless told otherwise. */
export async function setDevice(device: jax.Device = 'wasm'): Promise<jax.Device> {
  const isMissing = (device === 'webgpu' || device === 'webgl') && !('navigator' in globalThis);
  const ready = isMissing ? [] : await jax.init(device);
  if (!ready.includes(device)) {
    throw new HorovodError(
      'ERR_HVD_INVALID_ARGUMENT',
      `setDevice: jax-js has no device ${JSON.stringify(device)} here; use 'wasm' or 'cpu'.`,
    );
  }
  return jax.defaultDevice(device);
}
