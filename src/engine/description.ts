// A *description*: what the ranks must agree on before an operation runs. It is compared as a fingerprint, and travels as
// it is when those differ. Its *key* says which requests of the ranks belong together.

import type { DType } from '../tensor/dtype.ts';
import { Fingerprint } from './fingerprint.ts';

export const requestKinds = [
  'allreduce',
  'allgather',
  'broadcast',
  'alltoall',
  'reducescatter',
  'barrier',
  'join',
  'broadcastObject',
  'allgatherObject',
  'prepareAllreduce',
  'processSet',
  'autotune',
  'check',
] as const;
export type RequestKind = (typeof requestKinds)[number];

export interface Description {
  /** Matches requests of different ranks: the user's name, or the place in the order of unnamed ones. */
  readonly key: string;
  readonly kind: RequestKind;
  readonly dtypes: readonly DType[];
  readonly shapes: readonly (readonly number[])[];
  readonly isGrouped: boolean;
  readonly op: string | undefined;
  readonly prescale: number;
  readonly postscale: number;
  /** Global rank. */
  readonly root: number | undefined;
  /** Whatever else must agree: the compressor's name, the ranks of a new process set … */
  readonly detail: string;
}

const unnamedMark = '#';

/** How the detail of a collective begins that is made of several (context/composite.ts). */
export const compositeMark = 'in parts: ';

/** Whether a rank that has joined can take part in it with zeros. */
export function canJoin({ kind, detail }: Pick<Description, 'kind' | 'detail'>): boolean {
  return kind === 'barrier' || (kind === 'allreduce' && !detail.startsWith(compositeMark));
}

/** Whether nobody ever has to come to it: where not all ranks ask for it at one time, it is given up. */
export function isOptional({ kind }: Pick<Description, 'kind'>): boolean {
  return kind === 'autotune' || kind === 'check';
}

/** Whether it is of this package itself: users have not called it. */
export function isInternal({ kind }: Pick<Description, 'kind'>): boolean {
  return kind === 'processSet' || isOptional({ kind });
}

export function unnamedKey(count: number): string {
  return `${unnamedMark}${count}`;
}

export function isUnnamed(key: string): boolean {
  return key.startsWith(unnamedMark);
}

/** The key of a later part of a composite; the first has the key of the whole. */
export function partKey(key: string, part: number): string {
  return part === 1 ? key : `horovod.part.${part}.${key}`;
}

function partOfKey(key: string): { whole: string; part: string } | undefined {
  const [, part, whole] = /^horovod\.part\.(\d+)\.(.*)$/s.exec(key) ?? [];
  return part === undefined || whole === undefined ? undefined : { whole, part };
}

/** `allreduce "grad"`, `allreduce "grad", part 2`, or `allreduce (unnamed, number 3)`. */
export function labelOf({ key, kind }: Pick<Description, 'key' | 'kind'>): string {
  if (kind === 'join') return 'join';
  const later = partOfKey(key);
  if (later !== undefined) return `${labelOf({ key: later.whole, kind })}, part ${later.part}`;
  return key.startsWith(unnamedMark) ? `${kind} (unnamed, number ${key.slice(1)})` : `${kind} "${key}"`;
}

/** The name as flight records and errors show it. */
export function nameOf({ key, kind }: Pick<Description, 'key' | 'kind'>): string {
  const later = partOfKey(key);
  if (later !== undefined) return `${nameOf({ key: later.whole, kind })} (part ${later.part})`;
  return key.startsWith(unnamedMark) ? `${kind}.noname.${key.slice(1)}` : key;
}

/** Do the members' first dimensions have to agree? */
export function hasFreeFirstDimension(kind: RequestKind): boolean {
  return kind === 'allgather' || kind === 'alltoall';
}

const kindCodes = new Map<string, number>(requestKinds.map((kind, i) => [kind, i + 1]));

/**
 * Equal on two ranks exactly if they ask for the same thing (but for a chance of 2^-64). The key comes last: compiled
 * operations remember the rest.
 */
export function fingerprintOf(
  description: Description,
  opCode: number,
  dtypeCodes: readonly number[],
): Fingerprint {
  const fingerprint = fingerprintBeforeKey(description, opCode, dtypeCodes);
  mixKey(fingerprint, description.key);
  return fingerprint;
}

/** What all calls have in common that differ in their keys alone. */
export function fingerprintBeforeKey(
  { kind, shapes, isGrouped, prescale, postscale, root, detail }: Omit<Description, 'key'>,
  opCode: number,
  dtypeCodes: readonly number[],
): Fingerprint {
  const fingerprint = new Fingerprint();
  fingerprint.number(kindCodes.get(kind) as number).number(opCode);
  fingerprint
    .number(prescale)
    .number(postscale)
    .number(root ?? -1);
  fingerprint.number(isGrouped ? shapes.length + 1 : 0).text(detail);
  const firstFixed = hasFreeFirstDimension(kind) ? 1 : 0;
  shapes.forEach((shape, i) => {
    fingerprint.number(dtypeCodes[i] as number).number(shape.length);
    for (let d = firstFixed; d < shape.length; d++) fingerprint.number(shape[d] as number);
  });
  return fingerprint;
}

/** Makes `fingerprint` that of the unnamed request with this number. `start` is from fingerprintBeforeKey(). */
export function finishUnnamedFingerprint(fingerprint: Fingerprint, start: Fingerprint, count: number): void {
  fingerprint.low = start.low;
  fingerprint.high = start.high;
  fingerprint.number(0).number(count);
}

function mixKey(fingerprint: Fingerprint, key: string): void {
  if (key.startsWith(unnamedMark)) fingerprint.number(0).number(Number(key.slice(1)));
  else fingerprint.number(1).text(key);
}

/** Unnamed ones first, in their order; then names by code unit, the same on every machine. */
export function compareText(a: string, b: string): number {
  const first = a.startsWith(unnamedMark);
  if (first !== b.startsWith(unnamedMark)) return first ? -1 : 1;
  if (first) return Number(a.slice(1)) - Number(b.slice(1));
  return a < b ? -1 : a > b ? 1 : 0;
}
