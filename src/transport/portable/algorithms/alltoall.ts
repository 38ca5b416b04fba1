// Alltoall of the portable transport. A small input travels whole in its member's post: one step, S·(N-1) bytes read.
// A larger one goes directly to its destinations: through slots inside the host, one slice for each destination at a time,
// and over connections to other hosts. Each member sends and receives S·(N-1)/N bytes.

import type { AlltoallOperation } from '../../transport.ts';
import { type Collective, type Exchange, type Posts, runSteps, type Steps } from './exchange.ts';
import { allocate, startsOf } from './gather.ts';

/** The members of this host: how they exchange bytes, and their indices in the group, by place. */
interface Host {
  readonly local: Exchange;
  readonly members: readonly number[];
}

/** A piece of the input for each member, and a place in the output for the piece from each member. */
export interface Parcels {
  pieceFor(member: number): Uint8Array;
  placeFor(member: number): Uint8Array;
  /** Whether a member's input came with its post. */
  isInPost(member: number): boolean;
}

/** For a group on one host. */
export function alltoallInside(exchange: Exchange, operation: AlltoallOperation): Collective {
  const members = Array.from({ length: exchange.size }, (_, member) => member);
  return alltoall(exchange, operation, { local: exchange, members });
}

/** `across` moves the pieces of members on other hosts. */
export function alltoall(
  posts: Posts,
  operation: AlltoallOperation,
  { local, members: localMembers }: Host,
  across?: (parcels: Parcels) => Steps,
): Collective {
  const { input, sendBytes } = operation;
  const { kernels, index, size } = posts;
  const members = Array.from({ length: size }, (_, member) => member);
  const totalBytes = sendBytes.reduce((sum, bytes) => sum + bytes, 0);
  const sendStarts = startsOf(sendBytes);
  return {
    totalBytes,
    sendBytes,
    payloadBytes: totalBytes <= posts.eagerBytes ? totalBytes : 0,
    writePayload: (staging, area) => staging.set(input.subarray(0, totalBytes), area),
    *run() {
      const receivedBytes = members.map((member) => posts.sendBytes(member, index));
      const starts = startsOf(receivedBytes);
      const output = allocate(receivedBytes, 'alltoall');
      const partOf = (array: Uint8Array, start = 0, bytes = 0) => array.subarray(start, start + bytes);
      const pieceFor = (to: number) => partOf(input, sendStarts[to], sendBytes[to]);
      const placeFor = (from: number) => partOf(output, starts[from], receivedBytes[from]);
      const isInPost = (from: number) => posts.payloadBytes(from) > 0;
      placeFor(index).set(pieceFor(index));
      for (const member of members) {
        if (member === index || !isInPost(member) || receivedBytes[member] === 0) continue;
        // Our piece follows those for the members before us.
        const before = members.slice(0, index).reduce((sum, to) => sum + posts.sendBytes(member, to), 0);
        placeFor(member).set(partOf(kernels.staging, posts.payload(member) + before, receivedBytes[member]));
      }
      if (across !== undefined) yield* across({ pieceFor, placeFor, isInPost });

      const slice = Math.floor(local.slotBytes / local.size / 64) * 64;
      const viaSlots = (from: number, to: number) =>
        from === to || isInPost(from) ? 0 : posts.sendBytes(from, to);
      const bytesOf = (step: number, from: number, to: number) =>
        Math.min(slice, Math.max(0, viaSlots(from, to) - step * slice));
      const longest = Math.max(
        ...localMembers.map((from) => Math.max(...localMembers.map((to) => viaSlots(from, to)))),
      );
      if (local.size > 1) {
        yield* runSteps(
          local,
          Math.ceil(longest / slice),
          (step) => {
            for (const [place, to] of localMembers.entries()) {
              const bytes = bytesOf(step, index, to);
              const from = (sendStarts[to] as number) + step * slice;
              if (bytes > 0) local.put(step, place * slice, input, from, bytes);
            }
          },
          (step) => {
            for (const [place, from] of localMembers.entries()) {
              const bytes = bytesOf(step, from, index);
              const to = (starts[from] as number) + step * slice;
              if (bytes > 0) local.get(place, step, local.index * slice, output, to, bytes);
            }
          },
        );
      }
      operation.output = output;
      operation.receivedBytes = receivedBytes;
    },
  };
}
