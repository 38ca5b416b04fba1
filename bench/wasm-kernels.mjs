// Times the convolution kernels of the wasm backend, as TensorFlow.js ships them and as Horovod replaces them, over filter sizes,
// strides and numbers of channels. Both are called in turn in one process, each time with a filter that the backend has not
// seen (as after each training step), and the shortest time counts. `--filter TEXT` selects shapes, `--rounds N` is the number
// of calls (9; at most 3 of slow kernels), `--library PATH` is the build of src/tensorflow.ts to measure.
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import * as tf from '@tensorflow/tfjs';
import '@tensorflow/tfjs-backend-wasm';
import { renderTable } from './harness/tables.mjs';

const { values: flags } = parseArgs({
  options: {
    filter: { type: 'string', default: '' },
    rounds: { type: 'string', default: '9' },
    library: { type: 'string', default: path.join(import.meta.dirname, '../dist/tensorflow.js') },
  },
});

/** Input, filter size, output channels, stride and padding of a convolution. */
const shapes = [
  // conv2dTranspose layers: their input is the output here.
  ['GAN, to 1 channel', [50, 28, 28, 1], 5, 96, 2, 'same'],
  ['GAN, middle', [50, 14, 14, 96], 5, 192, 2, 'same'],
  ['GAN, first', [50, 7, 7, 192], 5, 384, 1, 'valid'],
  ['DCGAN, 4 x 4', [32, 16, 16, 64], 4, 128, 2, 'same'],
  ['upsampling, 2 x 2', [16, 32, 32, 32], 2, 64, 2, 'valid'],
  // conv2d layers.
  ['first layer, 1 channel', [64, 28, 28, 1], 5, 8, 1, 'valid'],
  ['first layer, 3 channels', [32, 32, 32, 3], 3, 32, 1, 'same'],
  ['first layer, 7 x 7', [4, 112, 112, 3], 7, 64, 2, 'same'],
  ['5 x 5, few channels', [64, 12, 12, 8], 5, 16, 1, 'valid'],
  ['5 x 5', [64, 14, 14, 32], 5, 64, 1, 'same'],
  ['3 x 3, stride 2', [32, 28, 28, 32], 3, 64, 2, 'same'],
  ['3 x 3, stride 2, 7 channels', [32, 28, 28, 7], 3, 64, 2, 'same'],
  ['1 x 1', [32, 14, 14, 128], 1, 128, 1, 'same'],
  ['1 x 1, stride 2', [32, 14, 14, 128], 1, 256, 2, 'same'],
  ['3 x 3 to 1 channel', [32, 28, 28, 64], 3, 1, 1, 'same'],
  ['5 x 5 to 3 channels', [32, 32, 32, 32], 5, 3, 1, 'same'],
  ['4 x 4 to 1 channel, stride 2', [32, 32, 32, 64], 4, 1, 2, 'same'],
  ['1 to 1 channel', [32, 64, 64, 1], 5, 1, 1, 'same'],
  ['3 x 3, Winograd', [64, 14, 14, 64], 3, 64, 1, 'same'],
];
const kernelNames = ['Conv2D', 'FusedConv2D', 'Conv2DBackpropInput', 'Conv2DBackpropFilter'];

const kernels = () => kernelNames.map((name) => tf.getKernel(name, 'wasm')?.kernelFunc);
const stock = kernels();
const { setBackend } = await import(pathToFileURL(path.resolve(flags.library)));
await setBackend('wasm');
const ours = kernels();
const backend = tf.backend();

const rows = [];
for (const [label, inputShape, size, outChannels, stride, pad] of shapes) {
  if (!label.includes(flags.filter)) continue;
  const filterShape = [size, size, inputShape[3], outChannels];
  const info = tf.backend_util.computeConv2DInfo(inputShape, filterShape, stride, 1, pad);
  const operations = 2 * info.outShape.reduce((a, b) => a * b) * size * size * inputShape[3];
  const attrs = { strides: stride, pad, dataFormat: 'NHWC', dilations: 1, inputShape, filterShape };
  for (const [i, kernelName] of kernelNames.entries()) {
    const [x, dy, bias] = [inputShape, info.outShape, [outChannels]].map(random);
    const times = [stock[i], ours[i]].map((kernel) => (kernel ? [] : undefined));
    for (let round = 0; round < Number(flags.rounds); round++) {
      for (const [j, kernel] of [stock[i], ours[i]].entries()) {
        const filter = random(filterShape);
        const isEnough = round >= 3 && times[j]?.[0] > 200;
        if (kernel && !isEnough) {
          times[j].push(timeOf(kernel, { x, dy, filter, bias }, { ...attrs, activation: 'linear' }));
        }
        backend.disposeData(filter.dataId);
      }
    }
    for (const { dataId } of [x, dy, bias]) backend.disposeData(dataId);
    const [before, after] = times.map((list) => list && Math.min(...list));
    rows.push([
      `${label}: [${inputShape}] → ${outChannels}, ${size} × ${size}, /${stride} ${pad}`,
      kernelName,
      ...[before, after].flatMap((ms) => (ms === undefined ? ['–', '–'] : figures(ms, operations))),
      before === undefined ? '–' : (before / after).toFixed(2),
    ]);
  }
}
const head = ['convolution', 'kernel', 'stock ms', 'GFLOP/s', 'ours ms', 'GFLOP/s', 'stock / ours'];
console.log(renderTable({ title: 'Convolution kernels of the wasm backend', head, rows }));

/** Milliseconds of processor time, which other programs disturb less than the clock. */
function timeOf(kernel, inputs, attrs) {
  const start = process.cpuUsage();
  const output = kernel({ inputs, backend, attrs });
  const { user, system } = process.cpuUsage(start);
  const ms = (user + system) / 1000;
  backend.disposeData(output.dataId);
  return ms;
}

function figures(ms, operations) {
  return [ms.toFixed(2), (operations / ms / 1e6).toFixed(1)];
}

function random(shape) {
  const info = backend.makeOutput(shape, 'float32');
  const values = backend.typedArrayFromHeap(info);
  for (let i = 0; i < values.length; i++) values[i] = Math.random() - 0.5;
  return info;
}
