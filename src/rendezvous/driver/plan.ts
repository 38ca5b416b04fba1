// Who is in the next generation of an elastic job, and with which rank. A pure function. A *survivor* has the state of the
// job; a *standby* is up and waits for a seat. Survivors keep their ranks where they can, and rank 0 is always one of them,
// because scripts let rank 0 keep things beside the state (event files, the best checkpoint).

export interface PlanHost {
  readonly name: string;
  readonly slots: number;
}

export interface Candidate {
  readonly worker: number;
  readonly host: string;
  /** On its host. */
  readonly slot: number;
  /** Of a survivor: its rank in the generation before. */
  readonly rank?: number | undefined;
}

export interface PlanRequest {
  /** Those that may be used, in the order in which they were first seen. */
  readonly hosts: readonly PlanHost[];
  readonly survivors: readonly Candidate[];
  readonly standbys: readonly Candidate[];
  readonly min: number;
  readonly max: number;
  /** Training has begun: without a survivor, its state is lost. */
  readonly needsSurvivor: boolean;
}

export type Plan =
  | {
      readonly kind: 'seats';
      /** Worker numbers by rank. */
      readonly workers: readonly number[];
      /** Survivors for whom there is no place any more. */
      readonly removed: readonly number[];
    }
  /** There are fewer than `min`. */
  | { readonly kind: 'wait'; readonly available: number }
  /** No survivor is left. */
  | { readonly kind: 'end' };

export function plan({ hosts, survivors, standbys, min, max, needsSurvivor }: PlanRequest): Plan {
  const order = new Map(hosts.map(({ name }, index) => [name, index]));
  const free = new Map(hosts.map(({ name, slots }) => [name, slots]));
  // The oldest first: where there are too many, the newest have to go.
  const staying = [...survivors]
    .sort((a, b) => a.worker - b.worker)
    .filter(({ host }) => takeSlot(free, host))
    .slice(0, max);
  if (needsSurvivor && staying.length === 0) return { kind: 'end' };
  const joining = [...standbys]
    .sort((a, b) => (order.get(a.host) ?? 0) - (order.get(b.host) ?? 0) || a.slot - b.slot)
    .filter(({ host }) => takeSlot(free, host))
    .slice(0, max - staying.length);
  const size = staying.length + joining.length;
  if (size < min || size === 0) return { kind: 'wait', available: size };
  const stays = new Set(staying.map(({ worker }) => worker));
  return {
    kind: 'seats',
    workers: seats(staying, joining),
    removed: survivors.map(({ worker }) => worker).filter((worker) => !stays.has(worker)),
  };
}

/** False if the host has none, or is not in the list. */
function takeSlot(free: Map<string, number>, host: string): boolean {
  const left = free.get(host) ?? 0;
  if (left > 0) free.set(host, left - 1);
  return left > 0;
}

function seats(staying: readonly Candidate[], joining: readonly Candidate[]): number[] {
  const size = staying.length + joining.length;
  const seats: (number | undefined)[] = new Array<undefined>(size).fill(undefined);
  const ranked = [...staying].sort((a, b) => (a.rank ?? 0) - (b.rank ?? 0));
  const lowest = ranked[0];
  if (lowest !== undefined) seats[0] = lowest.worker;
  for (const { rank = 0, worker } of ranked.slice(1)) if (rank < size) seats[rank] = worker;
  const seated = new Set(seats);
  const others = [...ranked, ...joining].filter(({ worker }) => !seated.has(worker));
  return seats.map((worker) => worker ?? (others.shift() as Candidate).worker);
}
