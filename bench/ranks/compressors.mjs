// One rank of the bench of compressors: allreduces of one square gradient, again and again, as training does. Rank 0 prints one JSON
// line a size and compressor: { compressor, bytes, us, sentBytes, receivedBytes, error }
//   us             median time of an allreduce, compression included
//   sentBytes      what the host's network interfaces have sent for one, headers and all; 0 where ranks share a host
//   receivedBytes  what a rank receives by the algorithm
//   error          length of (mean of the results − true mean) / length of the true mean, after all calls
//
//   horovodrun -np 2 -H host1:1,host2:1 node bench/ranks/compressors.mjs --sizes 4194304,16777216 --compressors none,fp16,int8
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { bytesReceived, chooseCompressor, compressorNames } from './compressor-choice.mjs';
import { openLibrary } from './library.mjs';

const { values: flags } = parseArgs({
  options: {
    compressors: { type: 'string', default: compressorNames.join(',') },
    sizes: { type: 'string', default: `${4 * 2 ** 20},${16 * 2 ** 20}` },
    calls: { type: 'string', default: '5' },
    library: { type: 'string', default: path.join(import.meta.dirname, '../../dist/index.js') },
  },
});
const hvd = await openLibrary(flags.library);
const calls = Number(flags.calls);

for (const bytes of flags.sizes.split(',').map(Number)) {
  const side = Math.floor(Math.sqrt(bytes / 4));
  const shape = [side, side];
  const gradients = Array.from({ length: hvd.size() }, (_, rank) => gradient(side, rank));
  const own = { data: gradients[hvd.rank()], shape, dtype: 'float32' };
  for (const name of flags.compressors.split(',')) {
    const compression = chooseCompressor(hvd, name);
    const options = { op: hvd.Average, compression, name: `gradient of ${bytes} by ${name}` };
    const sum = new Float64Array(side * side);
    const reduce = () => {
      const { data } = hvd.allreduceSync(own, options);
      for (let i = 0; i < sum.length; i++) sum[i] += data[i];
    };
    reduce();
    hvd.barrierSync();
    const sentBefore = bytesSent();
    const times = [];
    for (let i = 0; i < calls; i++) {
      const startedAt = performance.now();
      const { data } = hvd.allreduceSync(own, options);
      times.push((performance.now() - startedAt) * 1000);
      for (let k = 0; k < sum.length; k++) sum[k] += data[k];
    }
    const sentBytes = Math.round((bytesSent() - sentBefore) / calls);
    if (hvd.rank() !== 0) continue;
    const us = times.sort((a, b) => a - b)[Math.floor(times.length / 2)];
    const receivedBytes = await bytesReceived(compression, [shape], hvd.size());
    const error = errorOf(sum, calls + 1, gradients);
    console.log(JSON.stringify({ compressor: name, bytes, us, sentBytes, receivedBytes, error }));
  }
}
await hvd.shutdown();

/** A few directions that all ranks share, and noise of each rank's own: roughly what gradients look like. */
function gradient(side, rank) {
  let state = 12345 + 7919 * rank;
  const random = () => {
    state = (Math.imul(state, 1664525) + 1013904223) | 0;
    return state / 2 ** 31;
  };
  const [rows, columns] = [1, 2].map((k) =>
    Float32Array.from({ length: side }, (_, i) => Math.sin(k * i * i)),
  );
  return Float32Array.from({ length: side * side }, (_, i) => {
    const common = rows[Math.floor(i / side)] * columns[i % side];
    return 0.01 * (common + 0.5 * random() ** 3);
  });
}

function errorOf(sum, count, all) {
  let [off, whole] = [0, 0];
  for (let i = 0; i < sum.length; i++) {
    const mean = all.reduce((total, values) => total + values[i], 0) / all.length;
    off += (sum[i] / count - mean) ** 2;
    whole += mean ** 2;
  }
  return Math.sqrt(off / whole);
}

/** By all interfaces of this host but the one to itself. */
function bytesSent() {
  return readFileSync('/proc/net/dev', 'utf8')
    .split('\n')
    .slice(2)
    .map((line) => line.trim().split(/[\s:]+/))
    .filter(([name]) => name && name !== 'lo')
    .reduce((total, fields) => total + Number(fields[9]), 0);
}
