// Which interfaces of this machine are in a subnet with the other hosts of a job. MPI tries every interface it finds and
// hangs or gives up when one leads nowhere (a docker0 with the same address on every host), so we tell it which to use.
// That is known only where every host has an address in a subnet of this machine; otherwise MPI chooses. Connections of
// Horovod itself need none of this.

import { isIPv4 } from 'node:net';
import { networkInterfaces } from 'node:os';
import { isInSubnet } from './addresses.ts';

export interface NearInterface {
  readonly name: string;
  /** Address and length of the subnet: 10.0.0.1/24. */
  readonly cidr: string;
}

export type OwnInterfaces = Readonly<
  Record<
    string,
    | readonly { readonly address: string; readonly cidr: string | null; readonly internal: boolean }[]
    | undefined
  >
>;

/** `hosts`: the addresses of each other host. Undefined where one of them has none in a subnet of this machine. */
export function nearInterfaces(
  hosts: readonly (readonly string[])[],
  interfaces: OwnInterfaces = networkInterfaces(),
): NearInterface[] | undefined {
  const own = Object.entries(interfaces).flatMap(([name, addresses]) =>
    (addresses ?? []).flatMap(({ address, cidr, internal }) =>
      internal || cidr === null || !isIPv4(address) ? [] : [{ name, address, cidr }],
    ),
  );
  const chosen = new Map<string, NearInterface>();
  for (const addresses of hosts) {
    const near = own.filter((one) =>
      // An address that this machine has as well is no way to another.
      addresses.some((address) => address !== one.address && isInSubnet(address, one.cidr)),
    );
    if (near.length === 0) return undefined;
    for (const { name, cidr } of near) chosen.set(cidr, { name, cidr });
  }
  return chosen.size === 0 ? undefined : [...chosen.values()];
}
