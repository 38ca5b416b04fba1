// The interface of optax's optimizers, and two small ones for the examples. An optimizer is a pair of pure functions over
// trees; both use up their arguments, as all functions of jax-js do, and both can be jitted.

import * as jax from '@jax-js/jax';

const { numpy: np, tree } = jax;

/** optax's gradient transformation: any object of this shape can be distributed. */
export interface GradientTransformation<Params = unknown, State = unknown> {
  /** The state before the first step. Uses up `params`. */
  init(params: Params): State;
  /** What to add to the parameters, and the next state. Uses up all three. */
  update(grads: Params, state: State, params?: Params): [updates: Params, state: State];
}

type Arrays = jax.JsTree<jax.Array>;

export interface SgdOptions {
  readonly momentum?: number;
}

/** Stochastic gradient descent: without momentum its state is empty. */
export function sgd<Params>(
  learningRate: number,
  options: SgdOptions = {},
): GradientTransformation<Params, jax.JsTree<jax.Array>> {
  const { momentum = 0 } = options;
  return {
    init: (params) => (momentum === 0 ? disposed(params, []) : zerosLike(params)),
    update(grads, state, params) {
      tree.dispose(params as Arrays);
      if (momentum === 0) return [scaled(grads, -learningRate), state];
      const velocity = combined((v, g) => v.mul(momentum).add(g), state, grads);
      return [scaled(tree.ref(velocity) as Params, -learningRate), velocity as Arrays];
    },
  };
}

export interface AdamOptions {
  readonly beta1?: number;
  readonly beta2?: number;
  readonly epsilon?: number;
}

/** A type, not an interface, so that jit() takes it for a tree. */
export type AdamState = {
  /** Scalars: what beta1 and beta2 have decayed to. */
  decay1: jax.Array;
  decay2: jax.Array;
  mean: jax.JsTree<jax.Array>;
  square: jax.JsTree<jax.Array>;
};

/** Adam (Kingma and Ba, 2015), with bias correction. */
export function adam<Params>(
  learningRate: number,
  options: AdamOptions = {},
): GradientTransformation<Params, AdamState> {
  const { beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8 } = options;
  return {
    init: (params) => ({
      decay1: np.ones([]),
      decay2: np.ones([]),
      mean: zerosLike(tree.ref(params as Arrays)),
      square: zerosLike(params),
    }),
    update(grads, state, params) {
      tree.dispose(params as Arrays);
      const decay1 = state.decay1.mul(beta1);
      const decay2 = state.decay2.mul(beta2);
      const mean = combined(
        (m, g) => m.mul(beta1).add(g.mul(1 - beta1)),
        state.mean,
        tree.ref(grads as Arrays),
      );
      const square = combined((s, g) => s.mul(beta2).add(np.square(g).mul(1 - beta2)), state.square, grads);
      const correction1 = np.subtract(1, decay1.ref);
      const correction2 = np.subtract(1, decay2.ref);
      const step = (m: jax.Array, s: jax.Array) =>
        m
          .div(correction1.ref)
          .mul(-learningRate)
          .div(np.sqrt(s.div(correction2.ref)).add(epsilon));
      const updates = combined(step, tree.ref(mean), tree.ref(square));
      correction1.dispose();
      correction2.dispose();
      return [updates as Params, { decay1, decay2, mean, square }];
    },
  };
}

/** The parameters after a step. Uses up both. */
export function applyUpdates<Params>(params: Params, updates: Params): Params {
  return combined((p, u) => p.add(u), params, updates) as Params;
}

export function zerosLike(params: unknown): jax.JsTree<jax.Array> {
  return tree.map((leaf: jax.Array) => {
    const { shape, dtype } = leaf;
    leaf.dispose();
    return np.zeros(shape, { dtype });
  }, params as Arrays);
}

/** `combine(a, b)` of the leaves at the same place; both trees are used up. */
export function combined(
  combine: (a: jax.Array, b: jax.Array) => jax.Array,
  a: unknown,
  b: unknown,
): jax.JsTree<jax.Array> {
  return tree.map(combine, a as Arrays, b as Arrays) as Arrays;
}

/** Uses up the tree. */
export function scaled<Params>(params: Params, factor: number): Params {
  if (factor === 1) return params;
  return tree.map((leaf: jax.Array) => leaf.mul(factor), params as Arrays) as Params;
}

function disposed<T>(params: unknown, value: T): T {
  tree.dispose(params as Arrays);
  return value;
}
