// What the ranks must agree on, made from a plan.

import type { Fingerprint } from '../engine/fingerprint.ts';
import { type Description, fingerprintOf } from '../engine/request.ts';
import { dtypes } from '../tensor/dtype.ts';
import type { Plan } from './plans.ts';

export function describePlan<R>(plan: Plan<R>, key: string): Description {
  return {
    key,
    kind: plan.kind,
    dtypes: plan.operands.map(({ dtype }) => dtype),
    shapes: plan.operands.map(({ shape }) => shape),
    isGrouped: plan.isGrouped ?? false,
    op: plan.op?.name,
    prescale: plan.prescale ?? 1,
    postscale: plan.postscale ?? 1,
    root: plan.root,
    detail: plan.detail ?? '',
  };
}

export function fingerprintOfPlan<R>(plan: Plan<R>, description: Description, rank: number): Fingerprint {
  const codes = description.dtypes.map((dtype) => dtypes[dtype].code);
  const fingerprint = fingerprintOf(description, plan.op?.code ?? -1, codes);
  // Joins never match by fingerprint: who came last is in the lists, so there must be an exchange of them.
  return plan.kind === 'join' ? fingerprint.number(rank) : fingerprint;
}
