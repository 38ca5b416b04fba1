// Where jax-js computes. jax.init() without arguments looks for WebGPU, and throws where there is no `navigator` (Node 20).

import * as jax from '@jax-js/jax';
import { HorovodError } from '../../errors.ts';

/** Initializes a device and makes it the default for new arrays. Default: 'wasm', with one thread per rank. */
export async function setDevice(device: jax.Device = 'wasm'): Promise<jax.Device> {
  const { ready, cause } = await jax.init(device).then(
    (devices) => ({ ready: devices.includes(device), cause: undefined }),
    (error: unknown) => ({ ready: false, cause: error }),
  );
  if (ready) return jax.defaultDevice(device);
  throw new HorovodError(
    'ERR_HVD_INVALID_ARGUMENT',
    `setDevice: jax-js has no device ${JSON.stringify(device)} here; use 'wasm' or 'cpu'.`,
    { cause },
  );
}
