// Reduces lists of gradients over the ranks, again and again. For each list of variables there is a route (route.ts), on which
// the ranks agree at its first use; each backpropagation is a pass (backward-pass.ts).

import type * as tf from '@tensorflow/tfjs';
import { groupedAllreduce } from '../../../operations/collectives.ts';
import type { TypedArray } from '../../../tensor/dtype.ts';
import type { BothForms } from '../../both-forms.ts';
import { currentContext, groupSize } from '../../context.ts';
import { digestOfText } from '../../divergence/digest.ts';
import { DivergenceGuard } from '../../divergence/divergence-guard.ts';
import { ReducerName } from '../../reducer-name.ts';
import { checkNotBroadcasting } from '../broadcast-notes.ts';
import { makeTensor, readTensorLater } from '../tensor-access.ts';
import { describeVariable } from '../variable-lists.ts';
import { BackwardPass } from './backward-pass.ts';
import { ErrorFeedback } from './error-feedback.ts';
import { agreeOnGradients, anyRank, type Mode } from './gradient-agreement.ts';
import type { Gradients } from './gradients.ts';
import { guardedVariables, howToBroadcast } from './guarded-variables.ts';
import { trainableVariables } from './local-variables.ts';
import type { GradientRules } from './options.ts';
import { Route } from './route.ts';

/** An optimizer may be used with several lists of variables in turn. */
const maxRoutes = 8;

export class GradientReducer {
  readonly rules: GradientRules;
  readonly errorFeedback: ErrorFeedback;
  readonly guard: DivergenceGuard;
  readonly #mayOverlap: boolean;
  readonly #routes = new Map<string, Route>();
  readonly #name: ReducerName;

  constructor(rules: GradientRules, mayOverlap: boolean) {
    this.rules = rules;
    this.#name = new ReducerName('DistributedOptimizer', rules);
    this.errorFeedback = new ErrorFeedback(rules);
    const { what, processSet } = rules;
    this.guard = new DivergenceGuard({ what, processSet, howToBroadcast });
    this.#mayOverlap = mayOverlap;
  }

  /** How many ranks reduce together; 1 if there is nobody to reduce with. */
  groupSize(): number {
    return groupSize(this.rules);
  }

  begin(variables: readonly tf.Variable[]): BackwardPass {
    checkNotBroadcasting(variables, this.rules.what);
    return new BackwardPass({
      variables,
      route: this.#routes.get(signatureOf(variables)),
      mayOverlap: this.#mayOverlap,
      findRoute: (gradients, heard, modes) => this.#routeFor(variables, gradients, heard, modes),
    });
  }

  /** The promise form, for backends that cannot be read synchronously. The gradients stay the caller's. */
  async reduceLater(variables: readonly tf.Variable[], gradients: Gradients): Promise<Gradients> {
    checkNotBroadcasting(variables, this.rules.what);
    const route = this.#routeFor(variables, gradients, [], ['staged']);
    // The next call may come before this one has ended. Take the name before the first await: how long reading takes
    // differs between ranks.
    const name = route.nextCall();
    const places = [...route.places].sort((a, b) => a - b);
    const list = places.map((place) => variables[place] as tf.Variable);
    const inputs: TypedArray[] = [];
    for (const place of places) {
      const gradient = gradients[place];
      const size = (variables[place] as tf.Variable).size;
      inputs.push(
        gradient === undefined ? new Float32Array(size) : (await readTensorLater(gradient)).slice(),
      );
    }
    const options = { ...route.options(name, list), inPlace: true };
    await groupedAllreduce(route.context, this.errorFeedback.operands(inputs, list), options);
    const result: (tf.Tensor | undefined)[] = variables.map(() => undefined);
    places.forEach((place, i) => {
      result[place] = makeTensor(inputs[i] as TypedArray, (list[i] as tf.Variable).shape, 'float32');
    });
    return result;
  }

  /** Compares the weights of the ranks now and then; `reduced` tells which of them all ranks train. In every step. */
  check(variables: readonly tf.Variable[], reduced: Gradients): BothForms<void> {
    return this.guard.step(this.#name.in(currentContext()), () =>
      guardedVariables(variables.filter((_, place) => reduced[place] !== undefined)),
    );
  }

  release(): void {
    for (const route of this.#routes.values()) route.release();
    this.#routes.clear();
  }

  /** The route of these variables. Collective if there is none yet, or it lacks one that has a gradient now. */
  #routeFor(
    variables: readonly tf.Variable[],
    gradients: Gradients,
    heard: readonly number[],
    modes: readonly Mode[],
  ): Route {
    const context = currentContext();
    const { what, processSet } = this.rules;
    const signature = signatureOf(variables);
    const known = this.#routes.get(signature);
    const present = variables.map((_, place) => place).filter((place) => gradients[place] !== undefined);
    if (known?.isCurrent(context)) {
      const lacks = !present.every((place) => known.places.has(place));
      const question = { name: `${known.name}.more`, processSet };
      if (!known.mayGrow || !anyRank(context, lacks, question)) return known;
      // Other ranks may have heard less, and have started fewer buckets: start all, so that all end.
      if (known.mode !== 'direct') for (const _ of known.waiting()) known.startNext();
      known.discardStarted();
    }
    known?.release();
    this.#forgetOldRoutes();
    this.errorFeedback.forgetDisposed();
    const name = this.#name.next(context);
    const proposal = {
      variables: variables.map(describeVariable),
      allNames: this.rules.name === undefined ? digestOfNames() : undefined,
      present,
      finished: heard,
      modes,
    };
    const agreement = agreeOnGradients(context, proposal, { what, name: `${name}.plan`, processSet });
    const { rules, errorFeedback } = this;
    const route = new Route({ context, rules, errorFeedback, name, variables, agreement });
    this.#routes.set(signature, route);
    return route;
  }

  /** A program that makes new variables again and again would keep buffers for all of them. */
  #forgetOldRoutes(): void {
    for (const [signature, route] of this.#routes) {
      if (this.#routes.size < maxRoutes) return;
      route.release();
      this.#routes.delete(signature);
    }
  }
}

function digestOfNames(): number {
  const names = trainableVariables().map(({ name }) => name);
  return digestOfText(names.sort().join('\n'));
}

function signatureOf(variables: readonly tf.Variable[]): string {
  return variables.map(({ id }) => id).join();
}
