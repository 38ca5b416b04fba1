// Where ranks with a process manager (PMI) meet: through it rank 0 sends the others its addresses and a secret.

import { HorovodError } from '../../errors.ts';
import { isLoopback, listLocalAddresses } from '../../net/addresses.ts';
import { loopbackId } from '../../net/machine.ts';
import type { WaitOptions } from '../../net/wait.ts';
import { JobSecret } from '../../settings/job-secret.ts';
import type { LauncherEnvironment } from '../../settings/launcher-environment.ts';
import type { Settings } from '../../settings/table.ts';
import { derivePorts, introduce, type NoticedPlace, slurmPlace } from './meeting-places.ts';
import { exchangeOverPmi, openPmi, returnPmi } from './pmi.ts';

interface Invitation {
  readonly hosts: readonly string[];
  /** Equal on ranks that reach rank 0 at 127.0.0.1. */
  readonly loopback: string;
  readonly ports: readonly number[];
  readonly secret: string;
}

/**
 * What rank 0 sent at the first init() of this process, by descriptor. The connection is good for one exchange only,
 * and belongs to the process, whatever contexts come and go in it.
 */
const invitations = new Map<number, Promise<Invitation>>();

export async function pmiMeetingPlace(
  launcher: Extract<LauncherEnvironment, { kind: 'pmi' }>,
  settings: Settings,
  wait: WaitOptions,
): Promise<NoticedPlace> {
  const { rank, pmi, slurm } = launcher;
  const isForMpi = settings.transport === 'mpi';
  // Slurm's process manager talks to one client only, which is going to be MPI.
  if (slurm !== undefined && isForMpi) return slurmPlace(launcher, slurm, settings);
  if (pmi.fd === undefined) {
    throw new HorovodError(
      'ERR_HVD_RENDEZVOUS',
      `rank ${rank}: PMI_RANK is set, but no PMI_FD to reach the process manager by. Set HOROVOD_RENDEZVOUS=host:port ` +
        'on all ranks, with the host of rank 0 and a free port, to say where they meet.',
    );
  }
  let invitation = invitations.get(pmi.fd);
  if (invitation === undefined) {
    invitation = exchange(pmi.fd, rank, settings, !isForMpi, wait);
    invitations.set(pmi.fd, invitation);
  }
  const { hosts, loopback, ports, secret } = await invitation;
  const isHere = loopback === loopbackId();
  const reachable = hosts.filter((host) => isHere || !isLoopback(host));
  return {
    own: introduce({ ...launcher, jobKey: undefined }),
    serves: rank === 0 ? 'yes' : 'no',
    listenOn: 'all',
    ports,
    candidates: reachable.flatMap((host) => ports.map((port) => ({ host, port }))),
    networkInterfaces: settings.networkInterfaces ?? [],
    secret: JobSecret.fromHex(secret) ?? JobSecret.fromText(secret),
    source: 'what rank 0 sent through the process manager (PMI)',
    advice: 'Can the hosts of the job reach each other (firewall, --network-interfaces)?',
    notice: undefined,
  };
}

async function exchange(
  fd: number,
  rank: number,
  settings: Settings,
  finalizes: boolean,
  wait: WaitOptions,
): Promise<Invitation> {
  let text: string | undefined;
  if (rank === 0) {
    const secret = JobSecret.generate().revealForEnvironment();
    const hosts = listLocalAddresses(settings.networkInterfaces);
    text = JSON.stringify({
      hosts,
      loopback: loopbackId(),
      ports: derivePorts(secret),
      secret,
    } satisfies Invitation);
  }
  const socket = openPmi(fd);
  let isOver = false;
  try {
    const told = await exchangeOverPmi(socket, { rank, text, finalizes }, wait);
    isOver = finalizes;
    return JSON.parse(told) as Invitation;
  } finally {
    if (isOver) socket.destroy();
    else returnPmi(socket);
  }
}
