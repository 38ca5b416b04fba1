// The functions of stages: local ones from the list beside the plan, references loaded.

import { type ElementFunction, isReference, loadReference } from '../plan/function-reference.ts';
import type { StageNode } from '../plan/nodes.ts';

export async function functionsOf(
  stages: readonly StageNode[],
  local: readonly ElementFunction[],
): Promise<(ElementFunction | undefined)[]> {
  return Promise.all(
    stages.map((stage) => {
      if (!('fn' in stage)) return undefined;
      return isReference(stage.fn) ? loadReference(stage.fn) : local[stage.fn.place];
    }),
  );
}
