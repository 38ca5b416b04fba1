// The plan of a pipeline: a list of nodes, one for each call, the source first. Nodes are JSON, but for functions that were given
// as such: these stay in a list beside the plan and run in the main thread.

import type { DType } from '../../tensor/dtype.ts';
import type { FunctionReference, Json } from './function-reference.ts';

export type SourceKind =
  | 'tfRecordDataset'
  | 'csvDataset'
  | 'textLineDataset'
  | 'jsonLinesDataset'
  | 'npyDataset'
  | 'imageFolderDataset'
  | 'parquetDataset'
  | 'arrayDataset'
  | 'rangeDataset'
  | 'moduleDataset';

export type ShardPolicy = 'lanes' | 'files' | 'records' | 'none';

/** Options that every source has, checked and with defaults. */
export interface SourceSettings {
  readonly shuffle: { readonly seed: number; readonly pool: number | 'all' } | null;
  readonly shard: ShardPolicy;
  readonly rank: number | null;
  readonly size: number | null;
  readonly uneven: 'pad' | 'drop' | 'keep' | 'exact';
  readonly interleave: number | null;
  readonly index: 'auto' | 'none' | 'build';
  readonly lanes: number | null;
}

export interface SourceNode {
  readonly node: SourceKind;
  /** Paths and patterns, as given. */
  readonly paths: readonly string[];
  /** What the format takes. */
  readonly format: { readonly [name: string]: Json | undefined };
  readonly settings: SourceSettings;
}

/** A function of the pipeline: a reference, or the number of a function that stays in the main thread. */
export type NodeFunction =
  | FunctionReference
  | { readonly kind: 'local'; readonly place: number; readonly name: string };

export type FunctionNode = {
  readonly node: 'map' | 'filter' | 'flatMap';
  readonly fn: NodeFunction;
};

export interface ParseNode {
  readonly node: 'parseExample' | 'parseSequenceExample';
  /** Features by name; `context` and `sequence` for parseSequenceExample(). */
  readonly features: Json;
}

export interface BatchNode {
  readonly node: 'batch';
  readonly size: number;
  readonly dropRemainder: boolean;
  readonly globalSize: number | null;
}

export interface PaddedBatchNode {
  readonly node: 'paddedBatch';
  readonly size: number;
  readonly dropRemainder: boolean;
  readonly globalSize: number | null;
  /** Value by column; 0 if left out. */
  readonly padding: Readonly<Record<string, number>>;
}

export interface BucketNode {
  readonly node: 'bucketByLength';
  readonly key: string;
  readonly boundaries: readonly number[];
  readonly batchSizes: readonly number[];
  readonly padding: Readonly<Record<string, number>>;
}

export type PlanNode =
  | SourceNode
  | FunctionNode
  | ParseNode
  | BatchNode
  | PaddedBatchNode
  | BucketNode
  | { readonly node: 'shuffle'; readonly pool: number | 'all'; readonly seed: number }
  | { readonly node: 'repeat'; readonly epochs: number | null }
  | { readonly node: 'take'; readonly count: number }
  | { readonly node: 'skip'; readonly count: number }
  | { readonly node: 'cache'; readonly where: string }
  | { readonly node: 'prefetch'; readonly batches: number | 'auto' };

/** Columns of arrayDataset(), which are no JSON. */
export interface ArrayColumn {
  readonly name: string;
  readonly dtype: DType;
  /** Of one row. */
  readonly shape: readonly number[];
  readonly data: ArrayBufferView;
}

/** Stages that work on elements or batches, in their order. */
export type StageNode = FunctionNode | ParseNode | BatchNode | PaddedBatchNode | BucketNode | CacheNode;
export type CacheNode = Extract<PlanNode, { node: 'cache' }>;
