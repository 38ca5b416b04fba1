// Where the processes of a job without horovodrun meet: at the address the user gave, or at one derived from what Open
// MPI or Slurm say about their hosts. They name no port, so it is derived from the name of the job; if it is taken, a few
// others are tried.

import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { isIP } from 'node:net';
import { hostname } from 'node:os';
import { HorovodError } from '../../errors.ts';
import {
  type Address,
  formatAddress,
  isLocalAddress,
  isLoopback,
  parseAddress,
} from '../../net/addresses.ts';
import { resolveHost } from '../../net/resolve-host.ts';
import { JobSecret } from '../../settings/job-secret.ts';
import type { LauncherEnvironment, SlurmPlacement } from '../../settings/launcher-environment.ts';
import type { Settings } from '../../settings/table.ts';
import type { Arrival } from './arrival.ts';
import type { MeetingPlace } from './meet.ts';
import { expandNodes, hostOfNamespace, hostsOfUri } from './open-mpi-nodes.ts';
import type { Signpost } from './signpost.ts';

type Known<Kind> = Extract<LauncherEnvironment, { kind: Kind }>;

export interface NoticedPlace extends MeetingPlace {
  /** A remark for the user, printed once. */
  readonly notice: string | undefined;
  /** Set where ranks may not know where rank 0 is. */
  readonly signpost?: Signpost | undefined;
}

export async function meetingPlace(
  launcher: Known<'rendezvous'> | Known<'open-mpi'> | Known<'slurm'>,
  settings: Settings,
): Promise<NoticedPlace> {
  switch (launcher.kind) {
    case 'rendezvous':
      return givenPlace(launcher, settings);
    case 'open-mpi':
      return openMpiPlace(launcher, settings);
    case 'slurm':
      return slurmPlace(launcher, launcher.slurm, settings);
  }
}

/** Who this process is, for those it meets. */
export function introduce({
  rank,
  size,
  jobKey,
}: Pick<Known<'rendezvous'>, 'rank' | 'size' | 'jobKey'>): Arrival {
  const host = hostname();
  return { rank, size, job: jobKey, host, machine: `${host} ${bootId()}`, pid: process.pid };
}

/** HOROVOD_RENDEZVOUS: any process of that machine serves, the first; rank 0 where ranks are given. */
async function givenPlace(launcher: Known<'rendezvous'>, settings: Settings): Promise<NoticedPlace> {
  const address = settings.rendezvous === undefined ? undefined : parseAddress(settings.rendezvous);
  if (address === undefined) {
    throw new HorovodError(
      'ERR_HVD_SETTING',
      'HOROVOD_RENDEZVOUS must be host:port, with a host of the job.',
    );
  }
  const { host, port } = address;
  const own = introduce(launcher);
  const isHere = launcher.rank === undefined && (await isThisMachine(host, settings.startTimeoutMs));
  const serves = isHere ? 'if first' : launcher.rank === 0 ? 'yes' : 'no';
  // A name may stand for 127.0.1.1 on the machine that has it: there, others could not reach it.
  const listenOn =
    host === 'localhost' ? 'loopback' : isIP(host) !== 0 && isLocalAddress(host) ? { address: host } : 'all';
  const text = formatAddress(address);
  const isOpen = serves !== 'no' && settings.userSecret === undefined && !isLoopback(host);
  return {
    own,
    serves,
    listenOn,
    ports: [port],
    candidates: [host === 'localhost' ? { host: '127.0.0.1', port } : address],
    networkInterfaces: settings.networkInterfaces ?? [],
    secret: settings.userSecret?.derive(text) ?? JobSecret.fromText(`HOROVOD_RENDEZVOUS ${text}`),
    source: `HOROVOD_RENDEZVOUS=${text}`,
    advice:
      `One process of the job has to run on ${host}, and port ${port} has to be free there and open to the others` +
      `${launcher.rank === undefined ? '' : ' (rank 0 is the one that listens)'}.`,
    notice: isOpen
      ? 'HOROVOD_SECRET_KEY is not set: whoever can reach the ports of this job can take part in it. ' +
        'Set it to the same 64 hex digits on all hosts (openssl rand -hex 32).'
      : undefined,
  };
}

const otherWay =
  'To say where the ranks meet, set HOROVOD_RENDEZVOUS=host:port on all of them, with the host of rank 0 and a free port.';

function openMpiPlace(launcher: Known<'open-mpi'>, settings: Settings): NoticedPlace {
  const { hnpUri, nodeRegex, secret } = launcher.openMpi;
  const jobKey = jobName(launcher.jobKey, 'mpirun');
  const key = `Open MPI ${jobKey} ${hnpUri ?? ''}`;
  const hosts = [...hostsOfUri(hnpUri ?? ''), ...hostOfNamespace(jobKey), ...expandNodes(nodeRegex ?? '')];
  const place = derivedPlace(launcher, settings, {
    hosts,
    secret: secret ?? JobSecret.fromText(key),
    key,
    source: 'the environment of mpirun (OMPI_MCA_orte_hnp_uri, OMPI_MCA_orte_node_regex)',
    isOpen: secret === undefined,
  });
  return { ...place, signpost: openMpiSignpost(launcher, hostsOfUri(hnpUri ?? ''), key) };
}

/** The first rank beside mpirun is rank 0, or rank 0 is elsewhere. */
function openMpiSignpost(
  { rank, localRank }: Known<'open-mpi'>,
  mpirun: readonly string[],
  key: string,
): Signpost | undefined {
  const ports = derivePorts(`${key} signpost`);
  const at = (hosts: readonly string[]) => hosts.flatMap((host) => ports.map((port) => ({ host, port })));
  const isBesideMpirun = mpirun.some((host) => isLocalAddress(host));
  if (rank === 0) return isBesideMpirun ? undefined : { role: 'announce', ports, addresses: at(mpirun) };
  if (!isBesideMpirun) return undefined;
  return { role: localRank === 0 ? 'keep' : 'ask', ports, addresses: at(['127.0.0.1']) };
}

export function slurmPlace(
  launcher: Known<'slurm'> | Known<'pmi'>,
  slurm: SlurmPlacement,
  settings: Settings,
): NoticedPlace {
  const key = `Slurm ${jobName(launcher.jobKey, 'srun')} ${slurm.stepNodeList.join(' ')}`;
  const { launchNodeAddress: launchNode } = slurm;
  const [first, ...others] = slurm.stepNodeList;
  const hosts = [first, launchNode, ...others].filter((host) => host !== undefined);
  return derivedPlace(launcher, settings, {
    hosts,
    secret: JobSecret.fromText(key),
    key,
    source: 'the environment of srun (SLURM_STEP_NODELIST)',
    isOpen: true,
  });
}

interface Derived {
  readonly hosts: readonly string[];
  readonly secret: JobSecret;
  readonly key: string;
  readonly source: string;
  /** Whether others could know the secret. */
  readonly isOpen: boolean;
}

function derivedPlace(
  launcher: Known<'open-mpi'> | Known<'slurm'> | Known<'pmi'>,
  settings: Settings,
  { hosts, secret, key, source, isOpen }: Derived,
): NoticedPlace {
  const ports = derivePorts(key);
  const unique = [...new Set(['127.0.0.1', ...hosts])].slice(0, maxHosts);
  const { userSecret } = settings;
  return {
    own: introduce({ ...launcher, jobKey: undefined }),
    serves: launcher.rank === 0 ? 'yes' : 'no',
    listenOn: 'all',
    ports,
    candidates: unique.flatMap((host) => ports.map((port): Address => ({ host, port }))),
    networkInterfaces: settings.networkInterfaces ?? [],
    secret: userSecret?.derive(key) ?? secret,
    source,
    advice: otherWay,
    notice:
      isOpen && userSecret === undefined && launcher.rank === 0
        ? 'the secret of this job is derived from its number, which other users of the cluster may know. ' +
          'To keep them out, set HOROVOD_SECRET_KEY (64 hex digits).'
        : undefined,
  };
}

/** Below the ports that the system gives to clients, so that they are rarely taken. */
const [firstPort, portCount] = [15_000, 17_000];
const triedPorts = 3;
/** Rank 0 is on one of the first hosts; more would only be noise on the network. */
const maxHosts = 64;

export function derivePorts(key: string): number[] {
  const digest = createHash('sha256').update(key).digest();
  return Array.from(
    { length: triedPorts },
    (_, place) => firstPort + (digest.readUInt32BE(4 * place) % portCount),
  );
}

function jobName(key: string | undefined, launcher: string): string {
  if (key !== undefined) return key;
  throw new HorovodError(
    'ERR_HVD_RENDEZVOUS',
    `the environment does not say to which job of ${launcher} this process belongs: something has changed it. ${otherWay}`,
  );
}

async function isThisMachine(host: string, timeoutMs: number): Promise<boolean> {
  if (isLoopback(host)) return true;
  return (await resolveHost(host, timeoutMs)).some((address) => isLocalAddress(address));
}

/** Tells machines of the same name apart. */
function bootId(): string {
  try {
    return readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
  } catch {
    return '';
  }
}
