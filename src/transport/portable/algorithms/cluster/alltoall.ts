// Alltoall across hosts: a small input travels whole in its member's post. A larger one goes piece by piece straight to
// its destinations: over connections to other hosts, through slots inside the host.

import type { AlltoallOperation } from '../../../transport.ts';
import { allocate } from '../gather.ts';
import { type Collective, runSteps } from '../exchange.ts';
import { startsOf } from '../reducescatter.ts';
import { type ClusterExchange, settle, type Ticket } from './cluster-exchange.ts';

export function alltoall(exchange: ClusterExchange, operation: AlltoallOperation): Collective {
  const { input, sendBytes } = operation;
  const { seats, kernels, index, size, local } = exchange;
  const members = Array.from({ length: size }, (_, member) => member);
  const totalBytes = sendBytes.reduce((sum, bytes) => sum + bytes, 0);
  const sendStarts = startsOf(sendBytes);
  const pieceFor = (to: number) => {
    const start = sendStarts[to] as number;
    return input.subarray(start, start + (sendBytes[to] as number));
  };
  return {
    totalBytes,
    sendBytes,
    payloadBytes: totalBytes <= exchange.eagerBytes ? totalBytes : 0,
    writePayload: (staging, area) => staging.set(input.subarray(0, totalBytes), area),
    *run() {
      const receivedBytes = members.map((member) => exchange.sendBytes(member, index));
      const starts = startsOf(receivedBytes);
      const output = allocate(
        receivedBytes.reduce((sum, bytes) => sum + bytes, 0),
        'alltoall',
      );
      const placeOf = (from: number) => {
        const start = starts[from] as number;
        return output.subarray(start, start + (receivedBytes[from] as number));
      };
      const isInPost = (from: number) => exchange.payloadBytes(from) > 0;
      placeOf(index).set(pieceFor(index));
      for (const member of members) {
        if (member === index || !isInPost(member) || receivedBytes[member] === 0) continue;
        // Before our piece lie those for the members before us.
        const before = members.slice(0, index).reduce((sum, to) => sum + exchange.sendBytes(member, to), 0);
        const from = exchange.payload(member) + before;
        placeOf(member).set(kernels.staging.subarray(from, from + (receivedBytes[member] as number)));
      }

      const tickets: Ticket[] = [];
      for (const member of seats.remote) {
        if (!isInPost(member)) tickets.push(exchange.receive(member, placeOf(member)));
        if (!isInPost(index)) tickets.push(exchange.send(member, pieceFor(member)));
      }
      yield* settle(exchange, tickets);

      if (local.size === 1) {
        operation.output = output;
        operation.receivedBytes = receivedBytes;
        return;
      }
      const slice = Math.floor(local.slotBytes / local.size / 64) * 64;
      const viaSlots = (from: number, to: number) =>
        from === to || isInPost(from) ? 0 : exchange.sendBytes(from, to);
      const bytesOf = (step: number, from: number, to: number) =>
        Math.min(slice, Math.max(0, viaSlots(from, to) - step * slice));
      const longest = Math.max(...seats.local.flatMap((from) => seats.local.map((to) => viaSlots(from, to))));
      yield* runSteps(
        local,
        Math.ceil(longest / slice),
        (step) => {
          for (const [place, to] of seats.local.entries()) {
            const bytes = bytesOf(step, index, to);
            const from = (sendStarts[to] as number) + step * slice;
            if (bytes > 0) local.put(step, place * slice, input, from, bytes);
          }
        },
        (step) => {
          for (const [place, from] of seats.local.entries()) {
            const bytes = bytesOf(step, from, index);
            const to = (starts[from] as number) + step * slice;
            if (bytes > 0) local.get(place, step, local.index * slice, output, to, bytes);
          }
        },
      );
      operation.output = output;
      operation.receivedBytes = receivedBytes;
    },
  };
}
