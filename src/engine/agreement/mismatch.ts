// Finds the first thing two ranks disagree about, in Horovod's order of checks, and says it with both ranks
// and both values. Every rank computes the same text from the same lists.

import { type Description, hasFreeFirstDimension, labelOf } from '../description.ts';

export interface Claim {
  /** Global rank. */
  readonly rank: number;
  readonly description: Description;
}

/** The ranks' common name, with what each of them says; undefined if they agree. */
export function findMismatch(claims: readonly Claim[]): string | undefined {
  const [first, ...others] = claims;
  if (first === undefined) return undefined;
  for (const check of checks) {
    for (const other of others) {
      const difference = check(first.description, other.description);
      if (difference === undefined) continue;
      const [what, ours, theirs] = difference;
      return (
        `${labelOf(first.description)}: mismatched ${what}: rank ${first.rank} has ${ours}, ` +
        `but rank ${other.rank} has ${theirs}.`
      );
    }
  }
  return undefined;
}

type Difference = readonly [what: string, ours: string, theirs: string];
type Check = (a: Description, b: Description) => Difference | undefined;

const differ = (what: string, a: string, b: string): Difference | undefined =>
  a === b ? undefined : [what, a, b];

const checks: readonly Check[] = [
  (a, b) => differ('operations', a.kind.toUpperCase(), b.kind.toUpperCase()),
  (a, b) =>
    a.isGrouped === b.isGrouped && a.shapes.length === b.shapes.length
      ? undefined
      : ['group sizes', groupText(a), groupText(b)],
  (a, b) => firstOf(a.dtypes, (dtype, i) => differ(`data types${place(a, i)}`, dtype, b.dtypes[i] ?? 'none')),
  (a, b) => firstOf(a.shapes, (shape, i) => compareShapes(a, shape, b.shapes[i] ?? [], i)),
  (a, b) =>
    differ(
      'prescale and/or postscale factors',
      `(${a.prescale}, ${a.postscale})`,
      `(${b.prescale}, ${b.postscale})`,
    ),
  (a, b) => differ('reduction operations', a.op ?? 'none', b.op ?? 'none'),
  (a, b) => differ('root ranks', `root ${a.root}`, `root ${b.root}`),
  (a, b) => differ(detailName(a), a.detail || 'none', b.detail || 'none'),
];

function compareShapes(
  description: Description,
  ours: readonly number[],
  theirs: readonly number[],
  i: number,
): Difference | undefined {
  const from = hasFreeFirstDimension(description.kind) ? 1 : 0;
  const isSame = ours.length === theirs.length && ours.every((length, d) => d < from || length === theirs[d]);
  if (isSame) return undefined;
  const what = `${description.kind.toUpperCase()} tensor shapes${place(description, i)}`;
  return [what, `shape [${ours.join(', ')}]`, `shape [${theirs.join(', ')}]`];
}

function place(description: Description, i: number): string {
  return description.isGrouped ? ` of tensor ${i} of the group` : '';
}

function groupText(description: Description): string {
  return description.isGrouped ? `a group of ${description.shapes.length}` : 'a single tensor';
}

function detailName(description: Description): string {
  return description.kind === 'processSet' ? 'process sets' : 'options';
}

function firstOf<T>(
  list: readonly T[],
  compare: (value: T, i: number) => Difference | undefined,
): Difference | undefined {
  for (const [i, value] of list.entries()) {
    const difference = compare(value, i);
    if (difference !== undefined) return difference;
  }
  return undefined;
}
