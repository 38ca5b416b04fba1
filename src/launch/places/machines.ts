// Which places are on the same machine: the ranks there share memory and are local to each other. A pure function.

export interface PlaceFacts {
  /** Its number. */
  readonly place: number;
  /** Equal where ranks can share memory. */
  readonly machine: string;
  readonly hostname: string;
}

/** What the job calls a host. */
export interface Machine {
  readonly name: string;
  /** In ascending order. */
  readonly places: readonly number[];
}

/**
 * The machine with the lowest place first. `names` has those that were given before, by machine, and gets the new ones. Containers of
 * one machine, and machines of the same name, are told apart: `worker`, `worker-2`.
 */
export function groupByMachine(facts: readonly PlaceFacts[], names: Map<string, string>): Machine[] {
  const groups = new Map<string, number[]>();
  for (const { place, machine, hostname } of [...facts].sort((a, b) => a.place - b.place)) {
    if (!names.has(machine)) names.set(machine, freeName(hostname, new Set(names.values())));
    groups.set(machine, [...(groups.get(machine) ?? []), place]);
  }
  return [...groups].map(([machine, places]) => ({ name: names.get(machine) as string, places }));
}

function freeName(hostname: string, taken: ReadonlySet<string>): string {
  let name = hostname;
  for (let number = 2; taken.has(name); number++) name = `${hostname}-${number}`;
  return name;
}
