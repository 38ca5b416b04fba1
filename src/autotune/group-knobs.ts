// Knobs that belong to the group of all ranks: by host or flat, and up to which size tcp takes the way for small tensors. The
// way through hosts is fixed when a group is opened; to try others, it is opened once for each. Other process sets stay as
// they are.

import type { DataPlane, GroupSpec, Hierarchy, PlaneGroup } from '../plane/plane.ts';
import { SwitchingGroup, waysThroughHosts } from '../plane/switching-group.ts';
import type { Knob, KnobValues } from './knobs.ts';

/** As in native/src/tcp. */
const usualSwitchBytes = 64 * 2 ** 10;

export class GroupKnobs {
  readonly #plane: Pick<DataPlane, 'name' | 'openGroup'>;
  readonly #ways: readonly Hierarchy[];
  #group: PlaneGroup | undefined;

  /** `ways`: those there are to try, the usual one first. */
  constructor(plane: Pick<DataPlane, 'name' | 'openGroup'>, ways: readonly Hierarchy[]) {
    this.#plane = plane;
    this.#ways = ways;
  }

  /** `given`: names of settings that stay. */
  static of(
    plane: DataPlane,
    hostOf: readonly number[],
    usual: Hierarchy,
    given: readonly string[],
  ): GroupKnobs {
    const fixed = {
      allreduce: given.includes('hierarchicalAllreduce'),
      allgather: given.includes('hierarchicalAllgather'),
    };
    return new GroupKnobs(plane, waysThroughHosts(hostOf, usual, fixed, hasOneSwitch(plane)));
  }

  readonly open = async (spec: GroupSpec): Promise<PlaneGroup> => {
    const openGroup = this.#plane.openGroup.bind(this.#plane);
    this.#group =
      this.#ways.length > 1 ? await SwitchingGroup.open(openGroup, spec, this.#ways) : await openGroup(spec);
    return this.#group;
  };

  get knobs(): Knob[] {
    const knobs: Knob[] = [];
    const [usual] = this.#ways;
    if (usual !== undefined && this.#ways.length > 1) {
      const { allreduce, allgather } = usual;
      knobs.push(choice('hierarchicalAllreduce', allreduce));
      if (!hasOneSwitch(this.#plane)) knobs.push(choice('hierarchicalAllgather', allgather));
    }
    if (this.#plane.name === 'tcp' && this.#group?.setSwitchBytes !== undefined) {
      knobs.push({
        ...{ kind: 'size', name: 'tcpSwitchBytes', unit: 'bytes', usual: usualSwitchBytes },
        ...{ least: 16 * 2 ** 10, most: 2 * 2 ** 20 },
      });
    }
    return knobs;
  }

  apply(values: KnobValues): void {
    const group = this.#group;
    const { hierarchicalAllreduce, hierarchicalAllgather, tcpSwitchBytes } = values as Record<
      string,
      unknown
    >;
    if (typeof tcpSwitchBytes === 'number') group?.setSwitchBytes?.(tcpSwitchBytes);
    if (!(group instanceof SwitchingGroup)) return;
    const { allreduce, allgather } = group.hierarchy;
    const isByHost = typeof hierarchicalAllreduce === 'boolean' ? hierarchicalAllreduce : allreduce;
    const gathersByHost = typeof hierarchicalAllgather === 'boolean' ? hierarchicalAllgather : allgather;
    group.use({ allreduce: isByHost, allgather: hasOneSwitch(this.#plane) ? isByHost : gathersByHost });
  }
}

/** An engine of its own connects lanes or all members, not both. */
function hasOneSwitch({ name }: Pick<DataPlane, 'name'>): boolean {
  return name === 'mpi' || name === 'gloo';
}

function choice(name: string, usual: boolean): Knob {
  return { kind: 'choice', name, choices: [usual, !usual], usual };
}
