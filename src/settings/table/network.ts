// What moves the bytes, and how hosts reach each other.

import type { HorovodError } from '../../errors.ts';
import type { JobSecret } from '../job-secret.ts';
import { anyText, boolean, hostAndPort, interfaceList, oneOf, seconds, secretKey } from '../kinds.ts';
import { inGroup, onOff, type SettingsOf, settingError } from '../setting.ts';

/**
 * shm and portable: ranks of one host through memory. tcp, mpi, gloo: what moves bytes between hosts (with all ranks
 * on one host: between them, over the loopback interface). portable also works across hosts.
 */
export type TransportChoice = 'auto' | 'shm' | 'tcp' | 'mpi' | 'gloo' | 'portable';

export interface NetworkSettings {
  readonly transport: TransportChoice;
  /** Undefined: on if the job has more than one host. */
  readonly hierarchicalAllreduce: boolean | undefined;
  readonly hierarchicalAllgather: boolean | undefined;
  /** Tensor bytes between hosts are encrypted. */
  readonly encrypt: boolean;
  /** Names of interfaces, or subnets (CIDR), whose addresses may be used; undefined: all. */
  readonly networkInterfaces: readonly string[] | undefined;
  /** How long another host may be silent. */
  readonly peerTimeoutMs: number;
  /** host:port where the ranks of a job without a launcher meet. */
  readonly rendezvous: string | undefined;
  /** The user's secret for a job without a launcher. */
  readonly userSecret: JobSecret | undefined;
  /** Several hosts without a launcher may do without a secret. */
  readonly allowInsecure: boolean;
  readonly mpirun: string;
  readonly mpiThreadsDisable: boolean;
}

/** The error for a job with this transport that is to be encrypted. */
export function cannotEncrypt(transport: 'mpi' | 'gloo'): HorovodError {
  const owner = transport === 'mpi' ? 'the MPI library' : 'libgloo';
  return settingError(
    `--encrypt (HOROVOD_ENCRYPT=1) does not work with --${transport}: ${owner} makes its own connections between hosts, which Horovod ` +
      'cannot encrypt. Use --transport tcp (the default between hosts) or portable, or encrypt the network itself.',
  );
}

/** The choices of Python Horovod, whose settings do not mention shared memory. */
const pythonTransport = oneOf('mpi', 'gloo', 'tcp');

export const networkSettings: SettingsOf<NetworkSettings> = {
  ...inGroup('Transport and network', {
    transport: {
      env: 'HOROVOD_TRANSPORT',
      alsoEnv: [
        { env: 'HOROVOD_CPU_OPERATIONS', kind: pythonTransport },
        { env: 'HOROVOD_CONTROLLER', kind: pythonTransport },
      ],
      flags: [
        { names: ['--transport'], operand: 'NAME' },
        { names: ['--tcp'], text: 'tcp' },
        { names: ['--mpi'], text: 'mpi' },
        { names: ['--gloo'], text: 'gloo' },
      ],
      yaml: { key: 'controller', kind: pythonTransport },
      kind: oneOf('auto', 'shm', 'tcp', 'mpi', 'gloo', 'portable'),
      default: 'auto',
      text:
        'What moves the tensors. Between hosts: tcp, mpi (mpirun starts the job) or gloo. On one host: shm (native shared ' +
        'memory). Anywhere: portable (TypeScript only). auto uses the best one available. --tcp, --mpi and --gloo are ' +
        'short for --transport tcp, mpi and gloo.',
    },
    hierarchicalAllreduce: {
      env: 'HOROVOD_HIERARCHICAL_ALLREDUCE',
      flags: [
        { names: ['--hierarchical-allreduce'], text: '1' },
        { names: ['--no-hierarchical-allreduce'], text: '0' },
      ],
      yaml: { key: 'params.hierarchical_allreduce' },
      kind: boolean,
      defaultText: 'on with more than one host',
      text: 'Reduce within each host through shared memory first, then between hosts. If off, all ranks use the network.',
    },
    hierarchicalAllgather: {
      env: 'HOROVOD_HIERARCHICAL_ALLGATHER',
      flags: [
        { names: ['--hierarchical-allgather'], text: '1' },
        { names: ['--no-hierarchical-allgather'], text: '0' },
      ],
      yaml: { key: 'params.hierarchical_allgather' },
      kind: boolean,
      defaultText: 'on with more than one host',
      text: 'The same for allgather. Transports other than tcp and portable use the allreduce setting for both.',
    },
    encrypt: {
      env: 'HOROVOD_ENCRYPT',
      flags: onOff('encrypt'),
      yaml: { key: 'encrypt' },
      kind: boolean,
      default: false,
      text:
        'Encrypt and authenticate tensors between hosts (AES-256-GCM). Off by default: they travel in the clear. With tcp and ' +
        'portable only; mpi and gloo make their own connections and reject it.',
    },
    networkInterfaces: {
      env: 'HOROVOD_NETWORK_INTERFACES',
      alsoEnv: [{ env: 'HOROVOD_GLOO_IFACE', kind: interfaceList }],
      flags: [
        { names: ['--network-interfaces', '--network-interface'], operand: 'NAME|CIDR,…', joinedWith: ',' },
      ],
      kind: interfaceList,
      defaultText: 'all',
      text: 'Network interfaces (eth0) or subnets (10.0.0.0/8) to use. Of their addresses, Horovod picks those that work.',
    },
    peerTimeoutMs: {
      env: 'HOROVOD_PEER_TIMEOUT_SECONDS',
      flags: [{ names: ['--peer-timeout-seconds'], operand: 'SECONDS' }],
      kind: seconds({ zero: false }),
      default: 10_000,
      text: 'Time after which a silent host counts as lost and the job fails.',
    },
    rendezvous: {
      env: 'HOROVOD_RENDEZVOUS',
      kind: hostAndPort,
      text: 'Without a launcher: host:port where the ranks meet, the same on every host. HOROVOD_SIZE is the number of ranks.',
    },
    userSecret: {
      env: 'HOROVOD_SECRET_KEY',
      kind: secretKey,
      text: 'Without a launcher: the secret with which the ranks authenticate each other, 32 bytes in hex. Never printed.',
      isSecret: true,
    },
    allowInsecure: {
      env: 'HOROVOD_ALLOW_INSECURE',
      kind: boolean,
      default: false,
      text:
        'Without a launcher: let ranks on several hosts meet without a secret. Everybody who can reach their ports can then ' +
        'take part in the job.',
    },
  }),
  ...inGroup('mpirun', {
    mpirun: {
      env: 'HOROVOD_MPIRUN',
      kind: anyText,
      default: 'mpirun',
      text: 'Program with which --mpi starts the job. It must belong to the MPI that the addon was built for.',
    },
    mpiThreadsDisable: {
      env: 'HOROVOD_MPI_THREADS_DISABLE',
      flags: onOff('mpi-threads-disable'),
      yaml: { key: 'library_options.mpi_threads_disable' },
      kind: boolean,
      default: false,
      text: 'Call MPI from one thread at a time, for an MPI library without full thread support.',
    },
  }),
};
