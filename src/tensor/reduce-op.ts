// Reduction operators: their names and codes (Horovod's enum; shared with the native addon).

export type ReduceOpName = 'Average' | 'Sum' | 'Adasum' | 'Min' | 'Max' | 'Product';

/** How the values of several ranks are combined. Compare by identity: `op === Sum`. */
export interface ReduceOp {
  readonly name: ReduceOpName;
  readonly code: number;
}

const make = (name: ReduceOpName, code: number): ReduceOp => Object.freeze({ name, code });

export const Average: ReduceOp = make('Average', 0);
export const Sum: ReduceOp = make('Sum', 1);
export const Adasum: ReduceOp = make('Adasum', 2);
export const Min: ReduceOp = make('Min', 3);
export const Max: ReduceOp = make('Max', 4);
export const Product: ReduceOp = make('Product', 5);
