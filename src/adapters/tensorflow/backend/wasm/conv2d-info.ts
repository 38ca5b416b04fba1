// What the convolution kernels check alike.

import { HorovodError } from '../../../../errors.ts';

export function channelsLastOnly(dataFormat: unknown, kernelName: string): void {
  if (dataFormat !== 'NCHW' && dataFormat !== 'channelsFirst') return;
  throw new HorovodError(
    'ERR_HVD_UNSUPPORTED',
    `${kernelName} on the wasm backend: channels-first data (NCHW) cannot be convolved; use dataFormat 'channelsLast'.`,
  );
}
