// An exchange of texts that nobody ever has to come to (NOTE [When settings change] in engine/autotune/tuner.ts): if not all
// members ask for it at the same point of their work, it is given up on all of them, and nobody waits.

import type { RequestKind } from '../engine/description.ts';
import { HorovodError } from '../errors.ts';
import { textsOf } from '../operations/collectives/allgather.ts';
import type { Plan } from '../operations/plan.ts';
import type { ProcessSet } from '../operations/process-set.ts';
import type { OperationRunner } from '../operations/runner.ts';
import type { AllgatherOperation } from '../transport/transport.ts';

/** The texts of all members; undefined if it was given up. */
export async function exchangeOptional(
  runner: OperationRunner,
  kind: RequestKind,
  key: string,
  text: string,
  processSet?: ProcessSet,
): Promise<readonly string[] | undefined> {
  return runner.run(planOf(kind, text), { processSet }, kind, key).catch(givenUp);
}

/** The blocking form of exchangeOptional(). */
export function exchangeOptionalSync(
  runner: OperationRunner,
  kind: RequestKind,
  key: string,
  text: string,
  processSet?: ProcessSet,
): readonly string[] | undefined {
  try {
    return runner.runSync(planOf(kind, text), { processSet }, kind, key);
  } catch (error) {
    return givenUp(error);
  }
}

function planOf(kind: RequestKind, text: string): Plan<readonly string[]> {
  const operation: AllgatherOperation = { kind: 'allgather', input: Buffer.from(text) };
  return { kind, operands: [], operations: [operation], result: () => textsOf(operation) };
}

function givenUp(error: unknown): undefined {
  if (HorovodError.is(error) && error.code === 'ERR_HVD_ABORTED') return undefined;
  throw error;
}
