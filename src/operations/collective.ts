// A collective as a value: its name, its arguments and how a call of it becomes a plan. The functions that users call
// are its *forms*: one returns a promise, the Sync form blocks. Forms are made once, when a module loads.

import { fromCaller } from '../errors.ts';
import type { TensorLike } from '../tensor/tensor.ts';
import { runPlan, runPlanSync } from './composite.ts';
import { type CollectiveOptions, labelOf } from './options.ts';
import type { Members, Plan, Submission } from './plan.ts';
import type { OperationRunner } from './runner.ts';

/** `A` are the arguments before the options `O`, `P` is the result of its plans. */
export interface Collective<A extends readonly unknown[], O extends CollectiveOptions, P = unknown> {
  readonly name: string;
  /** How many arguments come before the options. */
  readonly arity: number;
  /** Matches the calls of different ranks if the options have no name. Default: the order of calls. */
  readonly defaultName?: string;
  /** Checks the arguments and plans the call. */
  plan(call: Call<A, O>): Plan<P>;
  /** What the caller gets. Default: the result of the plan. */
  result?(planned: P): unknown;
}

/** One call of a collective. */
export interface Call<A extends readonly unknown[], O extends CollectiveOptions> {
  readonly runner: OperationRunner;
  readonly args: A;
  readonly options: O;
  readonly members: Members;
  /** How errors name the call. */
  readonly what: string;
}

/** A collective on tensors has two kinds: of one tensor, and of several, all or nothing. */
export interface TensorCollective<O extends CollectiveOptions> {
  readonly one: Collective<[x: TensorLike], O, TensorLike[]>;
  readonly group: Collective<[xs: readonly TensorLike[]], O, TensorLike[]>;
}

export interface TensorCall<O extends CollectiveOptions> {
  readonly xs: readonly TensorLike[];
  readonly isGrouped: boolean;
  readonly options: O;
  readonly members: Members;
  readonly what: string;
}

export function tensorCollective<O extends CollectiveOptions>(
  name: string,
  groupName: string,
  plan: (call: TensorCall<O>, runner: OperationRunner) => Plan<TensorLike[]>,
): TensorCollective<O> {
  return {
    one: {
      name,
      arity: 1,
      plan: ({ runner, args: [x], options, members, what }) =>
        plan({ xs: [x], isGrouped: false, options, members, what }, runner),
      result: ([y]) => y,
    },
    group: {
      name: groupName,
      arity: 1,
      plan: ({ runner, args: [xs], options, members, what }) =>
        plan({ xs, isGrouped: true, options, members, what }, runner),
    },
  };
}

/**
 * The promise form. Its result is `never` so that it fits every declaration: declarations say that you get back the kind
 * of tensor you gave, which cannot be derived from a Collective. Arguments and options are compared with it.
 */
export function promiseForm<A extends readonly unknown[], O extends CollectiveOptions, P>(
  collective: Collective<A, O, P>,
): (runner: OperationRunner, ...args: [...args: A, options?: O]) => Promise<never> {
  return async (runner, ...args) => {
    try {
      const planned = await runPlan(runner, ...submissionOf(collective, runner, args));
      return resultOf(collective, planned);
    } catch (error) {
      throw fromCaller(error);
    }
  };
}

/** The blocking form; see promiseForm(). */
export function syncForm<A extends readonly unknown[], O extends CollectiveOptions, P>(
  collective: Collective<A, O, P>,
): (runner: OperationRunner, ...args: [...args: A, options?: O]) => never {
  return (runner, ...args) =>
    resultOf(collective, runPlanSync(runner, ...submissionOf(collective, runner, args)));
}

function submissionOf<A extends readonly unknown[], O extends CollectiveOptions, P>(
  collective: Collective<A, O, P>,
  runner: OperationRunner,
  args: readonly unknown[],
): Submission<P> {
  const options = (args[collective.arity] === undefined ? {} : args[collective.arity]) as O;
  const what = labelOf(collective.name, options);
  const members = runner.membersOf(options.processSet, what);
  const plan = collective.plan({ runner, args: args as unknown as A, options, members, what });
  return [plan, options, what, options.name ?? collective.defaultName];
}

function resultOf<A extends readonly unknown[], O extends CollectiveOptions, P>(
  collective: Collective<A, O, P>,
  planned: P,
): never {
  return (collective.result === undefined ? planned : collective.result(planned)) as never;
}
