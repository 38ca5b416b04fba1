// Variables of TensorFlow.js as the divergence guard sees them.

import * as tf from '@tensorflow/tfjs';
import { wait } from '../../both-forms.ts';
import type { GuardedWeights } from '../../divergence/divergence-guard.ts';
import { summarize } from '../../divergence/report.ts';
import { broadcastsOf } from '../broadcast-notes.ts';
import { readTensor, readTensorLater } from '../tensor-access.ts';

export const howToBroadcast =
  'give fit() a BroadcastGlobalVariablesCallback(0), or write `await hvd.broadcastVariables(model, 0)` before the first step';

export function guardedVariables(variables: readonly tf.Variable[]): GuardedWeights {
  return {
    get names() {
      return variables.map(({ name }) => name);
    },
    backend: tf.getBackend(),
    broadcasts: broadcastsOf(variables),
    *summarize(maxWords) {
      // A model that was disposed has nothing to compare.
      if (variables.some(({ isDisposed }) => isDisposed)) return [];
      return yield* wait(
        () => variables.map((variable) => summarize(readTensor(variable), maxWords)),
        async () => {
          const summaries = [];
          for (const variable of variables)
            summaries.push(summarize(await readTensorLater(variable), maxWords));
          return summaries;
        },
      );
    },
  };
}
