// Flags and config keys of Python Horovod that this version does not support. Those that would change the result of a
// job are rejected; those that only tune machinery that does not exist here are accepted with a notice. None is ignored
// silently.

export interface ForeignFlag {
  readonly names: readonly string[];
  readonly takesValue: boolean;
  readonly yaml?: string;
  /** The environment variable it stands for. If set, it gets a notice. */
  readonly env?: string;
  readonly treatment: 'rejected' | 'without effect';
  /** Completes '--flag: …'. */
  readonly reason: string;
}

export const foreignFlags: readonly ForeignFlag[] = [
  {
    names: ['--jsrun'],
    takesValue: false,
    treatment: 'rejected',
    reason: 'jsrun (LSF) is not supported; use --mpi, or ssh, which is the default',
  },
  ...[
    ['--min-np', '--min-num-proc'],
    ['--max-np', '--max-num-proc'],
    ['--slots-per-host'],
    ['--elastic-timeout'],
    ['--reset-limit'],
    ['--blacklist-cooldown-range'],
    ['--host-discovery-script'],
  ].map(
    (names): ForeignFlag => ({
      names,
      takesValue: true,
      treatment: 'rejected',
      reason: 'elastic training is not supported yet',
    }),
  ),
  {
    names: ['--torus-allreduce'],
    takesValue: false,
    yaml: 'params.torus_allreduce',
    env: 'HOROVOD_TORUS_ALLREDUCE',
    treatment: 'rejected',
    reason: 'torus allreduce (NCCL) is not supported; --hierarchical-allreduce is, and is the default',
  },
  {
    names: ['--no-torus-allreduce'],
    takesValue: false,
    treatment: 'without effect',
    reason: 'torus allreduce is always off',
  },
  {
    names: ['--disable-cache'],
    takesValue: false,
    treatment: 'without effect',
    reason: 'horovodrun checks the hosts at every start and caches nothing',
  },
  {
    names: ['--cache-capacity'],
    takesValue: true,
    yaml: 'params.cache_capacity',
    env: 'HOROVOD_CACHE_CAPACITY',
    treatment: 'without effect',
    reason: 'there is no response cache',
  },
  {
    names: ['--num-nccl-streams'],
    takesValue: true,
    yaml: 'library_options.num_nccl_streams',
    env: 'HOROVOD_NUM_NCCL_STREAMS',
    treatment: 'without effect',
    reason: 'there are no GPU streams',
  },
  {
    names: ['--thread-affinity'],
    takesValue: true,
    yaml: 'library_options.thread_affinity',
    env: 'HOROVOD_THREAD_AFFINITY',
    treatment: 'without effect',
    reason: 'single threads are not bound to cores; --pin-cores binds each rank to its share of the cores',
  },
  {
    names: ['--gloo-timeout-seconds'],
    takesValue: true,
    yaml: 'library_options.gloo_timeout_seconds',
    env: 'HOROVOD_GLOO_TIMEOUT_SECONDS',
    treatment: 'without effect',
    reason: 'use --timeout-seconds',
  },
];
