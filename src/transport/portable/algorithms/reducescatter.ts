// Reduce-scatter of the portable transport on one host. Small inputs travel in the posts: one step, S·(N-1) bytes read.
// Otherwise every member puts, step by step, a slice of each other member's part, gets the slices of its own part and
// reduces them in index order. Each member writes S·(N-1)/N bytes and reads as many.

import { dtypes } from '../../../tensor/dtype.ts';
import { travelList } from '../../../tensor/wire-list.ts';
import { type ReducescatterOperation, wireDType } from '../../transport.ts';
import {
  type Collective,
  checkEqualSizes,
  type Exchange,
  othersOf,
  runSteps,
  type Steps,
} from './exchange.ts';
import { startsOf } from './gather.ts';

export function reducescatter(exchange: Exchange, operation: ReducescatterOperation): Collective {
  const { op, prescale, postscale, counts } = operation;
  const dtype = wireDType(operation);
  const { kernels, index, size } = exchange;
  const elementBytes = dtypes[dtype].bytes;
  const input = travelList([operation.input], operation.wire, kernels);
  const output = travelList([operation.output], operation.wire, kernels);
  const isSmall = input.byteLength <= exchange.eagerBytes;
  const partBytes = counts.map((count) => count * elementBytes);
  const partStarts = startsOf(partBytes);
  const ownBytes = partBytes[index] as number;
  const ownStart = partStarts[index] as number;

  const stage = (start: number, bytes: number, area: number): void => {
    input.read(start, bytes, kernels.staging, area);
    if (prescale !== 1) kernels.scale(area, bytes / elementBytes, dtype, prescale);
  };
  const reduce = (areas: readonly number[], bytes: number, at: number): void => {
    const target = exchange.workArea;
    kernels.reduce(target, areas, bytes / elementBytes, dtype, op, postscale);
    output.write(at, bytes, kernels.staging, target);
  };

  function reducePayloads(): void {
    // A part may begin anywhere in a payload; kernels need it at the start of an area.
    const areas = Array.from({ length: size }, (_, member) => {
      const area = exchange.workArea + (member + 1) * exchange.eagerBytes;
      const from = exchange.payload(member) + ownStart;
      kernels.staging.copyWithin(area, from, from + ownBytes);
      return area;
    });
    reduce(areas, ownBytes, 0);
  }

  function bySlices(): Steps {
    const others = othersOf(exchange);
    const slice = Math.floor(exchange.slotBytes / size / 64) * 64;
    const sliceArea = (member: number) => exchange.workArea + (member + 1) * slice;
    const bytesOf = (step: number, member: number) =>
      Math.min(slice, Math.max(0, (partBytes[member] as number) - step * slice));
    return runSteps(
      exchange,
      Math.ceil(Math.max(...partBytes) / slice),
      (step) => {
        for (const member of others) {
          const bytes = bytesOf(step, member);
          if (bytes === 0) continue;
          stage((partStarts[member] as number) + step * slice, bytes, sliceArea(member));
          exchange.put(step, member * slice, kernels.staging, sliceArea(member), bytes);
        }
      },
      (step) => {
        const bytes = bytesOf(step, index);
        if (bytes === 0) return;
        for (const member of others) {
          exchange.get(member, step, index * slice, kernels.staging, sliceArea(member), bytes);
        }
        stage(ownStart + step * slice, bytes, sliceArea(index));
        const areas = Array.from({ length: size }, (_, member) => sliceArea(member));
        reduce(areas, bytes, step * slice);
      },
    );
  }

  return {
    totalBytes: input.byteLength,
    payloadBytes: isSmall ? input.byteLength : 0,
    writePayload: (_staging, area) => stage(0, input.byteLength, area),
    *run() {
      checkEqualSizes(exchange);
      if (!isSmall) yield* bySlices();
      else if (ownBytes > 0) reducePayloads();
    },
  };
}
