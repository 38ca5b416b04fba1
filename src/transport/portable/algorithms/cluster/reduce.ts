// Allreduce and reduce-scatter across hosts. Small ones travel in the posts, and every member reduces all in index order:
// one step, S·(N-1) bytes. Larger ones are cut into one share for each member (see seats.ts), and each stretch of the
// shares takes four steps:
//   1 inside the host   every member reduces the shares of its wards from the slots of its host
//   2 across            partial results go to the members whose shares they are, which combine those of all hosts
//   3 across            these members send the result to their partners                      (allreduce only)
//   4 inside the host   the partners pass it on to the others of their host                  (allreduce only)
// A host sends and receives 2·S·(H-1)/H bytes for an allreduce, half of that for a reduce-scatter; fewer is impossible.
// Values are combined in index order inside a host, then in order of hosts; with one member on each host these are the
// bits of reduceInto().

import { type DType, dtypes } from '../../../../tensor/dtype.ts';
import type { ReduceOp } from '../../../../tensor/reduce-op.ts';
import { type TravelList, travelList } from '../../../../tensor/wire-list.ts';
import { type AllreduceOperation, type ReducescatterOperation, wireDType } from '../../../transport.ts';
import { type Collective, checkEqualSizes, runSteps, type Steps } from '../exchange.ts';
import { startsOf } from '../gather.ts';
import { type ClusterExchange, runCrossSteps, type Ticket } from './cluster-exchange.ts';
import { gatherInside, type Range } from './gather.ts';
import { wardsOnOwnHost } from './seats.ts';

interface Reduction {
  readonly dtype: DType;
  readonly op: ReduceOp;
  readonly prescale: number;
  readonly postscale: number;
  readonly input: TravelList;
  /** The share of each member. */
  readonly shares: readonly Range[];
  /** Where this member's share goes; if shares are gathered, those of all members. */
  readonly output: TravelList;
  readonly isGathered: boolean;
}

/** How many bytes of a share are sent at once. */
const maxChunkBytes = 256 * 1024;
const minChunkBytes = 16 * 1024;

export function allreduce(exchange: ClusterExchange, operation: AllreduceOperation): Collective {
  const { wire, op, prescale, postscale } = operation;
  const dtype = wireDType(operation);
  const { size, kernels, crossArea } = exchange;
  const elementBytes = dtypes[dtype].bytes;
  const input = travelList(operation.inputs, wire, kernels);
  const output = travelList(operation.outputs, wire, kernels);
  const totalBytes = input.byteLength;
  const isSmall = totalBytes <= exchange.eagerBytes;
  return {
    totalBytes,
    payloadBytes: isSmall ? totalBytes : 0,
    writePayload: (_staging, area) => stage(exchange, { input, dtype, prescale }, 0, totalBytes, area),
    *run() {
      checkEqualSizes(exchange);
      if (isSmall) {
        const areas = Array.from({ length: size }, (_, member) => exchange.payload(member));
        kernels.reduce(crossArea, areas, totalBytes / elementBytes, dtype, op, postscale);
        output.write(0, totalBytes, kernels.staging, crossArea);
        return;
      }
      const share = Math.ceil(totalBytes / size / 64) * 64;
      const shares = Array.from({ length: size }, (_, member) => {
        const start = Math.min(member * share, totalBytes);
        return { start, bytes: Math.min(share, totalBytes - start) };
      });
      const reduction = { dtype, op, prescale, postscale, input, output, shares, isGathered: true };
      yield* reduceShares(exchange, reduction);
    },
  };
}

export function reducescatter(exchange: ClusterExchange, operation: ReducescatterOperation): Collective {
  const { wire, op, prescale, postscale, counts } = operation;
  const dtype = wireDType(operation);
  const { index, size, kernels, crossArea } = exchange;
  const elementBytes = dtypes[dtype].bytes;
  const input = travelList([operation.input], wire, kernels);
  const isSmall = input.byteLength <= exchange.eagerBytes;
  const bytes = counts.map((count) => count * elementBytes);
  const shares = startsOf(bytes).map((start, member) => ({ start, bytes: bytes[member] as number }));
  const own = shares[index] as Range;
  return {
    totalBytes: input.byteLength,
    payloadBytes: isSmall ? input.byteLength : 0,
    writePayload: (_staging, area) => stage(exchange, { input, dtype, prescale }, 0, input.byteLength, area),
    *run() {
      checkEqualSizes(exchange);
      // The output may be part of the input, of which every byte is needed until the end.
      const isApart = operation.output.buffer !== operation.input.buffer;
      const target = isApart ? operation.output : operation.output.slice();
      const output = travelList([target], wire, kernels);
      if (!isSmall) {
        const reduction = { dtype, op, prescale, postscale, input, output, shares, isGathered: false };
        yield* reduceShares(exchange, reduction);
      } else if (own.bytes > 0) {
        // A share may begin anywhere in a payload; kernels need it at the start of an area.
        const areas = Array.from({ length: size }, (_, member) => {
          const area = crossArea + (member + 1) * exchange.eagerBytes;
          const from = exchange.payload(member) + own.start;
          kernels.staging.copyWithin(area, from, from + own.bytes);
          return area;
        });
        kernels.reduce(crossArea, areas, own.bytes / elementBytes, dtype, op, postscale);
        output.write(0, own.bytes, kernels.staging, crossArea);
      }
      if (!isApart) (operation.output as Uint8Array).set(target as Uint8Array);
    },
  };
}

/** The staging memory that small operations need. */
export function smallBytes(members: number, eagerBytes: number): number {
  return (members + 1) * eagerBytes;
}

function* reduceShares(exchange: ClusterExchange, reduction: Reduction): Steps {
  const { seats, crossBytes } = exchange;
  const longest = Math.max(...reduction.shares.map(({ bytes }) => bytes));
  const isFlat = seats.hosts.every((members) => members.length === 1);
  // With one member on each host there are no partial results to keep, and one stretch is enough. All members get the same numbers.
  const stretch = isFlat ? longest : Math.min(longest, floor64(crossBytes / 2 / seats.maxWards));
  const partialBytes = isFlat ? 0 : Math.ceil(stretch / 64) * 64;
  const pieces = piecesOf(seats.maxWards, seats.hosts.length);
  const room = floor64((crossBytes - partialBytes * seats.maxWards) / pieces.count);
  const wished = Math.ceil(Math.min(maxChunkBytes, Math.max(minChunkBytes, stretch / 4)) / 64) * 64;
  const chunk = Math.min(wished, room);
  for (let from = 0; from < longest; from += stretch) {
    const part: Part = { from, stretch, partialBytes, chunk };
    if (exchange.local.size > 1) yield* reduceInside(exchange, reduction, part);
    yield* reduceAcross(exchange, reduction, part);
    if (!reduction.isGathered) continue;
    yield* gatherInside(exchange, reduction.output, (member) =>
      wardsOnOwnHost(seats, member).map((ward) => ({
        start: (reduction.shares[ward] as Range).start + from,
        bytes: bytesIn(reduction, part, ward),
      })),
    );
  }
}

/** A stretch of all shares. */
interface Part {
  readonly from: number;
  readonly stretch: number;
  /** Size of a ward's partial result in the staging memory. */
  readonly partialBytes: number;
  readonly chunk: number;
}

/** Bytes of the stretch that a member's share has, from `at` of it on. */
function bytesIn({ shares }: Reduction, { from, stretch }: Part, member: number, at = 0): number {
  return Math.max(0, Math.min((shares[member] as Range).bytes - from, stretch) - at);
}

function* reduceInside(exchange: ClusterExchange, reduction: Reduction, part: Part): Steps {
  const { local, seats, kernels, size, crossArea } = exchange;
  const { input, shares, dtype, op, prescale } = reduction;
  const elementBytes = dtypes[dtype].bytes;
  const slice = floor64(local.slotBytes / size);
  const bytesOf = (step: number, member: number) =>
    Math.min(slice, bytesIn(reduction, part, member, step * slice));
  const startOf = (step: number, member: number) =>
    (shares[member] as Range).start + part.from + step * slice;
  const strangers = shares.flatMap((_, member) => (seats.wards.includes(member) ? [] : [member]));
  const longest = Math.max(...shares.map((_, member) => bytesIn(reduction, part, member)));
  const areaOf = (place: number) => local.workArea + place * slice;
  yield* runSteps(
    local,
    Math.ceil(longest / slice),
    (step) => {
      for (const member of strangers) {
        const bytes = bytesOf(step, member);
        if (bytes === 0) continue;
        const source = prescale === 1 ? input.view(startOf(step, member), bytes) : undefined;
        if (source !== undefined) local.put(step, member * slice, source, 0, bytes);
        else {
          stage(exchange, reduction, startOf(step, member), bytes, areaOf(0));
          local.put(step, member * slice, kernels.staging, areaOf(0), bytes);
        }
      }
    },
    (step) => {
      for (const [position, ward] of seats.wards.entries()) {
        const bytes = bytesOf(step, ward);
        if (bytes === 0) continue;
        const areas = seats.local.map((_, place) => {
          const area = areaOf(place);
          if (place === local.index) stage(exchange, reduction, startOf(step, ward), bytes, area);
          else local.get(place, step, ward * slice, kernels.staging, area, bytes);
          return area;
        });
        const partial = crossArea + position * part.partialBytes + step * slice;
        kernels.reduce(partial, areas, bytes / elementBytes, dtype, op, 1);
      }
    },
  );
}

/**
 * NOTE [Order on a connection]. In step s a member sends chunk s of a partial result, then chunk s-2 of its reduced share;
 * the other side expects the same. The two steps between leave time to reduce a chunk without stopping the transfer.
 */
function* reduceAcross(exchange: ClusterExchange, reduction: Reduction, part: Part): Steps {
  const { seats, index, kernels, crossArea } = exchange;
  const { input, output, shares, dtype, op, prescale, postscale, isGathered } = reduction;
  const { staging } = kernels;
  const elementBytes = dtypes[dtype].bytes;
  const isAlone = exchange.local.size === 1;
  const [, ...wards] = seats.wards;
  const ownHost = seats.hostOf[index] as number;
  const pieces = piecesOf(seats.maxWards, seats.hosts.length);
  const piecesArea = crossArea + part.partialBytes * seats.maxWards;
  const piece = (number: number) => piecesArea + number * part.chunk;
  const view = (area: number, bytes: number) => staging.subarray(area, area + bytes);
  const bytesOf = (step: number, member: number) =>
    Math.min(part.chunk, bytesIn(reduction, part, member, step * part.chunk));
  const offsetOf = (step: number) => part.from + step * part.chunk;
  const startOf = (step: number, member: number) => (shares[member] as Range).start + offsetOf(step);
  const longest = Math.max(...shares.map((_, member) => bytesIn(reduction, part, member)));
  const chunks = Math.ceil(longest / part.chunk);
  const partialArea = (step: number, position: number) =>
    crossArea + position * part.partialBytes + step * part.chunk;
  const inputPiece = (step: number, host: number) => piece(pieces.inputs(step, host));
  const resultPiece = (step: number) => piece(pieces.result(step));

  /** This host's partial result for a ward; if this member is alone on its host, that is its input. */
  const partialFor = (step: number, position: number, ward: number): Uint8Array => {
    const bytes = bytesOf(step, ward);
    if (!isAlone) return view(partialArea(step, position), bytes);
    const source = prescale === 1 ? input.view(startOf(step, ward), bytes) : undefined;
    if (source !== undefined) return source;
    const area = piece(pieces.partial(step, position - 1));
    stage(exchange, reduction, startOf(step, ward), bytes, area);
    return view(area, bytes);
  };

  const begin = (step: number): Ticket[] => {
    const tickets: Ticket[] = [];
    const ownBytes = bytesOf(step, index);
    for (const [i, ward] of wards.entries()) {
      if (bytesOf(step, ward) > 0) tickets.push(exchange.send(ward, partialFor(step, i + 1, ward)));
    }
    for (const partner of seats.partners) {
      const place = view(inputPiece(step, seats.hostOf[partner] as number), ownBytes);
      if (ownBytes > 0) tickets.push(exchange.receive(partner, place));
    }
    if (!isGathered || step < 2) return tickets;
    const resultBytes = bytesOf(step - 2, index);
    for (const partner of seats.partners) {
      if (resultBytes > 0) tickets.push(exchange.send(partner, view(resultPiece(step - 2), resultBytes)));
    }
    for (const [i, ward] of wards.entries()) {
      const bytes = bytesOf(step - 2, ward);
      if (bytes === 0) continue;
      const place = output.view(startOf(step - 2, ward), bytes) ?? view(piece(pieces.bounce(step, i)), bytes);
      tickets.push(exchange.receive(ward, place));
    }
    return tickets;
  };

  const end = (step: number): void => {
    const ownBytes = bytesOf(step, index);
    if (ownBytes > 0) {
      const areas = seats.hosts.map((_, host) => {
        if (host !== ownHost) return inputPiece(step, host);
        if (!isAlone) return partialArea(step, 0);
        const area = inputPiece(step, host);
        stage(exchange, reduction, startOf(step, index), ownBytes, area);
        return area;
      });
      const result = resultPiece(step);
      kernels.reduce(result, areas, ownBytes / elementBytes, dtype, op, postscale);
      const at = isGathered ? startOf(step, index) : offsetOf(step);
      output.write(at, ownBytes, staging, result);
    }
    if (!isGathered || step < 2) return;
    for (const [i, ward] of wards.entries()) {
      const bytes = bytesOf(step - 2, ward);
      const start = startOf(step - 2, ward);
      if (bytes > 0 && output.view(start, bytes) === undefined) {
        output.write(start, bytes, staging, piece(pieces.bounce(step, i)));
      }
    }
  };

  yield* runCrossSteps(exchange, isGathered ? chunks + 2 : chunks, begin, end);
}

/** Numbers of the pieces of staging memory, one chunk each. Consecutive steps use different pieces. */
function piecesOf(maxWards: number, hosts: number) {
  const others = maxWards - 1;
  return {
    count: 4 * others + 2 * hosts + 3,
    partial: (step: number, ward: number) => (step % 2) * others + ward,
    bounce: (step: number, ward: number) => 2 * others + (step % 2) * others + ward,
    inputs: (step: number, host: number) => 4 * others + (step % 2) * hosts + host,
    /** Sent two steps later, and free when that step ends. */
    result: (step: number) => 4 * others + 2 * hosts + (step % 3),
  };
}

/** Copies a range of the input, prescaled, into the staging memory. */
function stage(
  { kernels }: ClusterExchange,
  { input, dtype, prescale }: Pick<Reduction, 'input' | 'dtype' | 'prescale'>,
  start: number,
  bytes: number,
  area: number,
): void {
  input.read(start, bytes, kernels.staging, area);
  if (prescale !== 1) kernels.scale(area, bytes / dtypes[dtype].bytes, dtype, prescale);
}

function floor64(bytes: number): number {
  return Math.floor(bytes / 64) * 64;
}
