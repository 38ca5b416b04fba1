// The options of DistributedOptimizer and DistributedGradientTape, as users give them, and their checks.

import type * as tf from '@tensorflow/tfjs';
import { checkNames, invalid, readFlag } from '../../../operations/check-options.ts';
import { describe } from '../../../tensor/tensor.ts';
import {
  type Aggregation,
  type AggregationOptions,
  aggregationOptionNames,
  checkAggregation,
  checkReduction,
  checkShardable,
  type Reduction,
  type ReductionOptions,
  reductionOptionNames,
} from '../../gradient-options.ts';
import { type AnyVariable, variableOf } from './local-variables.ts';

/** What decides how gradients are reduced. */
export interface GradientOptions extends ReductionOptions {
  /** A number of groups of equal length, or lists of variables that are reduced together. */
  groups?: number | readonly (readonly AnyVariable[])[] | undefined;
  /** The older name of `groups` as a number. */
  numGroups?: number | undefined;
  /** Whether gradients of local variables are divided by the number of ranks. Default: true. */
  scaleLocalGradients?: boolean | undefined;
  /** Matches the optimizers of different ranks; without it the order in which they are first used does. */
  name?: string | undefined;
}

export interface DistributedOptimizerOptions extends GradientOptions, AggregationOptions {
  /** Reduce gradients during backpropagation. Default: true; see HOROVOD_OVERLAP. */
  overlap?: boolean | undefined;
  /**
   * Skip steps whose reduced gradients are not finite. All ranks see the same reduced gradients, so all skip the same
   * steps. Default: false.
   */
  skipNonFinite?: boolean | undefined;
  /**
   * Each rank keeps and updates only its share of the optimizer's state (ZeRO-1). Default: false. For the optimizers of
   * tf.train; 'element-wise' declares that the update of an element by your own optimizer depends on that element alone.
   */
  shardOptimizerState?: boolean | 'element-wise' | undefined;
}

/** Checked, with the defaults filled in. */
export interface GradientRules extends Reduction {
  readonly name: string | undefined;
  readonly groups: number | readonly (readonly tf.Variable[])[] | undefined;
  readonly scaleLocalGradients: boolean;
}

export interface OptimizerRules extends GradientRules, Aggregation {
  readonly overlap: boolean;
  readonly skipNonFinite: boolean;
  readonly shardOptimizerState: boolean | 'element-wise';
}

const gradientOptionNames = [...reductionOptionNames, 'groups', 'numGroups', 'scaleLocalGradients', 'name'];
const optimizerOptionNames = [
  ...gradientOptionNames,
  ...aggregationOptionNames,
  'overlap',
  'skipNonFinite',
  'shardOptimizerState',
];

export function checkOptimizerOptions(options: DistributedOptimizerOptions, what: string): OptimizerRules {
  checkNames(options, optimizerOptionNames, what);
  const rules = rulesOf(options, what);
  return {
    ...rules,
    ...checkAggregation(options, rules),
    overlap: readFlag(options, 'overlap', true, what),
    skipNonFinite: readFlag(options, 'skipNonFinite', false, what),
    shardOptimizerState: shardingOf(options, rules),
  };
}

export function checkGradientOptions(options: GradientOptions, what: string): GradientRules {
  checkNames(options, gradientOptionNames, what);
  return rulesOf(options, what);
}

function shardingOf(
  { shardOptimizerState: given = false }: DistributedOptimizerOptions,
  rules: GradientRules,
): OptimizerRules['shardOptimizerState'] {
  const { what, groups } = rules;
  if (typeof given !== 'boolean' && given !== 'element-wise') {
    throw invalid(what, `shardOptimizerState is true, false or 'element-wise', not ${describe(given)}`);
  }
  if (given === false) return false;
  checkShardable(rules);
  if (groups === undefined) return given;
  throw invalid(what, 'groups do not go with shardOptimizerState: all gradients travel in one operation');
}

function rulesOf(options: GradientOptions, what: string): GradientRules {
  const { name } = options;
  if (name !== undefined && (typeof name !== 'string' || name === '' || name.startsWith('#'))) {
    throw invalid(
      what,
      `name is a text that is not empty and does not start with '#', not ${describe(name)}`,
    );
  }
  return {
    ...checkReduction(options, what),
    what: name === undefined ? what : `${what} "${name}"`,
    name,
    groups: groupsOf(options, what),
    scaleLocalGradients: readFlag(options, 'scaleLocalGradients', true, what),
  };
}

function groupsOf({ groups, numGroups }: GradientOptions, what: string): GradientRules['groups'] {
  if (groups !== undefined && numGroups !== undefined) {
    throw invalid(what, 'groups and numGroups are two names of one option; give groups alone');
  }
  const given = groups ?? (numGroups === 0 ? undefined : numGroups);
  if (given === undefined) return undefined;
  if (typeof given === 'number' && Number.isSafeInteger(given) && given > 0) return given;
  if (!Array.isArray(given) || !given.every(Array.isArray)) {
    const text = typeof given === 'number' ? given : describe(given);
    throw invalid(what, `groups is a whole number above 0 or a list of lists of variables, not ${text}`);
  }
  const lists = given.map((list: readonly AnyVariable[]) =>
    list.map((variable) => variableOf(variable, `${what}: groups`)),
  );
  const seen = new Set<tf.Variable>();
  for (const variable of lists.flat()) {
    if (seen.has(variable)) throw invalid(what, `groups has the variable ${variable.name} twice`);
    seen.add(variable);
  }
  return lists;
}
