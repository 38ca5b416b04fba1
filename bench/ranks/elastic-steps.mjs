// One worker of bench/recovery.mjs: steps of about 5 ms with one allreduce and one commit each, until it is stopped. It appends a line
// to a file of its own in --events for the first step of each generation and for every 100th: who it is, and when the step ended.
import { appendFileSync } from 'node:fs';
import { hostname } from 'node:os';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';

const { values: flags } = parseArgs({
  options: {
    events: { type: 'string' },
    library: { type: 'string', default: path.join(import.meta.dirname, '../../dist/index.js') },
  },
});
const REPORT_EVERY = 100;
const STEP_MS = 5;

const hvd = await import(pathToFileURL(flags.library).href);
await hvd.init();
const { elastic } = hvd;
const file = path.join(flags.events, `${hostname()}-${process.pid}.jsonl`);
const gradient = new Float32Array(64 * 1024).fill(1);
const pause = new Int32Array(new SharedArrayBuffer(4));
let lastStepAt;

const state = new elastic.ObjectState({ step: 0 });
await elastic.run(async () => {
  for (let isFirst = true; ; isFirst = false) {
    Atomics.wait(pause, 0, 0, STEP_MS);
    hvd.allreduceSync(gradient);
    state.step++;
    state.commitSync();
    const now = performance.timeOrigin + performance.now();
    if (isFirst || state.step % REPORT_EVERY === 0) report(now, isFirst);
    lastStepAt = now;
  }
}, state);

function report(at, isFirst) {
  const { pid } = process;
  const who = { host: hostname(), pid, rank: hvd.rank(), size: hvd.size(), generation: elastic.generation() };
  appendFileSync(file, `${JSON.stringify({ ...who, isFirst, step: state.step, at, lastStepAt })}\n`);
}
