// TensorFlowState: variables and optimizers of TensorFlow.js, and fields. A commit costs a counter per variable, not a copy, so every
// step can be one.

import type * as tf from '@tensorflow/tfjs';
import { partsOfFields } from '../../../elastic/object-state.ts';
import type { StatePart } from '../../../elastic/runner.ts';
import { State } from '../../../elastic/state.ts';
import { checkNames, invalid } from '../../../operations/check-options.ts';
import { describe } from '../../../tensor/tensor.ts';
import { checkMirrorEvery } from '../../sharding/mirror-every.ts';
import { checkOptimizer } from '../accumulators.ts';
import { DistributedGradientTape } from '../optimizer/distributed-gradient-tape.ts';
import { stepperOf } from '../optimizer/distributed-optimizer.ts';
import { type AnyVariable, trainableVariables, variableOf } from '../optimizer/local-variables.ts';
import { OptimizerPart } from './optimizer-part.ts';
import { ReferencePart } from './reference-part.ts';
import { ResidualsPart } from './residuals-part.ts';
import { ShardedOptimizerPart } from './sharded-optimizer-part.ts';

export interface TensorFlowParts {
  /** Default: all trainable variables that there are when the state is made. */
  readonly variables?: readonly AnyVariable[] | undefined;
  /** Default: none, and its accumulators are not saved. */
  readonly optimizer?: tf.Optimizer | readonly tf.Optimizer[] | undefined;
  /** Default: none, and what lossy compressors have not sent yet of their gradients is not saved. */
  readonly tape?: DistributedGradientTape | readonly DistributedGradientTape[] | undefined;
  /**
   * For optimizers with shardOptimizerState: after how many commits each rank sends its shard to another one. Going back after
   * the loss of a rank undoes what was done since. Default: often enough that it costs a hundredth of the time, at most 100.
   */
  readonly mirrorEvery?: number | undefined;
}

/**
 * A state of variables and optimizers of TensorFlow.js, and of fields as ObjectState has them. Keep variables that exist only on some ranks out
 * of it.
 */
export type TensorFlowState<F extends object = object> = State & Omit<F, keyof TensorFlowParts>;
export const TensorFlowState: new <F extends object>(content: TensorFlowParts & F) => TensorFlowState<F> =
  class TensorFlowState extends State {
    readonly #parts: readonly StatePart[];

    constructor(content: TensorFlowParts) {
      super();
      const what = 'TensorFlowState';
      checkNames(content, Object.keys(Object(content)), what);
      const { variables, optimizer, tape, mirrorEvery, ...fields } = content;
      const list = variablesOf(variables, what);
      const optimizers = [optimizer ?? []].flat();
      this.#parts = [
        ...partsOfFields(this, fields, what),
        ...partsOfTraining(list, optimizers, { what, mirrorEvery }),
        ...tapesOf(tape, what).map((each) => new ResidualsPart(each, list)),
      ];
    }

    protected override parts(): readonly StatePart[] {
      return this.#parts;
    }
  } as unknown as new <F extends object>(
    content: TensorFlowParts & F,
  ) => TensorFlowState<F>;

/** The parts that keep variables and what optimizers know about them. `what`: the class, for errors. */
export function partsOfTraining(
  variables: readonly tf.Variable[],
  optimizers: readonly tf.Optimizer[],
  { what, mirrorEvery }: { readonly what: string; readonly mirrorEvery: number | undefined },
): StatePart[] {
  checkMirrorEvery(mirrorEvery, what);
  for (const optimizer of optimizers) checkOptimizer(optimizer, what);
  const localVariables = () =>
    new Set(optimizers.flatMap((optimizer) => [...(stepperOf(optimizer)?.localVariables() ?? [])]));
  return [
    new ReferencePart({ variables, localVariables }),
    ...optimizers.map((optimizer) => {
      const shards = stepperOf(optimizer)?.shards;
      if (shards === undefined) return new OptimizerPart(optimizer, variables);
      shards.checkElastic(what);
      return new ShardedOptimizerPart(optimizer, variables, shards, mirrorEvery);
    }),
  ];
}

function variablesOf(given: readonly AnyVariable[] | undefined, what: string): tf.Variable[] {
  if (given === undefined) return trainableVariables();
  if (!Array.isArray(given)) throw invalid(what, `variables is a list of variables, not ${describe(given)}`);
  return (given as readonly AnyVariable[]).map((variable) => variableOf(variable, what));
}

function tapesOf(given: TensorFlowParts['tape'], what: string): DistributedGradientTape[] {
  return [given ?? []].flat().map((tape) => {
    if (tape instanceof DistributedGradientTape) return tape;
    throw invalid(what, `tape is a DistributedGradientTape or a list of them, not ${describe(tape)}`);
  });
}
