// From the calls of a pipeline to what is executed. shuffle(), repeat(), take() and skip() are no stages: they become part of the
// order of positions, so that a place in the data stays a few numbers. What is left are stages on elements, a batch, and stages
// on batches. Pure.

import type { HorovodError } from '../../errors.ts';
import { invalid } from '../../operations/check-options.ts';
import type { BatchNode, BucketNode, PaddedBatchNode, PlanNode, SourceNode, StageNode } from './nodes.ts';

export interface Plan {
  readonly source: SourceNode;
  readonly seed: number;
  /** Undefined: the order of the files. */
  readonly pool: number | 'all' | undefined;
  readonly stages: readonly StageNode[];
  /** The stage that makes batches, and its place among the stages. */
  readonly batch: BatchNode | PaddedBatchNode | BucketNode | undefined;
  readonly batchAt: number;
  /** Some elements become none or several before they are batched: nobody knows how many positions a batch needs. */
  readonly isUncounted: boolean;
  /** Nobody has counted the records: files and parts are read from their beginnings, one after another. Always uncounted. */
  readonly isStreamed: boolean;
  /** Stages from here on run in the main thread. */
  readonly localFrom: number;
  /** Records that are used, all others do not exist for this pipeline: take() and skip() before shuffle(). */
  readonly records: Range;
  /** Positions of each epoch that are used. */
  readonly positions: Range;
  /** The same for this rank's batches. */
  readonly steps: Range;
  /** repeat(): Infinity for ever. */
  readonly epochs: number;
  /** take() behind repeat(): batches, or elements where there is no batch. */
  readonly total: number;
  readonly prefetch: number | 'auto';
  /** Why there is no state(); undefined if there is. */
  readonly noState: string | undefined;
}

/** From `skip` on, `take` of them. */
export interface Range {
  readonly skip: number;
  readonly take: number;
}

const everything: Range = { skip: 0, take: Number.POSITIVE_INFINITY };

export function normalise(nodes: readonly PlanNode[]): Plan {
  const source = nodes[0] as SourceNode;
  const stages: StageNode[] = [];
  let { shuffle } = source.settings;
  let batchAt = -1;
  const isStreamed = source.node === 'moduleDataset' || source.settings.index === 'none';
  let [isUncounted, hasRepeat] = [isStreamed, false];
  if (isStreamed && shuffle !== null) checkStreamedShuffle(source, shuffle.pool);
  let epochs = 1;
  let total = Number.POSITIVE_INFINITY;
  let prefetch: number | 'auto' = 'auto';
  let noState: string | undefined;
  let [records, positions, steps] = [everything, everything, everything];
  const isTfRecord = source.node === 'tfRecordDataset';
  for (const node of nodes.slice(1)) {
    const isBatched = batchAt >= 0;
    switch (node.node) {
      case 'shuffle':
        if (isBatched) throw misplaced('shuffle()', 'before batch(): batches are not shuffled, samples are');
        if (shuffle !== null) throw misplaced('shuffle()', 'once: this pipeline is shuffled already');
        if (isStreamed) checkStreamedShuffle(source, node.pool);
        shuffle = { seed: node.seed, pool: node.pool };
        [records, positions] = [positions, everything];
        break;
      case 'repeat':
        epochs *= node.epochs ?? Number.POSITIVE_INFINITY;
        hasRepeat = true;
        break;
      case 'prefetch':
        prefetch = node.batches;
        break;
      case 'take':
      case 'skip': {
        if (hasRepeat && node.node === 'skip') throw misplaced('skip()', 'before repeat()');
        if (hasRepeat) {
          total = Math.min(total, node.count);
          break;
        }
        if (isStreamed && !isBatched) {
          throw misplaced(
            `${node.node}()`,
            `after batch(): the records of ${described(source)} are not counted`,
          );
        }
        if (isUncounted && !isBatched) {
          throw misplaced(`${node.node}()`, 'before filter() and flatMap(), or after batch()');
        }
        if (isUncounted)
          noState ??= `${node.node}() follows ${isStreamed ? described(source) : 'filter() or flatMap()'}`;
        if (isBatched) steps = narrowed(steps, node);
        else positions = narrowed(positions, node);
        break;
      }
      case 'batch':
      case 'paddedBatch':
      case 'bucketByLength':
        if (isBatched) throw misplaced(`${node.node}()`, 'once: these elements are batches already');
        batchAt = stages.push(node) - 1;
        if (node.node === 'bucketByLength') {
          isUncounted = true;
          noState ??= 'bucketByLength() keeps samples of incomplete batches back';
        }
        break;
      default:
        checkStage(node as StageNode, isBatched, stages, isTfRecord);
        if (isStreamed && node.node === 'cache') {
          throw invalid(
            'cache()',
            `the records of ${described(source)} are not counted, so they cannot be found again`,
          );
        }
        if (node.node === 'filter' || node.node === 'flatMap') isUncounted ||= !isBatched;
        stages.push(node as StageNode);
    }
  }
  if (isUncounted && Number.isFinite(total)) {
    noState ??= `take() follows ${isStreamed ? described(source) : 'filter() or flatMap()'}`;
  }
  return {
    source,
    seed: shuffle?.seed ?? 0,
    pool: shuffle?.pool,
    stages,
    batch: batchAt < 0 ? undefined : (stages[batchAt] as Plan['batch']),
    batchAt,
    isUncounted,
    isStreamed,
    localFrom: firstLocal(stages, isUncounted ? batchAt : -1),
    records,
    positions,
    steps,
    epochs,
    total,
    prefetch,
    noState,
  };
}

function checkStreamedShuffle(source: SourceNode, pool: number | 'all'): void {
  if (pool !== 'all') return;
  throw invalid(
    'shuffle',
    `pool: 'all' needs to know all records, and those of ${described(source)} are not counted`,
  );
}

function described({ node }: SourceNode): string {
  return node === 'moduleDataset' ? 'moduleDataset()' : `${node}() with index: 'none'`;
}

function narrowed({ skip, take }: Range, { node, count }: { node: 'take' | 'skip'; count: number }): Range {
  return node === 'take'
    ? { skip, take: Math.min(take, count) }
    : { skip: skip + count, take: Math.max(0, take - count) };
}

function checkStage(
  node: StageNode,
  isBatched: boolean,
  stages: readonly StageNode[],
  isTfRecord: boolean,
): void {
  if (!isBatched) {
    const isParse = node.node === 'parseExample' || node.node === 'parseSequenceExample';
    if (isParse && (stages.length > 0 || !isTfRecord)) {
      throw misplaced(`${node.node}()`, 'directly after tfRecordDataset(): it takes the bytes of records');
    }
    return;
  }
  if (node.node !== 'map' && node.node !== 'filter') throw misplaced(`${node.node}()`, 'before batch()');
}

/** The first stage that has to run in the main thread. */
function firstLocal(stages: readonly StageNode[], uncountedBatch: number): number {
  const local = stages.findIndex(
    (stage, place) =>
      place === uncountedBatch || stage.node === 'cache' || ('fn' in stage && stage.fn.kind === 'local'),
  );
  return local < 0 ? stages.length : local;
}

function misplaced(call: string, where: string): HorovodError {
  return invalid(call, `call it ${where}`);
}
