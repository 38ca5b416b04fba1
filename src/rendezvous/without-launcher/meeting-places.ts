// Where the processes of a job without horovodrun meet: at the address the user gave, or at one derived from what Open
// MPI or Slurm say about their hosts. They name no port, so it is derived from the name of the job; if it is taken, a few
// others are tried.
//
// Everybody on the cluster may know that name, so the secret must come from elsewhere. In this order: HOROVOD_SECRET_KEY; a
// random key that the launcher gave to its ranks; the key of this user in the home directory. Several hosts without any of
// them are rejected, unless HOROVOD_ALLOW_INSECURE=1. Loopback is a candidate only where all ranks are on one host: on any
// other, somebody else may listen at that port.

import { createHash } from 'node:crypto';
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
import { bootId } from '../../net/machine.ts';
import { resolveHost } from '../../net/resolve-host.ts';
import { JobSecret } from '../../settings/job-secret.ts';
import type { LauncherEnvironment, SlurmPlacement } from '../../settings/launcher-environment.ts';
import type { Settings } from '../../settings/table.ts';
import type { Arrival } from './arrival.ts';
import type { MeetingPlace } from './meet.ts';
import { expandNodes, hostOfNamespace, hostsOfUri } from './open-mpi-nodes.ts';
import type { Signpost } from './signpost.ts';
import { readUserKey } from './user-key.ts';

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
  const source = `HOROVOD_RENDEZVOUS=${text}`;
  const isOneHost = isLoopback(host);
  // On other hosts the home directory may be another one, in a container for example: the user's key is of no use there.
  const secret = isOneHost
    ? chooseSecret(settings, source, { key: `HOROVOD_RENDEZVOUS ${text}`, isOneHost })
    : givenSecret(settings, source, `HOROVOD_RENDEZVOUS ${text}`);
  return {
    own,
    serves,
    listenOn,
    ports: [port],
    candidates: [host === 'localhost' ? { host: '127.0.0.1', port } : address],
    networkInterfaces: settings.networkInterfaces ?? [],
    secret: secret.secret,
    source,
    advice:
      `One process of the job has to run on ${host}, and port ${port} has to be free there and open to the others` +
      `${launcher.rank === undefined ? '' : ' (rank 0 is the one that listens)'}.`,
    notice: secret.notice,
  };
}

const otherWay =
  'To say where the ranks meet, set HOROVOD_RENDEZVOUS=host:port on all of them, with the host of rank 0 and a free port.';

function openMpiPlace(launcher: Known<'open-mpi'>, settings: Settings): NoticedPlace {
  const { hnpUri, nodeRegex, secret } = launcher.openMpi;
  const jobKey = jobName(launcher.jobKey, 'mpirun');
  const key = `Open MPI ${jobKey} ${hnpUri ?? ''}`;
  const hosts = [...hostsOfUri(hnpUri ?? ''), ...hostOfNamespace(jobKey), ...expandNodes(nodeRegex ?? '')];
  const isOneHost = launcher.localSize === launcher.size;
  const place = derivedPlace(launcher, settings, {
    hosts,
    isOneHost,
    launcherSecret: secret,
    key,
    source: 'the environment of mpirun (OMPI_MCA_orte_hnp_uri, OMPI_MCA_orte_node_regex)',
  });
  if (isOneHost) return place;
  const mpirun = hostsOfUri(hnpUri ?? '').filter((host) => !isLoopback(host));
  return { ...place, signpost: openMpiSignpost(launcher, mpirun, key) };
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
  return { role: localRank === 0 ? 'keep' : 'ask', ports, addresses: at(mpirun) };
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
    isOneHost: slurm.stepNodeList.length === 1,
    launcherSecret: undefined,
    key,
    source: 'the environment of srun (SLURM_STEP_NODELIST)',
  });
}

interface Derived {
  readonly hosts: readonly string[];
  readonly isOneHost: boolean;
  /** A random one that only the launcher and its ranks know. */
  readonly launcherSecret: JobSecret | undefined;
  readonly key: string;
  readonly source: string;
}

function derivedPlace(
  launcher: Known<'open-mpi'> | Known<'slurm'> | Known<'pmi'>,
  settings: Settings,
  { hosts, source, ...derived }: Derived,
): NoticedPlace {
  const { key, isOneHost } = derived;
  const ports = derivePorts(key);
  const others = [...new Set(hosts)].filter((host) => !isLoopback(host)).slice(0, maxHosts);
  if (others.length === 0 && !isOneHost && launcher.rank !== 0)
    throw new HorovodError('ERR_HVD_RENDEZVOUS', `${source} does not say where rank 0 may be. ${otherWay}`);
  const { secret, notice, advice = '' } = chooseSecret(settings, source, derived);
  return {
    own: introduce({ ...launcher, jobKey: undefined }),
    serves: launcher.rank === 0 ? 'yes' : 'no',
    listenOn: isOneHost ? 'loopback' : 'all',
    ports,
    candidates: (isOneHost ? ['127.0.0.1'] : others).flatMap((host) =>
      ports.map((port): Address => ({ host, port })),
    ),
    networkInterfaces: settings.networkInterfaces ?? [],
    secret,
    source,
    advice: `${otherWay}${advice}`,
    notice,
  };
}

interface ChosenSecret {
  readonly secret: JobSecret;
  readonly notice?: string | undefined;
  /** What else may be wrong if the ranks do not find each other. */
  readonly advice?: string;
}

/** Throws ERR_HVD_SETTING where several hosts have none. */
function chooseSecret(
  settings: Settings,
  source: string,
  { key, isOneHost, launcherSecret }: Pick<Derived, 'key' | 'isOneHost'> & Partial<Derived>,
): ChosenSecret {
  const { userSecret, allowInsecure } = settings;
  if (userSecret !== undefined || launcherSecret !== undefined || allowInsecure)
    return givenSecret(settings, source, key, launcherSecret);
  const own = readUserKey();
  if ('secret' in own)
    return {
      secret: own.secret.derive(key),
      advice:
        ' The secret of this job comes from ~/.horovod/key: if the hosts do not share the home directory, set ' +
        'HOROVOD_SECRET_KEY to the same 64 hex digits on all of them.',
    };
  if (!isOneHost) throw noSecret(source, ` ${own.problem}.`);
  return {
    secret: JobSecret.fromText(key),
    notice:
      `the secret of this job is derived from public data, because ${own.problem}: other users of this machine can take ` +
      'part in the job. To keep them out, set HOROVOD_SECRET_KEY (64 hex digits).',
  };
}

/** One that the user or the launcher has given, or none at all where that is allowed. */
function givenSecret(
  { userSecret, allowInsecure }: Settings,
  source: string,
  key: string,
  launcherSecret?: JobSecret,
): ChosenSecret {
  const secret = userSecret?.derive(key) ?? launcherSecret;
  if (secret !== undefined) return { secret };
  if (!allowInsecure) throw noSecret(source, '');
  return {
    secret: JobSecret.fromText(key),
    notice:
      'HOROVOD_ALLOW_INSECURE=1, and HOROVOD_SECRET_KEY is not set: everybody who can reach the ports of this job can take ' +
      'part in it.',
  };
}

function noSecret(source: string, problem: string): HorovodError {
  return new HorovodError(
    'ERR_HVD_SETTING',
    `this job may have several hosts (${source}), but no secret by which its ranks know each other.${problem} Set ` +
      'HOROVOD_SECRET_KEY to the same 64 hex digits on all ranks (openssl rand -hex 32). If all ranks are on one machine, ' +
      'HOROVOD_RENDEZVOUS=127.0.0.1:port needs none. HOROVOD_ALLOW_INSECURE=1 goes on without a secret: everybody who can ' +
      'reach the ports of the job can then take part in it.',
  );
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
