// The classes of callbacks as users see them: each can be called without `new`. If the class itself is in the list for fit(), instead
// of an instance, TensorFlow.js finds no hooks and leaves it out without a word; here it finds an error.

import { invalid } from '../../../operations/check-options.ts';
import { type CallableClass, callable } from '../../tensorflow/callable-class.ts';
import { hooks } from './list.ts';

const readByFit: readonly (string | symbol)[] = [...hooks, 'setParams', 'setModel'];

// biome-ignore lint/suspicious/noExplicitAny: what TypeScript itself asks of constructors in mixins
export function callbackClass<C extends new (...args: any[]) => object>(Class: C): CallableClass<C> {
  return new Proxy(callable(Class), {
    get(target, key, receiver) {
      if (!readByFit.includes(key)) return Reflect.get(target, key, receiver);
      const { name } = Class;
      throw invalid(
        'fit()',
        `callbacks has the class ${name}; give an instance, new hvd.callbacks.${name}(…)`,
      );
    },
  });
}
