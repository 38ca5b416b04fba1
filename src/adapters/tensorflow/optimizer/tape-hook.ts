// Reports each variable's gradient as soon as it is ready, during backpropagation. TensorFlow.js has no such event, so we hook
// into the tape, the list of operations that tf.variableGrads() walks backwards after the loss function has returned. It is an
// internal of tfjs-core (declared, not documented). If it looks different from what we expect, listenToTape() returns false,
// and gradients are reduced after backpropagation.

import * as tf from '@tensorflow/tfjs';

/** What of a tape's node is used here. */
interface TapeNode {
  readonly inputs: Readonly<Record<string, tf.Tensor>>;
  readonly outputs: readonly tf.Tensor[];
  gradient?: (dys: tf.Tensor[]) => Record<string, () => tf.Tensor>;
}

export type GradientListener = (variable: tf.Variable, gradient: tf.Tensor) => void;

/**
 * To be called at the end of the loss function, under its tape. `onGradient` is then called with each variable's gradient
 * once it is final; not for variables that are used several times, whose gradient is a sum that the tape makes later.
 */
export function listenToTape(
  loss: tf.Tensor,
  variables: readonly tf.Variable[],
  onGradient: GradientListener,
): boolean {
  const tape = activeTape();
  if (tape === undefined) return false;
  const variableById = new Map(variables.map((variable) => [variable.id, variable]));
  const onPath = nodesBetween(tape, variableById, loss);
  const uses = new Map<number, number>();
  for (const node of onPath) {
    for (const { id } of Object.values(node.inputs)) {
      if (variableById.has(id)) uses.set(id, (uses.get(id) ?? 0) + 1);
    }
  }
  for (const node of onPath) {
    const names = Object.entries(node.inputs)
      .filter(([, { id }]) => uses.get(id) === 1)
      .map(([name]) => name);
    if (names.length > 0) listenToNode(node, names, variableById, onGradient);
  }
  return true;
}

function listenToNode(
  node: TapeNode,
  names: readonly string[],
  variableById: ReadonlyMap<number, tf.Variable>,
  onGradient: GradientListener,
): void {
  const { gradient } = node;
  if (gradient === undefined) return;
  node.gradient = (dys) => {
    const thunks = gradient(dys);
    const heard = { ...thunks };
    for (const name of names) {
      const thunk = thunks[name];
      const variable = variableById.get(node.inputs[name]?.id as number);
      if (thunk === undefined || variable === undefined) continue;
      heard[name] = () => {
        const dx = thunk();
        onGradient(variable, dx);
        return dx;
      };
    }
    return heard;
  };
}

/** The nodes that depend on a variable and that the loss depends on. */
function nodesBetween(
  tape: readonly TapeNode[],
  variableById: ReadonlyMap<number, tf.Variable>,
  loss: tf.Tensor,
): TapeNode[] {
  const fromVariables = new Set(variableById.keys());
  const dependent = new Set<TapeNode>();
  for (const node of tape) {
    if (!Object.values(node.inputs).some(({ id }) => fromVariables.has(id))) continue;
    dependent.add(node);
    for (const { id } of node.outputs) fromVariables.add(id);
  }
  const toLoss = new Set([loss.id]);
  const found: TapeNode[] = [];
  for (let i = tape.length - 1; i >= 0; i--) {
    const node = tape[i] as TapeNode;
    if (!node.outputs.some(({ id }) => toLoss.has(id))) continue;
    for (const { id } of Object.values(node.inputs)) toLoss.add(id);
    if (dependent.has(node)) found.push(node);
  }
  return found;
}

function activeTape(): readonly TapeNode[] | undefined {
  const { state } = tf.engine() as unknown as { state?: { activeTape?: unknown } };
  const tape = state?.activeTape;
  if (!Array.isArray(tape)) return undefined;
  const isKnown = (node: Partial<TapeNode> | undefined) =>
    typeof node?.inputs === 'object' && Array.isArray(node.outputs);
  return tape.every(isKnown) ? (tape as TapeNode[]) : undefined;
}
