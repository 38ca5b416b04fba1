// Several groups of the same members with different hierarchies (by host or flat), one of which is in use. Autotune tries
// them. All members switch at the same point, while nothing is in flight, so to the engine it looks like one group.

import type { HorovodError } from '../../errors.ts';
import type {
  Batch,
  GroupSpec,
  Hierarchy,
  Outcome,
  QuickOperation,
  QuickPath,
  QuickResult,
  Round,
  TransportGroup,
  TransportOperation,
} from '../transport.ts';

/** Ids of the additional groups of a process set; far from the ids of process sets. */
const firstId = 2 ** 20;

export class SwitchingGroup implements TransportGroup {
  readonly index: number;
  readonly size: number;
  readonly quick?: QuickPath;
  readonly #ways: readonly { readonly hierarchy: Hierarchy; readonly group: TransportGroup }[];
  #current: TransportGroup;

  private constructor(ways: readonly { readonly hierarchy: Hierarchy; readonly group: TransportGroup }[]) {
    this.#ways = ways;
    this.#current = (ways[0] as (typeof ways)[0]).group;
    this.index = this.#current.index;
    this.size = this.#current.size;
    if (ways.every(({ group }) => group.quick !== undefined)) {
      this.quick = new SwitchingQuick(() => this.#current.quick as QuickPath);
    }
  }

  /** Collective: opens one group for each hierarchy; the first is in use. `spec.exchange` is called once for each. */
  static async open(
    openGroup: (spec: GroupSpec) => Promise<TransportGroup>,
    spec: GroupSpec,
    hierarchies: readonly Hierarchy[],
  ): Promise<SwitchingGroup> {
    const ways: { hierarchy: Hierarchy; group: TransportGroup }[] = [];
    try {
      for (const [place, hierarchy] of hierarchies.entries()) {
        const id = place === 0 ? spec.id : firstId + place;
        ways.push({ hierarchy, group: await openGroup({ ...spec, id, hierarchy }) });
      }
    } catch (error) {
      for (const { group } of ways) group.close();
      throw error;
    }
    return new SwitchingGroup(ways);
  }

  get hierarchy(): Hierarchy {
    return this.#ways.find(({ group }) => group === this.#current)?.hierarchy as Hierarchy;
  }

  /** Call it only while nothing is in flight, on all members at the same point. An unknown hierarchy changes nothing. */
  use({ allreduce, allgather }: Hierarchy): void {
    const way = this.#ways.find(
      ({ hierarchy }) => hierarchy.allreduce === allreduce && hierarchy.allgather === allgather,
    );
    if (way !== undefined) this.#current = way.group;
  }

  submit(batch: Batch, complete: (outcome: Outcome | HorovodError) => void): Outcome | undefined {
    return this.#current.submit(batch, complete);
  }

  runSync(batch: Batch): Outcome {
    return this.#current.runSync(batch);
  }

  waitSync(batch: Batch): Outcome {
    return this.#current.waitSync(batch);
  }

  takeBack(): Batch[] {
    return this.#current.takeBack();
  }

  missing(): number[] {
    return this.#current.missing();
  }

  setSwitchBytes(bytes: number): void {
    for (const { group } of this.#ways) group.setSwitchBytes?.(bytes);
  }

  close(): void {
    for (const { group } of this.#ways) group.close();
  }
}

/** The quick path of the group in use. A prepared round runs on the group that is in use at that time. */
class SwitchingQuick implements QuickPath {
  readonly #current: () => QuickPath;

  constructor(current: () => QuickPath) {
    this.#current = current;
  }

  get isTraced(): boolean {
    return this.#current().isTraced;
  }

  set isTraced(value: boolean) {
    this.#current().isTraced = value;
  }

  get lastMarks(): Float64Array {
    return this.#current().lastMarks;
  }

  get small(): ArrayBufferLike {
    return this.#current().small;
  }

  get smallAt(): number {
    return this.#current().smallAt;
  }

  get received(): Float64Array {
    return this.#current().received;
  }

  compile(operation: TransportOperation): QuickOperation {
    return this.#current().compile(operation);
  }

  runNow(...call: Parameters<QuickPath['runNow']>): number | QuickResult {
    return this.#current().runNow(...call);
  }

  runSoon(...call: Parameters<QuickPath['runSoon']>): number | QuickResult | undefined {
    return this.#current().runSoon(...call);
  }

  adopt(batch: Batch, complete: (outcome: Outcome | HorovodError) => void): void {
    this.#current().adopt(batch, complete);
  }

  prepareRun(round: Round, batch: Batch): () => number {
    const runs = new Map<QuickPath, () => number>();
    return () => {
      const quick = this.#current();
      let run = runs.get(quick);
      if (run === undefined) {
        run = quick.prepareRun(round, batch);
        runs.set(quick, run);
      }
      return run();
    };
  }

  settleSync(status: number, batch: Batch): Outcome {
    return this.#current().settleSync(status, batch);
  }

  lastFinishedAtMs(): number {
    return this.#current().lastFinishedAtMs();
  }
}

/**
 * The hierarchies to try for a group over these hosts, the default first. `fixed`: what must stay as it is. `areOne`: the
 * transport has one switch for both.
 */
export function waysThroughHosts(
  hostOf: readonly number[],
  byDefault: Hierarchy,
  fixed: { readonly allreduce: boolean; readonly allgather: boolean },
  areOne: boolean,
): Hierarchy[] {
  const hosts = new Set(hostOf).size;
  if (hosts === 1 || hosts === hostOf.length) return [byDefault];
  const choices = (name: keyof Hierarchy) =>
    fixed[name] ? [byDefault[name]] : [byDefault[name], !byDefault[name]];
  if (areOne) return choices('allreduce').map((allreduce) => ({ allreduce, allgather: allreduce }));
  return choices('allreduce').flatMap((allreduce) =>
    choices('allgather').map((allgather) => ({ allreduce, allgather })),
  );
}
