// Allgather and broadcast across hosts. A small input travels in its member's post: one step. Larger ones:
//   allgather   Each member sends its bytes to its partner on every other host, and partners pass them on inside their host
//               through slots. Every byte enters a host once: a member with S bytes sends S·(H-1) to other hosts.
//   broadcast   One member per host forms a chain, which passes the bytes on chunk by chunk; then through slots inside
//               each host. H-1 steps for the first chunk; each link of the chain sends S bytes.

import { ByteList } from '../../../../tensor/byte-list.ts';
import type { TravelList } from '../../../../tensor/wire-list.ts';
import type { AllgatherOperation, BroadcastOperation } from '../../../transport.ts';
import { type Collective, runSteps, type Steps } from '../exchange.ts';
import { allocate, byteCountsOf, carried, startsOf } from '../gather.ts';
import { type ClusterExchange, settle, type Ticket } from './cluster-exchange.ts';
import { wardsOnOwnHost } from './seats.ts';

/** A range of bytes of a result. */
export interface Range {
  readonly start: number;
  readonly bytes: number;
}

const broadcastChunkBytes = 256 * 1024;

export function allgather(exchange: ClusterExchange, operation: AllgatherOperation): Collective {
  const { input } = operation;
  const { seats, index } = exchange;
  return {
    ...carried(input, exchange.eagerBytes),
    *run() {
      const byteCounts = byteCountsOf(exchange);
      const starts = startsOf(byteCounts);
      const output = allocate(byteCounts, 'allgather');
      output.set(input, starts[index]);
      for (const [member, start] of starts.entries()) takePayload(exchange, member, output, start);
      const rangeOf = (member: number): Range => ({
        start: starts[member] as number,
        bytes: exchange.payloadBytes(member) > 0 ? 0 : (byteCounts[member] as number),
      });
      const targets = exchange.gathersByHost ? seats.partners : seats.remote;
      const sources = exchange.gathersByHost ? seats.wards.slice(1) : seats.remote;
      const tickets: Ticket[] = [];
      for (const member of sources) {
        const { start, bytes } = rangeOf(member);
        if (bytes > 0) tickets.push(exchange.receive(member, output.subarray(start, start + bytes)));
      }
      if (rangeOf(index).bytes > 0) for (const member of targets) tickets.push(exchange.send(member, input));
      yield* settle(exchange, tickets);
      const holdings = (member: number) =>
        exchange.gathersByHost ? wardsOnOwnHost(seats, member) : [member];
      yield* gatherInside(exchange, new ByteList([output]), (member) => holdings(member).map(rangeOf));
      operation.output = output;
      operation.byteCounts = byteCounts;
    },
  };
}

export function broadcast(exchange: ClusterExchange, operation: BroadcastOperation): Collective {
  const { root, input, output } = operation;
  const { seats, index } = exchange;
  const isRoot = index === root;
  return {
    ...carried(isRoot ? input : input.subarray(0, 0), exchange.eagerBytes),
    *run() {
      if (isRoot && input !== output) output.set(input);
      takePayload(exchange, root, output, 0);
      if (exchange.payloadBytes(root) > 0) return;
      const bytes = exchange.totalBytes(root);
      // One member of each host, the root's host first.
      const { hosts, hostOf, placeOf } = seats;
      const chain = hosts.map((_, i) => {
        const there = hosts[((hostOf[root] as number) + i) % hosts.length] as readonly number[];
        return there[(placeOf[root] as number) % there.length] as number;
      });
      const link = chain.indexOf(index);
      if (link >= 0) yield* passOn(exchange, output.subarray(0, bytes), chain[link - 1], chain[link + 1]);
      const whole = [{ start: 0, bytes }];
      yield* gatherInside(exchange, new ByteList([output]), (member) =>
        chain.includes(member) ? whole : [],
      );
    },
  };
}

/** Receives from the member before in the chain, if there is one, and sends to the next. */
function* passOn(
  exchange: ClusterExchange,
  data: Uint8Array,
  before: number | undefined,
  behind: number | undefined,
): Steps {
  const chunks: Uint8Array[] = [];
  for (let at = 0; at < data.length; at += broadcastChunkBytes) {
    chunks.push(data.subarray(at, at + broadcastChunkBytes));
  }
  const received = before === undefined ? [] : chunks.map((chunk) => exchange.receive(before, chunk));
  const sent: Ticket[] = [];
  for (const [i, chunk] of chunks.entries()) {
    if (before !== undefined) yield* settle(exchange, [received[i] as Ticket]);
    if (behind !== undefined) sent.push(exchange.send(behind, chunk));
  }
  yield* settle(exchange, sent);
}

/** Every member of this host gets what the others here hold: ranges of `results`, which has the same layout on all. */
export function* gatherInside(
  exchange: ClusterExchange,
  results: TravelList,
  holdingsOf: (member: number) => readonly Range[],
): Steps {
  const { local, seats, kernels } = exchange;
  if (local.size === 1) return;
  const { slotBytes, workArea } = local;
  const holdings = seats.local.map((member) => holdingsOf(member));
  const totals = holdings.map((ranges) => ranges.reduce((sum, { bytes }) => sum + bytes, 0));
  yield* runSteps(
    local,
    Math.ceil(Math.max(...totals) / slotBytes),
    (step) => {
      eachPiece(
        holdings[local.index] as readonly Range[],
        step * slotBytes,
        slotBytes,
        (start, bytes, at) => {
          const source = results.view(start, bytes);
          if (source !== undefined) local.put(step, at, source, 0, bytes);
          else {
            results.read(start, bytes, kernels.staging, workArea);
            local.put(step, at, kernels.staging, workArea, bytes);
          }
        },
      );
    },
    (step) => {
      for (const [place, ranges] of holdings.entries()) {
        if (place === local.index) continue;
        eachPiece(ranges, step * slotBytes, slotBytes, (start, bytes, at) => {
          const target = results.view(start, bytes);
          if (target !== undefined) local.get(place, step, at, target, 0, bytes);
          else {
            local.get(place, step, at, kernels.staging, workArea, bytes);
            results.write(start, bytes, kernels.staging, workArea);
          }
        });
      }
    },
  );
}

/** Visits the pieces of bytes [from, from + length) of the concatenated ranges; `at` is relative to `from`. */
function eachPiece(
  ranges: readonly Range[],
  from: number,
  length: number,
  visit: (start: number, bytes: number, at: number) => void,
): void {
  let before = 0;
  for (const { start, bytes } of ranges) {
    const first = Math.max(from, before);
    const end = Math.min(from + length, before + bytes);
    if (end > first) visit(start + first - before, end - first, first - from);
    before += bytes;
  }
}

function takePayload(exchange: ClusterExchange, member: number, target: Uint8Array, start: number): void {
  const bytes = exchange.payloadBytes(member);
  if (member === exchange.index || bytes === 0) return;
  const area = exchange.payload(member);
  target.set(exchange.kernels.staging.subarray(area, area + bytes), start);
}
