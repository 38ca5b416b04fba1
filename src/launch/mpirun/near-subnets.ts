// Which subnets the hosts of a job share with this one. Open MPI tries every interface it finds and hangs when one
// leads nowhere (a docker0 with the same address on every host): it is better told which to use. Only where all
// hosts are in subnets of this machine can that be known from here; otherwise nothing is said, and Open MPI chooses.

import { BlockList, isIPv4 } from 'node:net';

export interface OwnAddress {
  readonly address: string;
  /** '10.0.0.1/24' */
  readonly cidr: string | null;
  readonly internal: boolean;
}

/** `hosts`: the addresses of each other host. Undefined where no subnet of this machine holds one of its addresses. */
export function nearSubnets(
  hosts: readonly (readonly string[])[],
  own: readonly OwnAddress[],
): string[] | undefined {
  const subnets = own.filter(({ internal, cidr, address }) => !internal && cidr !== null && isIPv4(address));
  const chosen = new Set<string>();
  for (const addresses of hosts) {
    const near = subnets.filter((one) =>
      // An address of our own is another machine's name for this one, or a decoy that every host has.
      addresses.some((address) => address !== one.address && isInside(address, one.cidr as string)),
    );
    if (near.length === 0) return undefined;
    for (const { cidr } of near) chosen.add(cidr as string);
  }
  return chosen.size === 0 ? undefined : [...chosen];
}

function isInside(address: string, cidr: string): boolean {
  const [net, bits] = cidr.split('/');
  if (!isIPv4(address)) return false;
  const list = new BlockList();
  list.addSubnet(net as string, Number(bits), 'ipv4');
  return list.check(address, 'ipv4');
}
