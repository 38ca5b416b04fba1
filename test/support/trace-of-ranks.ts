// A timeline of ranks on hosts with long names: steps with their phases, and allreduces of variables with long names, for which rank 1
// keeps the others waiting.

export interface TraceShape {
  readonly ranks: number;
  readonly steps: number;
  /** Of each step. */
  readonly operations?: number;
}

export const stepUs = 137_000;
/** Rank 1 comes to its collectives so much later than the others. */
export const lateUs = 51_200;

export function traceOf({ ranks, steps, operations = 1 }: TraceShape): object[] {
  const origin = {
    name: 'horovod timeline',
    start_time_since_epoch_in_micros: 1_700_000_000_000_000,
    version: '1.2.3',
    command: `train.ts --data ${'/a/long/path'.repeat(12)} --epochs 100`,
  };
  const events: object[] = [{ name: 'process_name', ph: 'M', ts: 0, pid: 0, tid: 0, args: origin }];
  for (let rank = 0; rank < ranks; rank++) {
    const name = `rank ${rank} (gpu-worker-${rank >> 1}.training.cluster.example.org, pid ${31_000 + rank})`;
    events.push({ name: 'process_name', ph: 'M', ts: 0, pid: rank + 1, tid: 0, args: { name, cores: 2 } });
    const slice = (tid: number, label: string, ts: number, dur: number, args: object = {}) =>
      events.push({ name: label, cat: 'allreduce', ph: 'X', ts, dur, pid: rank + 1, tid, args });
    for (let step = 0; step < steps; step++) {
      const from = step * stepUs;
      const waitUs = rank === 1 ? 800 : 800 + lateUs;
      const computeUs = stepUs - waitUs - 9000;
      const at = from + computeUs;
      slice(1, `step ${step + 1}`, from, stepUs, { samples: 128 });
      slice(2, 'FORWARD', from, computeUs * 0.4);
      slice(2, 'BACKPROP', from + computeUs * 0.4, computeUs * 0.55);
      slice(2, 'EXPOSED_COMMUNICATION', at, waitUs + 9000);
      const args = { kind: 'allreduce', dtype: 'float32', shape: '[3,3,512,512]', bytes: 9_437_184 };
      for (let operation = 0; operation < operations; operation++) {
        // All after the first are short, and none waits.
        const [start, wait, work] = operation === 0 ? [at, waitUs, 6000] : [at + waitUs + 6000, 0, 3000];
        const begin = operation === 0 ? start : start + ((operation - 1) * work) / operations;
        const length = operation === 0 ? work : work / operations;
        slice(10, nameOf(step, operation), begin, wait + length, args);
        if (wait > 0) slice(10, 'NEGOTIATE_ALLREDUCE', begin, wait);
        slice(10, 'ALLREDUCE', begin + wait, length);
      }
    }
  }
  return events;
}

function nameOf(step: number, operation: number): string {
  const block = `encoder/block_${step % 12}`;
  return operation === 0 ? `${block}/multi_head_attention/output/kernel` : `${block}/bias_${operation}`;
}
