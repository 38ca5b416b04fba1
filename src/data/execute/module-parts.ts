// The parts of moduleDataset(): iterables that a factory of the user's module makes, in the reader thread.

import { HorovodError } from '../../errors.ts';
import { describe } from '../../tensor/tensor.ts';
import {
  describeReference,
  type FunctionReference,
  type Json,
  loadReference,
} from '../plan/function-reference.ts';
import type { SourceNode } from '../plan/nodes.ts';
import type { IndexedFile, OpenPart, PartPlace } from './pieces.ts';

/** How the dataset that a factory returns divides its data; set by Dataset. */
export const shardKey: unique symbol = Symbol.for('horovod.data.shard') as never;

export function partFiles(source: SourceNode): IndexedFile[] {
  const reference = referenceOf(source);
  const parts = source.format['parts'] as number;
  return Array.from({ length: parts }, (_, part) => ({
    location: `part ${part} of ${describeReference(reference)}`,
    size: 0,
    records: 0,
    first: 0,
    offsets: null,
    blocks: [],
  }));
}

export function openPartOf(source: SourceNode): OpenPart {
  const reference = referenceOf(source);
  let loading: Promise<unknown> | undefined;
  return async (place) => {
    loading ??= loadReference(reference);
    const factory = (await loading) as (args: Json, place: PartPlace) => unknown;
    const made = await attempt(reference, place, 0, async () => factory(reference.args, place));
    return checked(iteratorOf(made, reference), reference, place);
  };
}

function referenceOf({ format }: SourceNode): FunctionReference {
  const { module, name, args = null } = format as { module: string; name: string; args?: Json };
  return { kind: 'exported', module, name, args };
}

function iteratorOf(made: unknown, reference: FunctionReference): AsyncIterator<unknown> | Iterator<unknown> {
  const given = Object(made) as Partial<AsyncIterable<unknown> & Iterable<unknown> & { [shardKey]: string }>;
  if (given[shardKey] !== undefined && given[shardKey] !== 'none') {
    throw new HorovodError(
      'ERR_HVD_INVALID_ARGUMENT',
      `moduleDataset(${describeReference(reference)}): parts divide the data already. Give the dataset that it returns shard: 'none'.`,
    );
  }
  if (typeof given[Symbol.asyncIterator] === 'function')
    return (given as AsyncIterable<unknown>)[Symbol.asyncIterator]();
  if (typeof made === 'object' && typeof given[Symbol.iterator] === 'function') {
    return (given as Iterable<unknown>)[Symbol.iterator]();
  }
  throw new HorovodError(
    'ERR_HVD_INVALID_ARGUMENT',
    `moduleDataset(${describeReference(reference)}): it must return a dataset or an (async) iterable, not ${describe(made)}.`,
  );
}

/** With errors that say where they happened. */
async function* checked(
  elements: AsyncIterator<unknown> | Iterator<unknown>,
  reference: FunctionReference,
  place: PartPlace,
): AsyncGenerator<unknown, void, void> {
  let count = 0;
  try {
    for (;;) {
      const turn = await attempt(reference, place, count, async () => elements.next());
      if (turn.done) return;
      count += 1;
      yield turn.value;
    }
  } finally {
    await elements.return?.();
  }
}

async function attempt<T>(
  reference: FunctionReference,
  { part, parts, epoch }: PartPlace,
  count: number,
  action: () => Promise<T>,
): Promise<T> {
  try {
    return await action();
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new HorovodError(
      'ERR_HVD_DATA_FUNCTION',
      `moduleDataset(${describeReference(reference)}) failed in part ${part} of ${parts}, epoch ${epoch}, after ${count} elements: ${reason}`,
      { cause },
    );
  }
}
