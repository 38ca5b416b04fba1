// Which process gets which rank where HOROVOD_RANK is not set: a pure function of who came, in which order. Ranks of one
// machine are consecutive, which suits the hierarchical algorithms.

export interface Comer {
  /** What the machine calls itself. */
  readonly host: string;
  /** Equal for processes of one machine, and for no others. */
  readonly machine: string;
}

/** The rank of each, in the order of arrival. The first, which serves the store, is rank 0; machines go by name. */
export function assignRanks(comers: readonly Comer[]): number[] {
  const machines = new Map<string, number[]>();
  for (const [place, { machine }] of comers.entries()) {
    const places = machines.get(machine) ?? [];
    places.push(place);
    machines.set(machine, places);
  }
  const [first = [], ...others] = machines.values();
  const nameOf = (places: readonly number[]): string => comers[places[0] as number]?.host ?? '';
  others.sort((a, b) => compareNames(nameOf(a), nameOf(b)));
  const ranks = new Array<number>(comers.length);
  for (const [rank, place] of [first, ...others].flat().entries()) ranks[place] = rank;
  return ranks;
}

/** host2 before host10, whatever the language of the machine. */
function compareNames(a: string, b: string): number {
  return a.localeCompare(b, 'en', { numeric: true });
}
