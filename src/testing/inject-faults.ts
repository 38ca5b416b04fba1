// Makes the faults of a fault plan happen. Node loads it into a rank before the script (`node --import`), with the plan in
// its address; it wraps the clock on which every training step ends. Processes that train nothing are not affected.

import { defaultContext } from '../context/default/default-context.ts';
import { StepClock } from '../engine/step-clock.ts';
import { type Fault, faultsIn } from './faults.ts';

const faults = faultsIn(import.meta.url);

for (const method of ['mark', 'report'] as const) {
  const original = StepClock.prototype[method];
  StepClock.prototype[method] = function (samples) {
    const before = this.step;
    original.call(this, samples);
    if (this.step === before) return;
    const { rank } = defaultContext().world;
    for (const fault of faults) if (fault.rank === rank && fault.step === this.step) strike(fault);
  };
}

function strike({ rank, step, kind, delayMs = 1000 }: Fault): void {
  const what = `injected fault: ${kind} at step ${step} of rank ${rank}`;
  switch (kind) {
    case 'kill':
    case 'stop':
      process.kill(process.pid, kind === 'kill' ? 'SIGKILL' : 'SIGSTOP');
      return;
    case 'throw':
      throw new Error(what);
    case 'delay':
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, delayMs);
      return;
    default:
      throw new Error(`there is no ${kind satisfies never}`);
  }
}
