// Allreduce of the portable transport on one host, for S bytes and N members. Prices are per member.
//   small         Travels in the posts; every member reduces all. One step, S·(N-1) bytes read.
//   two members   Direct: each puts its chunk, gets the other's and adds them. One step per chunk; S bytes written, S read.
//   more          Reduce-scatter and allgather by chunks: each puts its chunk, reduces 1/N of all chunks and puts the
//                 result two steps later, when the others get it. Two steps more than chunks; S·(N+1)/N bytes written,
//                 2·S·(N-1)/N read.
// All combine in index order, so all give the bits of reduceInto().

import { dtypes } from '../../../tensor/dtype.ts';
import { areaBytes } from '../../../tensor/wasm-reduce.ts';
import { travelList } from '../../../tensor/wire-list.ts';
import { type AllreduceOperation, wireDType } from '../../transport.ts';
import {
  type Collective,
  checkEqualSizes,
  type Exchange,
  othersOf,
  runSteps,
  type Steps,
} from './exchange.ts';

export function allreduce(exchange: Exchange, operation: AllreduceOperation): Collective {
  const { op, prescale, postscale } = operation;
  const dtype = wireDType(operation);
  const { kernels } = exchange;
  const elementBytes = dtypes[dtype].bytes;
  const inputs = travelList(operation.inputs, operation.wire, kernels);
  const outputs = travelList(operation.outputs, operation.wire, kernels);
  const totalBytes = inputs.byteLength;
  const isSmall = totalBytes <= exchange.eagerBytes;

  /** Copies a range of the inputs, prescaled, into the staging memory. */
  const stage = (start: number, bytes: number, area: number): void => {
    inputs.read(start, bytes, kernels.staging, area);
    if (prescale !== 1) kernels.scale(area, bytes / elementBytes, dtype, prescale);
  };
  const reduce = (output: number, areas: readonly number[], bytes: number): void =>
    kernels.reduce(output, areas, bytes / elementBytes, dtype, op, postscale);

  function reducePayloads(): void {
    const areas = Array.from({ length: exchange.size }, (_, member) => exchange.payload(member));
    reduce(exchange.workArea, areas, totalBytes);
    outputs.write(0, totalBytes, kernels.staging, exchange.workArea);
  }

  function direct(): Steps {
    const peer = 1 - exchange.index;
    const chunk = exchange.slotBytes;
    const peerArea = exchange.workArea + 2 * chunk;
    const own = (step: number) => exchange.workArea + (step % 2) * chunk;
    const bytesOf = (step: number) => Math.min(chunk, totalBytes - step * chunk);
    return runSteps(
      exchange,
      Math.ceil(totalBytes / chunk),
      (step) => {
        stage(step * chunk, bytesOf(step), own(step));
        exchange.put(step, 0, kernels.staging, own(step), bytesOf(step));
      },
      (step) => {
        exchange.get(peer, step, 0, kernels.staging, peerArea, bytesOf(step));
        const areas = exchange.index === 0 ? [own(step), peerArea] : [peerArea, own(step)];
        reduce(own(step), areas, bytesOf(step));
        outputs.write(step * chunk, bytesOf(step), kernels.staging, own(step));
      },
    );
  }

  function scatterAndGather(): Steps {
    const { index, size } = exchange;
    const others = othersOf(exchange);
    // A slot holds a chunk of `size` parts, followed by the part that this member reduced two steps before.
    const part = Math.floor(exchange.slotBytes / (size + 1) / 64) * 64;
    const chunk = part * size;
    const chunks = Math.ceil(totalBytes / chunk);
    const own = (step: number) => exchange.workArea + (step % 2) * chunk;
    // The parts of the others, then this member's reduced part, until it is put.
    const partArea = (member: number) => exchange.workArea + 2 * chunk + member * areaBytes(part);
    const reduced = partArea(size);
    const chunkBytes = (step: number) => Math.min(chunk, totalBytes - step * chunk);
    const partBytes = (step: number, member: number) =>
      Math.min(part, Math.max(0, chunkBytes(step) - member * part));
    return runSteps(
      exchange,
      chunks + 2,
      (step) => {
        if (step < chunks) {
          stage(step * chunk, chunkBytes(step), own(step));
          exchange.put(step, 0, kernels.staging, own(step), chunkBytes(step));
        }
        if (step >= 2) exchange.put(step, chunk, kernels.staging, reduced, partBytes(step - 2, index));
      },
      (step) => {
        if (step < chunks && partBytes(step, index) > 0) {
          const bytes = partBytes(step, index);
          const areas = Array.from({ length: size }, (_, member) => {
            if (member === index) return own(step) + index * part;
            exchange.get(member, step, index * part, kernels.staging, partArea(member), bytes);
            return partArea(member);
          });
          reduce(reduced, areas, bytes);
          outputs.write(step * chunk + index * part, bytes, kernels.staging, reduced);
        }
        if (step < 2) return;
        for (const member of others) {
          const bytes = partBytes(step - 2, member);
          const start = (step - 2) * chunk + member * part;
          const target = bytes === 0 ? undefined : outputs.view(start, bytes);
          if (target !== undefined) exchange.get(member, step, chunk, target, 0, bytes);
          else if (bytes > 0) {
            exchange.get(member, step, chunk, kernels.staging, partArea(member), bytes);
            outputs.write(start, bytes, kernels.staging, partArea(member));
          }
        }
      },
    );
  }

  return {
    totalBytes,
    payloadBytes: isSmall ? totalBytes : 0,
    writePayload: (_staging, area) => stage(0, totalBytes, area),
    *run() {
      checkEqualSizes(exchange);
      if (isSmall) reducePayloads();
      else if (exchange.size === 2) yield* direct();
      else yield* scatterAndGather();
    },
  };
}
