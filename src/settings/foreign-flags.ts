// Flags and config keys of Python Horovod that this version does not support. Those that would change the result of a
// job are rejected; those that only tune machinery that does not exist here are accepted with a notice. None is ignored
// silently.

export interface ForeignFlag {
  readonly names: readonly string[];
  /** False for a switch. */
  readonly takesValue: boolean;
  readonly yaml?: string;
  /** The environment variable it stands for. If set, it gets a notice. */
  readonly env?: string;
  readonly treatment: 'rejected' | 'without effect';
  /** Completes '--flag: …'. */
  readonly reason: string;
}

type Details = Partial<Pick<ForeignFlag, 'takesValue' | 'yaml' | 'env'>>;

function rejected(names: readonly string[], reason: string, details: Details = {}): ForeignFlag {
  return { names, reason, takesValue: true, treatment: 'rejected', ...details };
}

function withoutEffect(names: readonly string[], reason: string, details: Details = {}): ForeignFlag {
  return { names, reason, takesValue: true, treatment: 'without effect', ...details };
}

export const foreignFlags: readonly ForeignFlag[] = [
  rejected(['--jsrun'], 'jsrun (LSF) is not supported; use --mpi, or ssh, which is the default', {
    takesValue: false,
  }),
  rejected(
    ['--torus-allreduce'],
    'torus allreduce (NCCL) is not supported; --hierarchical-allreduce is, and is the default',
    { takesValue: false, yaml: 'params.torus_allreduce', env: 'HOROVOD_TORUS_ALLREDUCE' },
  ),
  withoutEffect(['--no-torus-allreduce'], 'torus allreduce is always off', { takesValue: false }),
  withoutEffect(['--disable-cache'], 'horovodrun checks the hosts at every start and caches nothing', {
    takesValue: false,
  }),
  withoutEffect(['--cache-capacity'], 'there is no response cache', {
    yaml: 'params.cache_capacity',
    env: 'HOROVOD_CACHE_CAPACITY',
  }),
  withoutEffect(['--num-nccl-streams'], 'there are no GPU streams', {
    yaml: 'library_options.num_nccl_streams',
    env: 'HOROVOD_NUM_NCCL_STREAMS',
  }),
  withoutEffect(
    ['--thread-affinity'],
    'single threads are not bound to cores; --pin-cores binds each rank to its share of the cores',
    { yaml: 'library_options.thread_affinity', env: 'HOROVOD_THREAD_AFFINITY' },
  ),
  withoutEffect(['--gloo-timeout-seconds'], 'use --timeout-seconds', {
    yaml: 'library_options.gloo_timeout_seconds',
    env: 'HOROVOD_GLOO_TIMEOUT_SECONDS',
  }),
];
