// Broadcast of many tensors in few messages: those of one dtype travel together, up to a limit that bounds the extra
// memory. The ranks must have agreed on the slots (number, shapes, dtypes, order) before.

import type * as tf from '@tensorflow/tfjs';
import { inBytes, startPhase } from '../../console/progress.ts';
import { broadcast, broadcastSync } from '../../operations/collectives.ts';
import type { CollectiveOptions } from '../../operations/options.ts';
import type { TypedArray } from '../../tensor/dtype.ts';
import { elementsIn, type Tensor } from '../../tensor/tensor.ts';
import { type BothForms, wait } from '../both-forms.ts';
import { currentContext } from '../context.ts';
import { makeTensor } from './tensor-access.ts';
import { valuesLaterOf, valuesOf } from './tensor-operands.ts';

export type SlotDtype = 'float32' | 'int32' | 'bool';

/** One tensor's place. */
export interface Slot {
  readonly shape: readonly number[];
  readonly dtype: SlotDtype;
  /** On the root: what is sent. */
  read(): tf.Tensor;
  /** Elsewhere: what came. It is the slot's to dispose. */
  receive(value: tf.Tensor): void;
}

const packBytes = 64 * 2 ** 20;
const bytesPerElement = { float32: 4, int32: 4, bool: 1 } as const;

export function* broadcastSlots(
  slots: readonly Slot[],
  rootRank: number,
  options: CollectiveOptions,
): BothForms<void> {
  const context = currentContext();
  const isRoot = context.world.rank === rootRank;
  const progress = progressOf(slots);
  try {
    for (const [number, pack] of packsOf(slots).entries()) {
      const message = emptyMessage(pack);
      const data = message.data as Float32Array;
      if (isRoot) {
        let place = 0;
        for (const slot of pack) {
          const tensor = slot.read();
          const values = yield* wait(
            () => valuesOf(tensor),
            () => valuesLaterOf(tensor),
          );
          data.set(values as Float32Array, place);
          place += values.length;
        }
      }
      const name = options.name === undefined ? undefined : `${options.name}.${number}`;
      const inPlace = { ...options, name, inPlace: true };
      yield* wait(
        () => broadcastSync(context, message, rootRank, inPlace),
        () => broadcast(context, message, rootRank, inPlace),
      );
      if (!isRoot) unpack(data, pack);
      progress?.sent(data.byteLength);
    }
  } finally {
    progress?.end();
  }
}

/** Rank 0 shows its progress if it takes long. */
function progressOf(slots: readonly Slot[]): { sent(bytes: number): void; end(): void } | undefined {
  const { world, log } = currentContext();
  if (world.rank !== 0 || world.size === 1) return undefined;
  const total = slots.reduce((sum, { shape, dtype }) => sum + elementsIn(shape) * bytesPerElement[dtype], 0);
  const phase = startPhase({ what: `broadcast of ${slots.length} tensors, ${inBytes(total)}`, log });
  let done = 0;
  phase.report({ done, total, unit: 'bytes' });
  return {
    sent(bytes) {
      done += bytes;
      phase.report({ done, total, unit: 'bytes' });
    },
    end: () => phase.end(),
  };
}

/** By dtype, in order, each list up to the limit unless a single tensor is larger. Empty tensors do not travel. */
export function packsOf<S extends Pick<Slot, 'shape' | 'dtype'>>(
  slots: readonly S[],
  limitBytes: number = packBytes,
): S[][] {
  const open = new Map<SlotDtype, { pack: S[]; bytes: number }>();
  const packs: S[][] = [];
  for (const slot of slots) {
    const bytes = elementsIn(slot.shape) * bytesPerElement[slot.dtype];
    if (bytes === 0) continue;
    let current = open.get(slot.dtype);
    if (current === undefined || current.bytes + bytes > limitBytes) {
      current = { pack: [], bytes: 0 };
      open.set(slot.dtype, current);
      packs.push(current.pack);
    }
    current.pack.push(slot);
    current.bytes += bytes;
  }
  return packs;
}

function emptyMessage(pack: readonly Slot[]): Tensor {
  const { dtype } = pack[0] as Slot;
  const length = pack.reduce((sum, { shape }) => sum + elementsIn(shape), 0);
  const kind = dtype === 'float32' ? Float32Array : dtype === 'int32' ? Int32Array : Uint8Array;
  return { data: new kind(length), shape: [length], dtype };
}

function unpack(data: TypedArray, pack: readonly Slot[]): void {
  let place = 0;
  for (const slot of pack) {
    const end = place + elementsIn(slot.shape);
    // A copy: some backends keep the array, and a part would keep the whole message alive.
    slot.receive(makeTensor(data.slice(place, end), slot.shape, slot.dtype));
    place = end;
  }
}
