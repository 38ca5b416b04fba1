// Training as a dashboard sees it, for bench/dashboard-cost.mjs: each step computes for some milliseconds, reduces 1 MiB, logs a metric, and now
// and then prints a line. Ends when the file STOP exists; then rank 0 writes when each step has ended. dashboard-steps.mjs STOP TIMES
import { existsSync, writeFileSync } from 'node:fs';
import * as hvd from '../../dist/index.js';

const [stop, times] = process.argv.slice(2);
await hvd.init();
const gradients = new Float32Array(256 * 1024).fill(1);
const weights = new Float32Array(1 << 16).fill(0.5);
const flag = new Int32Array(1);
const ends = [];
for (let step = 0; flag[0] === 0; step++) {
  for (let pass = 0; pass < 120; pass++)
    for (let i = 0; i < weights.length; i++) weights[i] = weights[i] * 0.999 + 0.001;
  hvd.allreduceSync(gradients, { name: 'gradients', inPlace: true });
  hvd.logMetrics({ loss: weights[0] });
  hvd.markStep({ samples: 32 });
  ends.push(performance.timeOrigin + performance.now());
  if (step % 10 !== 0) continue;
  console.log(`step ${step}`);
  flag[0] = existsSync(stop) ? 1 : 0;
  hvd.allreduceSync(flag, { name: 'stop', op: hvd.Max, inPlace: true });
  await new Promise((resolve) => setImmediate(resolve));
}
if (hvd.rank() === 0) writeFileSync(times, JSON.stringify(ends));
await hvd.shutdown();
