// Tunables that belong to the group of all ranks: by host or flat, and up to which size tcp takes the way for small tensors. The
// way through hosts is fixed when a group is opened; to try others, it is opened once for each. Other process sets stay as
// they are.

import { SwitchingGroup, waysThroughHosts } from '../../transport/group/switching-group.ts';
import type { GroupSpec, Hierarchy, Transport, TransportGroup } from '../../transport/transport.ts';
import type { Tunable, TunableValues } from './tunables.ts';

/** As in native/src/tcp. */
const defaultSwitchBytes = 64 * 2 ** 10;

export class GroupTunables {
  readonly #transport: Pick<Transport, 'name' | 'openGroup'>;
  readonly #ways: readonly Hierarchy[];
  #group: TransportGroup | undefined;

  /** `ways`: those there are to try, the default one first. */
  constructor(transport: Pick<Transport, 'name' | 'openGroup'>, ways: readonly Hierarchy[]) {
    this.#transport = transport;
    this.#ways = ways;
  }

  /** `given`: names of settings that stay. */
  static of(
    transport: Transport,
    hostOf: readonly number[],
    defaults: Hierarchy,
    given: readonly string[],
  ): GroupTunables {
    const fixed = {
      allreduce: given.includes('hierarchicalAllreduce'),
      allgather: given.includes('hierarchicalAllgather'),
    };
    return new GroupTunables(transport, waysThroughHosts(hostOf, defaults, fixed, hasOneSwitch(transport)));
  }

  readonly open = async (spec: GroupSpec): Promise<TransportGroup> => {
    const openGroup = this.#transport.openGroup.bind(this.#transport);
    this.#group =
      this.#ways.length > 1 ? await SwitchingGroup.open(openGroup, spec, this.#ways) : await openGroup(spec);
    return this.#group;
  };

  get tunables(): Tunable[] {
    const tunables: Tunable[] = [];
    const [defaults] = this.#ways;
    if (defaults !== undefined && this.#ways.length > 1) {
      const { allreduce, allgather } = defaults;
      tunables.push(choice('hierarchicalAllreduce', allreduce));
      if (!hasOneSwitch(this.#transport)) tunables.push(choice('hierarchicalAllgather', allgather));
    }
    if (this.#transport.name === 'tcp' && this.#group?.setSwitchBytes !== undefined) {
      tunables.push({
        kind: 'size',
        name: 'tcpSwitchBytes',
        unit: 'bytes',
        defaultValue: defaultSwitchBytes,
        min: 16 * 2 ** 10,
        max: 2 * 2 ** 20,
      });
    }
    return tunables;
  }

  apply(values: TunableValues): void {
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
    group.use({ allreduce: isByHost, allgather: hasOneSwitch(this.#transport) ? isByHost : gathersByHost });
  }
}

/** These connect either lanes or all members, not both. */
function hasOneSwitch({ name }: Pick<Transport, 'name'>): boolean {
  return name === 'mpi' || name === 'gloo';
}

function choice(name: string, defaultValue: boolean): Tunable {
  return { kind: 'choice', name, choices: [defaultValue, !defaultValue], defaultValue };
}
