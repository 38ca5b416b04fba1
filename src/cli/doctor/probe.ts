// What each rank of `horovod doctor` does: a few allreduce operations of 1 MiB, with a result that is checked.

import { allreduceSync } from '../../context/default/default-collectives.ts';
import { init, shutdown } from '../../context/default/default-context.ts';
import { rank, size, transportName } from '../../context/default/default-membership.ts';
import { Sum } from '../../tensor/reduce-op.ts';

export interface ProbeResult {
  readonly transport: string;
  readonly isRight: boolean;
  /** The median of one operation. */
  readonly milliseconds: number;
}

const elements = 2 ** 18;
const rounds = 15;

export default async function probe(): Promise<ProbeResult> {
  await init();
  const times: number[] = [];
  let isRight = true;
  for (let round = 0; round < rounds; round++) {
    const values = new Float32Array(elements).fill(rank() + 1);
    const began = performance.now();
    const sum = allreduceSync(values, { op: Sum, name: 'doctor' });
    times.push(performance.now() - began);
    const expected = (size() * (size() + 1)) / 2;
    isRight &&= sum.every((value) => value === expected);
  }
  const transport = transportName();
  await shutdown();
  times.sort((a, b) => a - b);
  return { transport, isRight, milliseconds: times[rounds >> 1] as number };
}
