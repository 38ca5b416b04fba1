// The options of DistributedOptimizer and DistributedGradientTape, as users give them, and their checks.

import * as tf from '@tensorflow/tfjs';
import { HorovodError } from '../../../errors.ts';
import { ProcessSet } from '../../../operations/process-set.ts';
import {
  type AnyCompressor,
  Compression,
  type CompressionName,
  compressorOf,
} from '../../../tensor/compression/compression.ts';
import { isReducing } from '../../../tensor/compression/compressor.ts';
import { Adasum, Average, type ReduceOp, Sum } from '../../../tensor/reduce-op.ts';
import { describe } from '../../../tensor/tensor.ts';
import { type AnyVariable, variableOf } from './local-variables.ts';

/** What decides how gradients are reduced. */
export interface GradientOptions {
  /** Average (default), Sum or Adasum; for an optimizer Adasum combines the changes of the variables, not gradients. */
  op?: ReduceOp | undefined;
  /** One of Compression, its name, or one of your own. Default: none. */
  compression?: AnyCompressor | CompressionName | undefined;
  /** With Average: gradients are divided by this before the sum and by size / this after it. Default 1. */
  gradientPredivideFactor?: number | undefined;
  /** A number of groups of equal length, or lists of variables that are reduced together. */
  groups?: number | readonly (readonly AnyVariable[])[] | undefined;
  /** The older name of `groups` as a number. */
  numGroups?: number | undefined;
  processSet?: ProcessSet | undefined;
  /** Whether gradients of local variables are divided by the number of ranks. Default true. */
  scaleLocalGradients?: boolean | undefined;
  /** Matches the optimizers of different ranks; without it the order in which they are first used does. */
  name?: string | undefined;
}

export interface DistributedOptimizerOptions extends GradientOptions {
  /**
   * Gradients are summed over this many passes before they are reduced and applied. With op Adasum: each rank makes this
   * many steps of its own before they are combined. Default 1.
   */
  backwardPassesPerStep?: number | undefined;
  /** Divide that sum by the number of passes. Default false. */
  averageAggregatedGradients?: boolean | undefined;
  /** Reduce gradients while backpropagation goes on. Default true; see HOROVOD_OVERLAP. */
  overlap?: boolean | undefined;
  /**
   * Leave out the steps whose reduced gradients are not finite. All ranks see the same reduced gradients, so all
   * leave out the same steps. Default false.
   */
  skipNonFinite?: boolean | undefined;
  /**
   * Each rank keeps and updates only its share of the optimizer's state (ZeRO-1). Default false. For the optimizers of
   * tf.train; 'element-wise' vouches for one of your own: what becomes of an element depends on that element alone.
   */
  shardOptimizerState?: boolean | 'element-wise' | undefined;
}

/** Checked, with the defaults filled in. */
export interface GradientRules {
  readonly what: string;
  readonly name: string | undefined;
  readonly op: ReduceOp;
  readonly compression: AnyCompressor;
  readonly prescaleFactor: number;
  readonly postscaleFactor: number;
  readonly groups: number | readonly (readonly tf.Variable[])[] | undefined;
  readonly processSet: ProcessSet | undefined;
  readonly scaleLocalGradients: boolean;
}

export interface OptimizerRules extends GradientRules {
  readonly backwardPassesPerStep: number;
  readonly averageAggregatedGradients: boolean;
  readonly overlap: boolean;
  readonly skipNonFinite: boolean;
  readonly shardOptimizerState: boolean | 'element-wise';
}

const gradientOptionNames = [
  'op',
  'compression',
  'gradientPredivideFactor',
  'groups',
  'numGroups',
  'processSet',
  'scaleLocalGradients',
  'name',
];
const optimizerOptionNames = [
  ...gradientOptionNames,
  'backwardPassesPerStep',
  'averageAggregatedGradients',
  'overlap',
  'skipNonFinite',
  'shardOptimizerState',
];

export function checkOptimizerOptions(options: DistributedOptimizerOptions, what: string): OptimizerRules {
  checkNames(options, optimizerOptionNames, what);
  const backwardPassesPerStep = options.backwardPassesPerStep ?? 1;
  if (!Number.isSafeInteger(backwardPassesPerStep) || backwardPassesPerStep < 1) {
    throw refusal(
      what,
      `backwardPassesPerStep is a whole number above 0, not ${describe(backwardPassesPerStep)}`,
    );
  }
  const rules = rulesOf(options, what);
  const averageAggregatedGradients = truth(options, 'averageAggregatedGradients', false, what);
  if (rules.op === Adasum && averageAggregatedGradients) {
    throw refusal(
      what,
      'averageAggregatedGradients does not go with op Adasum, which aggregates no gradients',
    );
  }
  return {
    ...rules,
    backwardPassesPerStep,
    averageAggregatedGradients,
    overlap: truth(options, 'overlap', true, what),
    skipNonFinite: truth(options, 'skipNonFinite', false, what),
    shardOptimizerState: shardingOf(options, rules, what),
  };
}

function shardingOf(
  { shardOptimizerState: given = false }: DistributedOptimizerOptions,
  { op, compression, groups }: GradientRules,
  what: string,
): OptimizerRules['shardOptimizerState'] {
  if (typeof given !== 'boolean' && given !== 'element-wise') {
    throw refusal(what, `shardOptimizerState is true, false or 'element-wise', not ${describe(given)}`);
  }
  if (given === false) return false;
  if (op !== Average && op !== Sum) {
    throw refusal(what, `shardOptimizerState goes with op Average and Sum, not with ${op.name}`);
  }
  if (![Compression.none, Compression.fp16, Compression.bf16].includes(compression as never)) {
    throw new HorovodError(
      'ERR_HVD_UNSUPPORTED',
      `${what}: shardOptimizerState goes with Compression.none, fp16 and bf16, not with ${compression.name}: each rank gets the ` +
        'reduced gradients of its share only.',
    );
  }
  if (groups !== undefined) {
    throw refusal(what, 'groups do not go with shardOptimizerState: all gradients travel in one operation');
  }
  return given;
}

export function checkGradientOptions(options: GradientOptions, what: string): GradientRules {
  checkNames(options, gradientOptionNames, what);
  return rulesOf(options, what);
}

function rulesOf(options: GradientOptions, what: string): GradientRules {
  const { op = Average, gradientPredivideFactor: factor = 1 } = options;
  const compression = compressorOf(options.compression, what);
  if (op !== Average && op !== Sum && op !== Adasum) {
    throw refusal(what, `op is Average, Sum or Adasum: gradients have no other meaning than their sum`);
  }
  if (typeof factor !== 'number' || !Number.isFinite(factor) || factor <= 0) {
    throw refusal(what, `gradientPredivideFactor is a finite number above 0, not ${describe(factor)}`);
  }
  if (factor !== 1 && op !== Average) {
    throw refusal(what, 'gradientPredivideFactor goes with op Average only');
  }
  if (op === Adasum && isReducing(compression)) {
    throw refusal(what, `compression ${compression.name} goes with op Average and Sum, not with Adasum`);
  }
  const { name, processSet } = options;
  if (processSet !== undefined && !(processSet instanceof ProcessSet)) {
    throw refusal(what, `processSet is a ProcessSet, not ${describe(processSet)}`);
  }
  if (name !== undefined && (typeof name !== 'string' || name === '' || name.startsWith('#'))) {
    throw refusal(
      what,
      `a name is a text that is not empty and does not start with '#', not ${describe(name)}`,
    );
  }
  return {
    what: name === undefined ? what : `${what} "${name}"`,
    name,
    op,
    compression,
    prescaleFactor: 1 / factor,
    postscaleFactor: factor,
    groups: groupsOf(options, what),
    processSet,
    scaleLocalGradients: truth(options, 'scaleLocalGradients', true, what),
  };
}

/** A set that nobody knows has no ranks to reduce with: training would go on, with every rank alone. */
export function checkRegistered({ what, processSet }: GradientRules): void {
  if (processSet === undefined || processSet.included() !== null) return;
  throw new HorovodError(
    'ERR_HVD_PROCESS_SET',
    `${what}: ${processSet} is not registered, or has been removed. Give it to init({ processSets }) or addProcessSet().`,
  );
}

function groupsOf(options: GradientOptions, what: string): GradientRules['groups'] {
  const { groups, numGroups } = options;
  if (groups !== undefined && numGroups !== undefined) {
    throw refusal(what, 'groups and numGroups are two names of one option; give groups alone');
  }
  const given = groups ?? (numGroups === 0 ? undefined : numGroups);
  if (given === undefined) return undefined;
  if (typeof given === 'number') {
    if (Number.isSafeInteger(given) && given > 0) return given;
    throw refusal(what, `groups is a whole number above 0 or a list of lists of variables, not ${given}`);
  }
  if (!Array.isArray(given) || !given.every(Array.isArray)) {
    throw refusal(
      what,
      `groups is a whole number above 0 or a list of lists of variables, not ${describe(given)}`,
    );
  }
  const lists = given.map((list: readonly AnyVariable[]) =>
    list.map((variable) => variableOf(variable, `${what}: groups`)),
  );
  const seen = new Set<tf.Variable>();
  for (const variable of lists.flat()) {
    if (seen.has(variable)) throw refusal(what, `groups has the variable ${variable.name} twice`);
    seen.add(variable);
  }
  return lists;
}

function checkNames(options: object, names: readonly string[], what: string): void {
  if (typeof options !== 'object' || options === null || options instanceof tf.Tensor) {
    throw refusal(what, `options are an object, not ${describe(options)}`);
  }
  const unknown = Object.keys(options).find((key) => !names.includes(key));
  if (unknown !== undefined) {
    throw refusal(what, `there is no option ${unknown}; there are ${names.join(', ')}`);
  }
}

function truth(options: object, key: string, otherwise: boolean, what: string): boolean {
  const value: unknown = (options as Record<string, unknown>)[key] ?? otherwise;
  if (typeof value === 'boolean') return value;
  throw refusal(what, `${key} is true or false, not ${describe(value)}`);
}

function refusal(what: string, reason: string): HorovodError {
  return new HorovodError('ERR_HVD_INVALID_ARGUMENT', `${what}: ${reason}.`);
}
