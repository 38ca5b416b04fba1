// A plan: what one call of a collective asks the engine to do, and how its result is made afterwards. The collectives
// (collectives/) make plans, contexts run them. Making a plan submits nothing.

import { type Description, fingerprintOf } from '../engine/description.ts';
import type { Fingerprint } from '../engine/fingerprint.ts';
import type { CompressionKernels } from '../tensor/compression/kernels.ts';
import { dtypes } from '../tensor/dtype.ts';
import type { ReduceOp } from '../tensor/reduce-op.ts';
import type { Operand } from '../tensor/tensor.ts';
import type { TransportOperation } from '../transport/transport.ts';
import type { CollectiveOptions } from './options.ts';

/** A request without its key. */
export interface Plan<R> {
  readonly kind: Description['kind'];
  readonly operations: readonly TransportOperation[];
  readonly operands: readonly Pick<Operand, 'shape' | 'dtype'>[];
  readonly isGrouped?: boolean;
  readonly op?: ReduceOp;
  readonly prescale?: number;
  readonly postscale?: number;
  readonly root?: number;
  readonly detail?: string;
  /** For a collective made of several others: then `operations` is empty and result() is not called. */
  readonly composite?: (() => Composite<R>) | undefined;
  /** The operations work on the user's arrays, so they can run again and again. */
  readonly isRepeatable?: boolean;
  /** Called with the key of the request: its name, or its number if it has no name. */
  readonly onKey?: (key: string) => void;
  /** Called once, when the operations are done. */
  result(): R;
}

/**
 * A collective made of several others. Each `yield` is one agreed request with the operations given; they are done, and
 * their outputs filled in, when the generator resumes.
 */
export type Composite<R> = Generator<readonly TransportOperation[], R, void>;

/** How a plan is handed to a runner: `what` is named in errors, `name` replaces the one in the options. */
export type Submission<R> = [
  plan: Plan<R>,
  options: CollectiveOptions,
  what: string,
  name?: string | undefined,
];

/** The process set a plan is for. */
export interface Members {
  readonly ranks: readonly number[];
  /** This rank's place in `ranks`. */
  readonly index: number;
  /** Number of each member's host, where it is known. */
  readonly hostOf?: readonly number[] | undefined;
  /** The transport's kernels for lossy compression, if it has any. */
  readonly kernels?: CompressionKernels | undefined;
}

/** What the ranks must agree on. */
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
  // Joins never match by fingerprint: the lists tell which rank came last, so they must be exchanged.
  return plan.kind === 'join' ? fingerprint.number(rank) : fingerprint;
}
