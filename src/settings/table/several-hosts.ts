// Settings that matter where the ranks are on several hosts.

import { anyText, hostAndPort, interfaceList, oneOf, seconds, secretKey, truth } from '../kinds.ts';
import type { SettingsOf } from '../types.ts';

/** Python Horovod's words for who moves bytes; they say nothing about shared memory. */
const transport = oneOf('mpi', 'gloo', 'tcp');

export const severalHostsSettings: SettingsOf<
  | 'transport'
  | 'hierarchicalAllreduce'
  | 'hierarchicalAllgather'
  | 'networkInterfaces'
  | 'peerTimeoutMs'
  | 'rendezvous'
  | 'userSecret'
  | 'mpirun'
  | 'mpiThreadsDisable'
> = {
  transport: {
    group: 'Several hosts',
    env: 'HOROVOD_TRANSPORT',
    alsoEnv: [
      { env: 'HOROVOD_CPU_OPERATIONS', kind: transport },
      { env: 'HOROVOD_CONTROLLER', kind: transport },
    ],
    flags: [
      { names: ['--transport'], operand: 'NAME' },
      { names: ['--tcp'], text: 'tcp' },
      { names: ['--mpi'], text: 'mpi' },
      { names: ['--gloo'], text: 'gloo' },
    ],
    yaml: { key: 'controller', kind: transport },
    kind: oneOf('auto', 'shm', 'tcp', 'mpi', 'gloo', 'portable'),
    default: 'auto',
    text:
      'What moves the bytes: between hosts tcp, mpi (the job is started by mpirun) or gloo; on one host shm (native ' +
      'shared memory); portable (TypeScript only); auto: the best there is.',
  },
  mpirun: {
    group: 'mpirun',
    env: 'HOROVOD_MPIRUN',
    kind: anyText,
    default: 'mpirun',
    text: 'The program that --mpi starts the job with; it has to be of the MPI the addon was built with.',
  },
  mpiThreadsDisable: {
    group: 'mpirun',
    env: 'HOROVOD_MPI_THREADS_DISABLE',
    flags: [
      { names: ['--mpi-threads-disable'], text: '1' },
      { names: ['--no-mpi-threads-disable'], text: '0', isHidden: true },
    ],
    yaml: { key: 'library_options.mpi_threads_disable' },
    kind: truth,
    default: false,
    defaultText: '0',
    text: 'MPI is called by one thread at a time, for an MPI that does not bear more.',
  },
  hierarchicalAllreduce: {
    group: 'Several hosts',
    env: 'HOROVOD_HIERARCHICAL_ALLREDUCE',
    flags: [
      { names: ['--hierarchical-allreduce'], text: '1' },
      { names: ['--no-hierarchical-allreduce'], text: '0' },
    ],
    yaml: { key: 'params.hierarchical_allreduce' },
    kind: truth,
    default: undefined,
    defaultText: 'on with more than one host',
    text: 'Reduces inside each host through shared memory first, and only then between hosts; off: all ranks over the network.',
  },
  hierarchicalAllgather: {
    group: 'Several hosts',
    env: 'HOROVOD_HIERARCHICAL_ALLGATHER',
    flags: [
      { names: ['--hierarchical-allgather'], text: '1' },
      { names: ['--no-hierarchical-allgather'], text: '0' },
    ],
    yaml: { key: 'params.hierarchical_allgather' },
    kind: truth,
    default: undefined,
    defaultText: 'on with more than one host',
    text: 'The same for allgather. Transports other than tcp and portable follow the setting for allreduce.',
  },
  networkInterfaces: {
    group: 'Several hosts',
    env: 'HOROVOD_NETWORK_INTERFACES',
    alsoEnv: [{ env: 'HOROVOD_GLOO_IFACE', kind: interfaceList }],
    flags: [{ names: ['--network-interfaces', '--network-interface'], operand: 'NAME|CIDR,…', isList: true }],
    kind: interfaceList,
    default: undefined,
    defaultText: 'all',
    text: 'Interfaces (eth0) or subnets (10.0.0.0/8) whose addresses may be used; what works of them is found by trying.',
  },
  peerTimeoutMs: {
    group: 'Several hosts',
    env: 'HOROVOD_PEER_TIMEOUT_SECONDS',
    flags: [{ names: ['--peer-timeout-seconds'], operand: 'SECONDS' }],
    kind: seconds({ zero: false }),
    default: 10_000,
    defaultText: '10',
    text: 'How long another host may be silent before it counts as lost, and the job ends.',
  },
  rendezvous: {
    group: 'Several hosts',
    env: 'HOROVOD_RENDEZVOUS',
    kind: hostAndPort,
    default: undefined,
    defaultText: 'none',
    text: 'Without a launcher: host:port where the ranks meet, the same on every host; HOROVOD_SIZE says how many they are.',
  },
  userSecret: {
    group: 'Several hosts',
    env: 'HOROVOD_SECRET_KEY',
    kind: secretKey,
    default: undefined,
    defaultText: 'none',
    text: 'Without a launcher: the secret by which the ranks know each other, 32 bytes in hex; never printed.',
    isSecret: true,
  },
};
