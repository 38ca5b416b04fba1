// One list of callbacks for fit(), out of subclasses of tf.Callback and plain objects ({ onEpochEnd() {} }).
// TensorFlow.js looks at the first one only: after a class, plain objects fail ("setParams is not a function");
// after a plain object, classes are taken apart and lose `this`.

import * as tf from '@tensorflow/tfjs';
import type { HorovodError } from '../../../errors.ts';
import { invalid } from '../../../operations/check-options.ts';
import { describe } from '../../../tensor/tensor.ts';

/** What fit() calls. */
export const hooks = [
  'onTrainBegin',
  'onTrainEnd',
  'onEpochBegin',
  'onEpochEnd',
  'onBatchBegin',
  'onBatchEnd',
  'onYield',
] as const;

/** An instance of tf.Callback, recognized by its methods: a second copy of TensorFlow.js has other classes. */
export interface CallbackInstance {
  setParams(params: never): void;
  setModel(model: never): void;
}

/** A callback as fit() takes it: an instance of a class, or an object with some of the hooks. */
export type AnyCallback = CallbackInstance | tf.CustomCallbackArgs;

/**
 * Makes a list that fit() understands; undefined, null and false are left out, so that
 * `rank() === 0 && new Something()` can stand in it. The order stays.
 */
export function list(
  callbacks: AnyCallback | readonly (AnyCallback | undefined | null | false)[],
): tf.Callback[] {
  const given = (Array.isArray(callbacks) ? callbacks : [callbacks]) as readonly unknown[];
  return given.filter((one) => one !== undefined && one !== null && one !== false).map(asCallback);
}

function asCallback(given: unknown): tf.Callback {
  if (typeof given === 'function') {
    throw unexpected(`a function (${given.name || 'anonymous'}): give an instance, not the class`);
  }
  if (typeof given !== 'object' || given === null) throw unexpected(describe(given));
  if ('setParams' in given && 'setModel' in given) return given as tf.Callback;
  const own = given as Record<string, unknown>;
  const bound = hooks
    .filter((hook) => own[hook] !== undefined)
    .map((hook) => {
      const method = own[hook];
      if (typeof method !== 'function') throw unexpected(`an object whose ${hook} is ${describe(method)}`);
      return [hook, method.bind(given)] as const;
    });
  if (bound.length === 0) throw unexpected(`an object with none of ${hooks.join(', ')}`);
  return new tf.CustomCallback(Object.fromEntries(bound)) as unknown as tf.Callback;
}

function unexpected(given: string): HorovodError {
  const expected = 'instances of tf.Callback and objects with hooks such as onEpochEnd';
  return invalid('callbacks.list()', `expected ${expected}, not ${given}`);
}
