// Alltoall of the portable transport: a small input travels whole in its member's post; a larger one goes through the
// slots, a slice for each destination at a time. S·(N-1)/N bytes written and as many read per member.

import type { AlltoallOperation } from '../../transport.ts';
import { allocate } from './gather.ts';
import { type Collective, type Exchange, othersOf, runSteps } from './exchange.ts';
import { startsOf } from './reducescatter.ts';

export function alltoall(exchange: Exchange, operation: AlltoallOperation): Collective {
  const { input, sendBytes } = operation;
  const { kernels, index, size } = exchange;
  const members = Array.from({ length: size }, (_, member) => member);
  const totalBytes = sendBytes.reduce((sum, bytes) => sum + bytes, 0);
  const sendStarts = startsOf(sendBytes);
  return {
    totalBytes,
    sendBytes,
    payloadBytes: totalBytes <= exchange.eagerBytes ? totalBytes : 0,
    writePayload: (staging, area) => staging.set(input.subarray(0, totalBytes), area),
    *run() {
      const others = othersOf(exchange);
      const receivedBytes = members.map((member) => exchange.sendBytes(member, index));
      const starts = startsOf(receivedBytes);
      const output = allocate(
        receivedBytes.reduce((sum, bytes) => sum + bytes, 0),
        'alltoall',
      );
      const ownStart = sendStarts[index] as number;
      output.set(input.subarray(ownStart, ownStart + (sendBytes[index] as number)), starts[index]);
      for (const member of others) {
        if (exchange.payloadBytes(member) === 0 || receivedBytes[member] === 0) continue;
        // Before our piece lie those for the members before us.
        const before = members.slice(0, index).reduce((sum, to) => sum + exchange.sendBytes(member, to), 0);
        const from = exchange.payload(member) + before;
        const piece = kernels.staging.subarray(from, from + (receivedBytes[member] as number));
        output.set(piece, starts[member]);
      }

      const slice = Math.floor(exchange.slotBytes / size / 64) * 64;
      const viaSlots = (from: number, to: number) =>
        from === to || exchange.payloadBytes(from) > 0 ? 0 : exchange.sendBytes(from, to);
      const bytesOf = (step: number, from: number, to: number) =>
        Math.min(slice, Math.max(0, viaSlots(from, to) - step * slice));
      const longest = Math.max(
        ...members.map((from) => Math.max(...members.map((to) => viaSlots(from, to)))),
      );
      yield* runSteps(
        exchange,
        Math.ceil(longest / slice),
        (step) => {
          for (const to of others) {
            const bytes = bytesOf(step, index, to);
            const from = (sendStarts[to] as number) + step * slice;
            if (bytes > 0) exchange.put(step, to * slice, input, from, bytes);
          }
        },
        (step) => {
          for (const from of others) {
            const bytes = bytesOf(step, from, index);
            const to = (starts[from] as number) + step * slice;
            if (bytes > 0) exchange.get(from, step, index * slice, output, to, bytes);
          }
        },
      );
      operation.output = output;
      operation.receivedBytes = receivedBytes;
    },
  };
}
