// Names of reductions of gradients, for compressors that keep something from step to step: they must know which gradients
// come again. Optimizers and valueAndGrad()s are numbered by their first use in a process set, which is the same on all ranks.

import type { HorovodContext } from '../../context/context.ts';
import { defaultContext } from '../../context/default/default-context.ts';
import type { ProcessSet } from '../../operations/process-set.ts';
import { compressorOf } from '../../tensor/compression/compression.ts';
import { isReducing } from '../../tensor/compression/compressor.ts';

const counts = new WeakMap<HorovodContext, Map<number, number>>();
const names = new WeakMap<object, { readonly context: HorovodContext; readonly name: string }>();

/** `owner` is one object for each optimizer. Undefined: needs no name, and is matched by the order of calls. */
export function gradientName(
  owner: object,
  options: { readonly compression?: unknown; readonly processSet?: ProcessSet | undefined },
): string | undefined {
  if (!isReducing(compressorOf(options.compression, 'gradients'))) return undefined;
  const context = defaultContext();
  const known = names.get(owner);
  if (known?.context === context) return known.name;
  const id = options.processSet?.id ?? 0;
  const numbers = counts.get(context) ?? new Map<number, number>();
  const number = (numbers.get(id) ?? 0) + 1;
  counts.set(context, numbers.set(id, number));
  const name = `jax.gradients.${number}`;
  names.set(owner, { context, name });
  return name;
}
