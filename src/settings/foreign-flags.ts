// Flags and config keys of Python Horovod that this version does not honour. What would change the outcome of a
// job is refused with a sentence; what only tunes machinery that does not exist here is accepted with a notice.
// Nothing is ignored silently.

export interface ForeignFlag {
  readonly names: readonly string[];
  /** True: the flag has a value. */
  readonly takesValue: boolean;
  readonly yaml?: string;
  /** Keys that mean nothing without another key, which is refused itself. */
  readonly isDependent?: true;
  /** The environment variable it stands for; set in the environment, it gets a notice. */
  readonly env?: string;
  readonly treatment: 'refused' | 'accepted';
  /** Completes '--flag: …'. */
  readonly reason: string;
}

const elastic = 'elastic jobs are not in this version';
const torus =
  'torus allreduce (NCCL) is not in this version; --hierarchical-allreduce is, and is the default';

type Extras = Partial<Pick<ForeignFlag, 'yaml' | 'isDependent' | 'env'>>;
const refusedSwitch = (names: readonly string[], reason: string, extras: Extras = {}): ForeignFlag => ({
  ...{ names, reason, takesValue: false, treatment: 'refused' },
  ...extras,
});
const refusedValue = (names: readonly string[], reason: string, extras: Extras = {}): ForeignFlag => ({
  ...refusedSwitch(names, reason, extras),
  takesValue: true,
});
const acceptedSwitch = (names: readonly string[], reason: string, extras: Extras = {}): ForeignFlag => ({
  ...refusedSwitch(names, reason, extras),
  treatment: 'accepted',
});
const acceptedValue = (names: readonly string[], reason: string, extras: Extras = {}): ForeignFlag => ({
  ...refusedValue(names, reason, extras),
  treatment: 'accepted',
});

export const foreignFlags: readonly ForeignFlag[] = [
  refusedSwitch(['--jsrun'], 'jsrun (LSF) is not in this version; use --mpi, or ssh, which is the default'),
  refusedValue(['--min-np', '--min-num-proc'], elastic),
  refusedValue(['--max-np', '--max-num-proc'], elastic),
  refusedValue(['--slots-per-host'], elastic),
  refusedValue(['--elastic-timeout'], elastic),
  refusedValue(['--reset-limit'], elastic),
  refusedValue(['--blacklist-cooldown-range'], elastic),
  refusedValue(['--host-discovery-script'], elastic),
  refusedSwitch(['--torus-allreduce'], torus, {
    yaml: 'params.torus_allreduce',
    env: 'HOROVOD_TORUS_ALLREDUCE',
  }),
  acceptedSwitch(['--no-torus-allreduce'], 'it is off in any case'),
  acceptedSwitch(['--disable-cache'], 'hosts are checked at every start, and nothing is cached'),
  acceptedValue(['--cache-capacity'], 'agreement needs no response cache', {
    yaml: 'params.cache_capacity',
    env: 'HOROVOD_CACHE_CAPACITY',
  }),
  acceptedValue(['--num-nccl-streams'], 'there are no GPU streams', {
    yaml: 'library_options.num_nccl_streams',
    env: 'HOROVOD_NUM_NCCL_STREAMS',
  }),
  acceptedValue(
    ['--thread-affinity'],
    'threads are not pinned one by one; --pin-cores gives each rank its cores',
    {
      yaml: 'library_options.thread_affinity',
      env: 'HOROVOD_THREAD_AFFINITY',
    },
  ),
  acceptedValue(['--gloo-timeout-seconds'], 'use --timeout-seconds', {
    yaml: 'library_options.gloo_timeout_seconds',
    env: 'HOROVOD_GLOO_TIMEOUT_SECONDS',
  }),
];
