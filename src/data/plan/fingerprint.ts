// Fingerprints: what a state remembers of the pipeline and of the files it belongs to.

import { createHash } from 'node:crypto';
import type { FunctionReference, Json } from './function-reference.ts';
import { isReference } from './function-reference.ts';
import type { PlanNode, SourceNode } from './nodes.ts';

/** Name and digest of each call. What does not change the elements is left out: prefetch(), where files are, who reads them. */
export function fingerprintOfPlan(nodes: readonly PlanNode[]): string[] {
  return nodes
    .filter(({ node }) => node !== 'prefetch')
    .map((node) => `${node.node} ${digest(essence(node))}`);
}

/** A file as a state remembers it. */
export interface FileMark {
  readonly location: string;
  readonly size: number;
  readonly records: number;
}

const maxGroups = 64;

/** Digests of neighbouring files, and how many files each stands for. */
export function fingerprintOfFiles(files: readonly FileMark[]): { digests: string[]; perGroup: number } {
  const perGroup = Math.max(1, Math.ceil(files.length / maxGroups));
  const digests: string[] = [];
  for (let first = 0; first < files.length; first += perGroup) {
    const group = files.slice(first, first + perGroup).map(({ location, size, records }) => ({
      // A data set that was moved as a whole is still the same.
      name: location.slice(location.lastIndexOf('/') + 1),
      size,
      records,
    }));
    digests.push(digest(group));
  }
  return { digests, perGroup };
}

/** What the elements in a cache depend on: the calls before it, and the files. */
export function fingerprintOfCache(nodes: readonly PlanNode[], files: readonly FileMark[]): string {
  const calls = nodes.slice(
    0,
    nodes.findIndex(({ node }) => node === 'cache'),
  );
  return digest([fingerprintOfPlan(calls), fingerprintOfFiles(files).digests]);
}

function essence(node: PlanNode): unknown {
  if ('settings' in node) return essenceOfSource(node);
  if ('fn' in node) return { node: node.node, fn: essenceOfFunction(node.fn) };
  return node;
}

function essenceOfSource({ node, format, settings }: SourceNode): unknown {
  const { shuffle, shard, uneven, index } = settings;
  const { module } = format;
  const named = typeof module === 'string' ? { ...format, module: nameOfModule(module) } : format;
  // Without an index, the order is another one.
  return { node, format: named, shuffle, shard, uneven, ...(index === 'none' ? { index } : {}) };
}

function essenceOfFunction(fn: FunctionReference | { readonly name: string }): unknown {
  if (!isReference(fn)) return { name: fn.name };
  return { module: nameOfModule(fn.module), name: fn.name, args: fn.args };
}

/** Modules lie in other folders on other machines. */
function nameOfModule(module: string): string {
  return module.slice(module.lastIndexOf('/') + 1);
}

function digest(value: unknown): string {
  return createHash('sha256')
    .update(canonical(value as Json))
    .digest('hex')
    .slice(0, 12);
}

/** JSON with sorted names. */
function canonical(value: Json): string {
  return JSON.stringify(value, (_, each: unknown) =>
    typeof each === 'object' && each !== null && !Array.isArray(each)
      ? Object.fromEntries(Object.entries(each).sort(([a], [b]) => (a < b ? -1 : 1)))
      : each,
  );
}
