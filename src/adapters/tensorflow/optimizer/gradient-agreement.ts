// What the ranks agree on before they reduce a list of gradients for the first time: that they mean the same variables, which
// of them have gradients on any rank, in which order backpropagation finishes them, and the mode. Later steps only move bytes.

import { HorovodError } from '../../../errors.ts';
import { allgatherObjectSync, allreduceSync } from '../../../operations/collectives.ts';
import type { ProcessSet } from '../../../operations/process-set.ts';
import { Max } from '../../../tensor/reduce-op.ts';
import type { AdapterContext } from '../../context.ts';
import { firstDifference, type VariableDescription } from '../variable-lists.ts';

/**
 * How gradients are reduced. direct: in the tensors' memory, after backpropagation. staged: in a buffer, after
 * backpropagation. overlapped: in a buffer, during backpropagation.
 */
export type Mode = 'direct' | 'staged' | 'overlapped';

export interface Proposal {
  readonly variables: readonly VariableDescription[];
  /** Digest of the names of all trainable variables of this rank; undefined if the user has named the optimizer. */
  readonly allNames?: number | undefined;
  /** Places of the variables that have a gradient here. */
  readonly present: readonly number[];
  /** Places in the order in which their gradients were heard during backpropagation. */
  readonly finished: readonly number[];
  /** Modes this rank can use, the best first. */
  readonly modes: readonly Mode[];
}

export interface Agreement {
  /** Places of the gradients to reduce, in the order in which they are finished. */
  readonly order: readonly number[];
  readonly mode: Mode;
  /** Some rank has variables without gradients, so some rank may come with new gradients later. */
  readonly mayGrow: boolean;
  /** All ranks have the same list of variables; otherwise only those with gradients are the same. */
  readonly areAlike: boolean;
}

/** Collective, blocking. If the ranks do not mean the same variables, every rank throws the same error. */
export function agreeOnGradients(
  context: AdapterContext,
  proposal: Proposal,
  options: { readonly what: string; readonly name: string; readonly processSet: ProcessSet | undefined },
): Agreement {
  const { what, name, processSet } = options;
  const proposals = allgatherObjectSync(context, proposal, { name, processSet });
  const { ranks } = context.membersOf(processSet, what);
  const differenceOf = (list: readonly Proposal[]) =>
    firstDifference(
      list.map(({ variables }) => variables),
      ranks,
    );
  const difference = differenceOf(proposals);
  checkNotCrossed(proposals, ranks, what);
  if (difference === undefined) return decide(proposals);
  // Variables without gradients do not matter: a rank may have more of them (another model, say) in the list of all.
  const used = proposals.map(onlyUsed);
  if (differenceOf(used) === undefined) {
    const { order, mode } = decide(used);
    return {
      order: order.map((place) => proposal.present[place] as number),
      mode,
      mayGrow: true,
      areAlike: false,
    };
  }
  throw new HorovodError(
    'ERR_HVD_MISMATCH',
    `${what}: the model is not the same on all ranks: ${difference.text}. Build the same model everywhere, and register layers ` +
      'that differ on purpose as local (PartialDistributedOptimizer).',
    { rank: difference.rank, tensor: difference.name },
  );
}

/**
 * Two optimizers that are first used in another order on another rank would meet crosswise, and each would get gradients of the
 * other's variables. Names alone do not tell: TensorFlow.js numbers layers per process, so a rank that has built one model more has
 * other names for the same variables. But if two ranks have built the same, by all names, and come with different variables, they are
 * crossed.
 */
function checkNotCrossed(proposals: readonly Proposal[], ranks: readonly number[], what: string): void {
  const [first, ...others] = proposals;
  if (first?.allNames === undefined) return;
  for (const [i, other] of others.entries()) {
    const [name, otherName] = [firstMissing(first, other), firstMissing(other, first)];
    if (other.allNames !== first.allNames || name === undefined || otherName === undefined) continue;
    throw new HorovodError(
      'ERR_HVD_MISMATCH',
      `${what}: the ranks use their optimizers in a different order: rank ${ranks[0]} has come with "${name}", rank ${ranks[i + 1]} ` +
        `with "${otherName}", and both have both variables. Optimizers of different ranks belong together in the order of their first use. ` +
        'Use them in the same order on all ranks. If they are, and only the names of the variables differ, name the optimizers: ' +
        "hvd.DistributedOptimizer(tf.train.adam(…), { name: 'generator' }).",
      { rank: ranks[i + 1], tensor: otherName },
    );
  }
}

/** The first variable with a gradient that is not in the other list. */
function firstMissing({ variables, present }: Proposal, other: Proposal): string | undefined {
  const names = new Set(other.variables.map(({ name }) => name));
  return present
    .map((place) => variables[place]?.name)
    .find((name) => name !== undefined && !names.has(name));
}

/** Whether it is so on any rank. Collective, blocking. */
export function anyRank(
  context: AdapterContext,
  isSo: boolean,
  options: { readonly name: string; readonly processSet: ProcessSet | undefined },
): boolean {
  return allreduceSync(context, Int32Array.of(isSo ? 1 : 0), { ...options, op: Max })[0] === 1;
}

/** The proposal as if there were no variables but those with a gradient. */
function onlyUsed({ variables, present, finished, modes }: Proposal): Proposal {
  const placeOf = new Map(present.map((old, place) => [old, place]));
  return {
    variables: present.map((old) => variables[old] as VariableDescription),
    present: present.map((_, place) => place),
    finished: finished.flatMap((old) => placeOf.get(old) ?? []),
    modes,
  };
}

/** Pure, and the same on every rank. */
export function decide(proposals: readonly Proposal[]): Agreement {
  const [first] = proposals as [Proposal];
  const present = new Set(proposals.flatMap((proposal) => proposal.present));
  const early = first.finished.filter((place) => present.has(place));
  const heard = new Set(early);
  // What is not heard during backpropagation comes after it: last layers first, as backpropagation goes.
  const late = [...present].filter((place) => !heard.has(place)).sort((a, b) => b - a);
  const mode = first.modes.find((each) => proposals.every(({ modes }) => modes.includes(each)));
  const mayGrow = present.size < first.variables.length;
  return { order: [...early, ...late], mode: mode ?? 'staged', mayGrow, areAlike: true };
}
