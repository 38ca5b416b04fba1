// Hierarchical or flat, as something that can be tried while a job runs: the group of all ranks is opened once for each
// way there is, and switched between. Other process sets stay as they are.

import type { DataPlane, GroupSpec, Hierarchy, PlaneGroup } from '../plane/plane.ts';
import { SwitchingGroup, waysThroughHosts } from '../plane/switching-group.ts';
import type { KnobValues } from './knobs.ts';

export class HierarchySwitch {
  readonly #ways: readonly Hierarchy[];
  readonly #plane: Pick<DataPlane, 'openGroup'>;
  readonly #areOne: boolean;
  #group: SwitchingGroup | undefined;

  constructor(plane: Pick<DataPlane, 'openGroup'>, ways: readonly Hierarchy[], areOne: boolean) {
    this.#plane = plane;
    this.#ways = ways;
    this.#areOne = areOne;
  }

  /** Undefined where there is only one way. `given`: names of settings that stay. */
  static of(
    plane: DataPlane,
    hostOf: readonly number[],
    usual: Hierarchy,
    given: readonly string[],
  ): HierarchySwitch | undefined {
    const areOne = plane.name === 'mpi' || plane.name === 'gloo';
    const fixed = {
      allreduce: given.includes('hierarchicalAllreduce'),
      allgather: given.includes('hierarchicalAllgather'),
    };
    const ways = waysThroughHosts(hostOf, usual, fixed, areOne);
    return ways.length === 1 ? undefined : new HierarchySwitch(plane, ways, areOne);
  }

  readonly open = async (spec: GroupSpec): Promise<PlaneGroup> => {
    this.#group = await SwitchingGroup.open(this.#plane.openGroup.bind(this.#plane), spec, this.#ways);
    return this.#group;
  };

  /** For the knobs: what can be changed, and what it is. */
  get usual(): Readonly<Record<string, boolean>> {
    const { allreduce, allgather } = this.#ways[0] as Hierarchy;
    return {
      hierarchicalAllreduce: allreduce,
      ...(this.#areOne ? {} : { hierarchicalAllgather: allgather }),
    };
  }

  apply(values: KnobValues): void {
    const { hierarchicalAllreduce, hierarchicalAllgather } = values as Record<string, unknown>;
    const group = this.#group;
    if (group === undefined) return;
    const { allreduce, allgather } = group.hierarchy;
    const isByHost = typeof hierarchicalAllreduce === 'boolean' ? hierarchicalAllreduce : allreduce;
    const gathersByHost = typeof hierarchicalAllgather === 'boolean' ? hierarchicalAllgather : allgather;
    group.use({ allreduce: isByHost, allgather: this.#areOne ? isByHost : gathersByHost });
  }
}
