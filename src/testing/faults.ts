// A fault plan: what should happen to which rank at the end of which step. spawnRanks() passes it to inject-faults.ts,
// which Node loads into every rank before the script.

import { HorovodError } from '../errors.ts';
import { describe } from '../tensor/tensor.ts';

const kinds = ['kill', 'stop', 'throw', 'delay'] as const;

/** One fault of a plan. */
export interface Fault {
  readonly rank: number;
  /** The fault happens when this rank ends its step of this number: 1 is the first (see hvd.markStep()). */
  readonly step: number;
  /**
   * - `kill`: the process is killed (SIGKILL), like by the kernel when memory runs out
   * - `stop`: the process freezes (SIGSTOP)
   * - `throw`: markStep(), or the call of the optimizer that ended the step, throws an error
   * - `delay`: the rank blocks for `delayMs`
   */
  readonly kind: (typeof kinds)[number];
  /** For `delay`. Default: 1000. */
  readonly delayMs?: number;
}

/** Throws ERR_HVD_INVALID_ARGUMENT for a fault that could never happen. */
export function checkFaults(faults: readonly Fault[], np: number): void {
  for (const [i, { rank, step, kind, delayMs = 0 }] of faults.entries()) {
    const reject = (text: string) => {
      throw new HorovodError('ERR_HVD_INVALID_ARGUMENT', `spawnRanks: faults[${i}].${text}`);
    };
    if (!Number.isInteger(rank) || rank < 0 || rank >= np) {
      reject(`rank must be one of 0 … ${np - 1}, not ${describe(rank)}.`);
    }
    if (!Number.isInteger(step) || step < 1) reject(`step must be 1 or more, not ${describe(step)}.`);
    if (!kinds.includes(kind)) reject(`kind must be one of ${kinds.join(', ')}, not ${describe(kind)}.`);
    if (!(delayMs >= 0)) reject(`delayMs must be 0 or more, not ${describe(delayMs)}.`);
  }
}

/** The value of NODE_OPTIONS for ranks with these faults. */
export function nodeOptionsWith(faults: readonly Fault[], nodeOptions = ''): string {
  const injector = new URL('./inject-faults.js', import.meta.url);
  // In the address of the module, and so without an environment variable.
  injector.searchParams.set('faults', JSON.stringify(faults));
  return `${nodeOptions} --import=${injector.href}`.trim();
}

/** The faults in the address of inject-faults.ts. */
export function faultsIn(address: string): Fault[] {
  return JSON.parse(new URL(address).searchParams.get('faults') ?? '[]') as Fault[];
}
