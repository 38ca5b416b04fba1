// Allgather and broadcast of the portable transport on one host. A small input travels in its member's post: one step.
// Larger ones go through the slots, one step per slot. Price per member for inputs of S bytes: allgather writes S bytes and
// reads (N-1)·S; in a broadcast the root writes S bytes and each of the others reads S.

import { HorovodError } from '../../../errors.ts';
import type { AllgatherOperation, BroadcastOperation } from '../../transport.ts';
import { type Collective, type Exchange, othersOf, type Posts, runSteps } from './exchange.ts';

export function allgather(exchange: Exchange, operation: AllgatherOperation): Collective {
  const { input } = operation;
  return {
    ...carried(input, exchange.eagerBytes),
    *run() {
      const byteCounts = byteCountsOf(exchange);
      const starts = startsOf(byteCounts);
      const output = allocate(byteCounts, 'allgather');
      output.set(input, starts[exchange.index]);
      yield* gather(exchange, input, (member) => ({
        target: output,
        start: starts[member] as number,
        bytes: byteCounts[member] as number,
      }));
      operation.output = output;
      operation.byteCounts = byteCounts;
    },
  };
}

export function broadcast(exchange: Exchange, operation: BroadcastOperation): Collective {
  const { root, input, output } = operation;
  const isRoot = exchange.index === root;
  return {
    ...carried(isRoot ? input : input.subarray(0, 0), exchange.eagerBytes),
    *run() {
      if (isRoot && input !== output) output.set(input);
      const bytes = exchange.totalBytes(root);
      yield* gather(exchange, input, (member) => ({
        target: output,
        start: 0,
        bytes: member === root ? bytes : 0,
      }));
    },
  };
}

/** Copies every other member's bytes to their place; small ones from the posts, the others through the slots. */
function* gather(
  exchange: Exchange,
  input: Uint8Array,
  placeOf: (member: number) => { target: Uint8Array; start: number; bytes: number },
) {
  const { kernels, index, slotBytes } = exchange;
  const others = othersOf(exchange);
  for (const member of others) {
    const bytes = exchange.payloadBytes(member);
    if (bytes === 0) continue;
    const { target, start } = placeOf(member);
    const area = exchange.payload(member);
    target.set(kernels.staging.subarray(area, area + bytes), start);
  }
  const viaSlots = Array.from({ length: exchange.size }, (_, member) =>
    exchange.payloadBytes(member) > 0 ? 0 : placeOf(member).bytes,
  );
  const bytesOf = (step: number, member: number) =>
    Math.min(slotBytes, Math.max(0, (viaSlots[member] as number) - step * slotBytes));
  yield* runSteps(
    exchange,
    Math.ceil(Math.max(...viaSlots) / slotBytes),
    (step) => {
      const bytes = bytesOf(step, index);
      if (bytes > 0) exchange.put(step, 0, input, step * slotBytes, bytes);
    },
    (step) => {
      for (const member of others) {
        const bytes = bytesOf(step, member);
        if (bytes === 0) continue;
        const { target, start } = placeOf(member);
        exchange.get(member, step, 0, target, start + step * slotBytes, bytes);
      }
    },
  );
}

/** The post of a member that contributes `input`. */
export function carried(input: Uint8Array, limit: number): Omit<Collective, 'run'> {
  return {
    totalBytes: input.length,
    payloadBytes: input.length <= limit ? input.length : 0,
    writePayload: (staging, area) => staging.set(input, area),
  };
}

export function byteCountsOf(posts: Posts): number[] {
  return Array.from({ length: posts.size }, (_, member) => posts.totalBytes(member));
}

/** Where each piece begins if they lie one after another. */
export function startsOf(sizes: readonly number[]): number[] {
  let end = 0;
  return sizes.map((bytes) => {
    end += bytes;
    return end - bytes;
  });
}

/** Memory for a result that consists of pieces of these sizes. */
export function allocate(sizes: readonly number[], kind: string): Uint8Array {
  const bytes = sizes.reduce((sum, each) => sum + each, 0);
  try {
    return new Uint8Array(bytes);
  } catch (cause) {
    throw new HorovodError(
      'ERR_HVD_OUT_OF_MEMORY',
      `the result of this ${kind} has ${bytes} bytes, and there is not enough memory for it`,
      { cause },
    );
  }
}
