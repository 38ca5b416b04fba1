// Members of a group that have other values than most of it, and how to say so.

export interface Split {
  /** Members that have what most have; if no value has a majority, what the first member has. */
  readonly alike: readonly number[];
  readonly others: readonly number[];
}

/** Undefined where all values are the same. */
export function splitBy(values: readonly unknown[]): Split | undefined {
  const membersOf = new Map<unknown, number[]>();
  values.forEach((value, member) => {
    membersOf.set(value, [...(membersOf.get(value) ?? []), member]);
  });
  if (membersOf.size < 2) return undefined;
  const alike = [...membersOf.values()].reduce((most, each) => (each.length > most.length ? each : most));
  return { alike, others: values.map((_, member) => member).filter((member) => !alike.includes(member)) };
}

/** `rank 1 has other values than ranks 0 and 2`; `ranks` are the ranks of the members. */
export function describeSplit({ alike, others }: Split, ranks: readonly number[]): string {
  const named = (members: readonly number[]) => listRanks(members.map((member) => ranks[member] as number));
  return `${named(others)} ${others.length === 1 ? 'has' : 'have'} other values than ${named(alike)}`;
}

const maxShown = 8;

function listRanks(ranks: readonly number[]): string {
  if (ranks.length === 1) return `rank ${ranks[0]}`;
  const shown =
    ranks.length > maxShown ? [...ranks.slice(0, maxShown), `${ranks.length - maxShown} more`] : ranks;
  return `ranks ${shown.slice(0, -1).join(', ')} and ${shown.at(-1)}`;
}
