// Where jax-js computes. Its own init() without arguments looks for WebGPU and, where there is no `navigator`, as in
// Node 20, fails on the way.

import * as jax from '@jax-js/jax';
import { HorovodError } from '../../errors.ts';

/** Makes a device ready and the default for new arrays: 'wasm' (one thread per rank), unless told otherwise. */
export async function setDevice(device: jax.Device = 'wasm'): Promise<jax.Device> {
  const refusal = (cause?: unknown) =>
    new HorovodError(
      'ERR_HVD_INVALID_ARGUMENT',
      `setDevice: jax-js has no device ${JSON.stringify(device)} here; use 'wasm' or 'cpu'.`,
      { cause },
    );
  const ready = await jax.init(device).catch((error: unknown) => {
    throw refusal(error);
  });
  if (!ready.includes(device)) throw refusal();
  return jax.defaultDevice(device);
}
