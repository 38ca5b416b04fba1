// Registers the training kernels of this folder with TensorFlow.js, in place of kernels of the WASM backend that are missing,
// wrong or slow. See docs/decisions/0009-wasm-training-kernels.md.

import * as tf from '@tensorflow/tfjs';
import { conv2d, fusedConv2d } from './conv2d.ts';
import { conv2dBackpropFilter } from './conv2d-backprop-filter.ts';
import { conv2dBackpropInput } from './conv2d-backprop-input.ts';
import { cpuFallbacks } from './cpu-fallback.ts';
import { depthwiseBackpropFilter, depthwiseBackpropInput, depthwiseConv2d } from './depthwise-conv2d.ts';
import { elementwise, installReluGradient } from './elementwise.ts';
import { fusedMatMul } from './fused-mat-mul.ts';
import { cast, identity } from './identity-and-cast.ts';
import type { Kernel, Replacement } from './kernel.ts';
import { matMul } from './mat-mul.ts';
import { maxPool3D, maxPool3DGrad, maxPoolGrad } from './max-pool.ts';
import { pools } from './pools.ts';
import { resizeNearestNeighborGrad } from './resize-nearest-neighbor-grad.ts';
import { samePadding } from './same-padding.ts';
import { sum } from './sum.ts';
import { unevenWindows } from './uneven-windows.ts';
import { unsortedSegmentSum } from './unsorted-segment-sum.ts';
import { installUpdates } from './updates.ts';

/** Kernels that are wrong in the WASM backend, and rare enough to run on the cpu backend. */
const wrongUpstream = ['Conv3DBackpropFilterV2', 'Conv3DBackpropInputV2'];

const replacements: readonly Replacement[] = [
  matMul,
  fusedMatMul,
  conv2d,
  fusedConv2d,
  conv2dBackpropFilter,
  conv2dBackpropInput,
  ...elementwise,
  ...pools,
  maxPoolGrad,
  maxPool3D,
  maxPool3DGrad,
  ...depthwiseConv2d,
  depthwiseBackpropFilter,
  depthwiseBackpropInput,
  resizeNearestNeighborGrad,
  sum,
  identity,
  cast,
  unsortedSegmentSum,
  ...unevenWindows,
  ...samePadding,
];

const installed = Symbol.for('horovod.wasmTrainingKernels');

/** Does nothing the second time. Import @tensorflow/tfjs-backend-wasm first, which registers the kernels to replace. */
export function installTrainingKernels(): void {
  const engine = tf.engine() as unknown as { [installed]?: true };
  if (engine[installed]) return;
  for (const replacement of replacements) install(replacement);
  for (const replacement of cpuFallbacks(wrongUpstream)) install(replacement);
  installReluGradient();
  installUpdates();
  engine[installed] = true;
}

function install({ kernelName, make }: Replacement): void {
  const original = tf.getKernel(kernelName, 'wasm');
  if (original) tf.unregisterKernel(kernelName, 'wasm');
  tf.registerKernel({
    ...original, // includes its set-up function, because the original may still be called
    kernelName,
    backendName: 'wasm',
    kernelFunc: make(original?.kernelFunc as unknown as Kernel | undefined) as unknown as tf.KernelFunc,
  });
}
