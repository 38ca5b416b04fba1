// What horovodrun tells each rank: who it is and where the others are.

import type { JobSecret } from '../job-secret.ts';
import { addressList, anyText, identifier, integer, secretKey } from '../kinds.ts';
import { inGroup, type SettingsOf } from '../setting.ts';

export interface GivenSettings {
  readonly rank: number;
  readonly size: number;
  readonly localRank: number;
  readonly localSize: number;
  readonly crossRank: number;
  readonly crossSize: number;
  /** How many cores the ranks of this host have together, if the launcher has assigned cores. */
  readonly localCores: number | undefined;
  readonly hostname: string;
  /** Where horovodrun's store listens: host:port, or a comma-separated list of addresses of the same store. */
  readonly rendezvousAddress: string | undefined;
  readonly jobId: string | undefined;
  readonly secret: JobSecret | undefined;
  /** Where a cluster manager has given the job its places: this one. Its agent finds by it what it has started. */
  readonly place: string | undefined;
  /** In an elastic job: number of this process, which no other one of the job ever has. Undefined in other jobs. */
  readonly worker: number | undefined;
  /** Of rank 0 only: a file with the number of columns of horovodrun's terminal. */
  readonly terminal: string | undefined;
  /** Name of the folder of this job in that of TensorBoard. */
  readonly tensorboardRun: string | undefined;
  /** Where ranks of run() that mpirun has started fetch their call, and the secret for it. */
  readonly runAddress: string | undefined;
  readonly runSecret: JobSecret | undefined;
}

const given = (env: string, text: string) => ({ env, text, isGiven: true }) as const;

export const givenSettings: SettingsOf<GivenSettings> = inGroup('Set by horovodrun', {
  rank: { ...given('HOROVOD_RANK', 'Rank of this process.'), kind: integer(), default: 0 },
  size: { ...given('HOROVOD_SIZE', 'Number of ranks.'), kind: integer(1), default: 1 },
  localRank: {
    ...given('HOROVOD_LOCAL_RANK', 'Number of this rank on its host.'),
    kind: integer(),
    default: 0,
    defaultText: 'the rank',
  },
  localSize: {
    ...given('HOROVOD_LOCAL_SIZE', 'Number of ranks on this host.'),
    kind: integer(1),
    default: 1,
    defaultText: 'the size',
  },
  crossRank: {
    ...given('HOROVOD_CROSS_RANK', 'Number of this host among the hosts that have this local rank.'),
    kind: integer(),
    default: 0,
  },
  crossSize: {
    ...given('HOROVOD_CROSS_SIZE', 'Number of hosts that have this local rank.'),
    kind: integer(1),
    default: 1,
  },
  localCores: {
    ...given(
      'HOROVOD_LOCAL_CORES',
      'Number of cores that the ranks of this host have together, with --pin-cores.',
    ),
    kind: integer(1),
    defaultText: 'those the process may use',
  },
  hostname: { ...given('HOROVOD_HOSTNAME', 'Name of this host in -H.'), kind: anyText, default: 'localhost' },
  rendezvousAddress: {
    ...given(
      'HOROVOD_RENDEZVOUS_ADDR',
      'Address where the ranks find each other: host:port, or several separated by commas, all tried at once.',
    ),
    kind: addressList,
    defaultText: 'none (a single process)',
  },
  jobId: {
    ...given('HOROVOD_JOB_ID', 'Id of the job; part of every authentication.'),
    kind: identifier,
  },
  place: {
    ...given(
      'HOROVOD_PLACE',
      'The place of this rank among those that a cluster manager has given to the job.',
    ),
    kind: identifier,
  },
  secret: {
    ...given('_HOROVOD_SECRET_KEY', 'Secret of the job, 32 bytes in hex. Never printed.'),
    kind: secretKey,
    isSecret: true,
  },
  worker: {
    ...given(
      'HOROVOD_ELASTIC_WORKER',
      'Number of this process in an elastic job; it stays when its rank changes. Not set in other jobs.',
    ),
    kind: integer(),
    defaultText: 'none (not elastic)',
  },
  terminal: {
    ...given(
      'HOROVOD_TERMINAL',
      "File with the number of columns of horovodrun's terminal, for progress that is updated in place. Only rank 0 has it.",
    ),
    kind: anyText,
    defaultText: 'none (no terminal)',
  },
  tensorboardRun: {
    ...given('HOROVOD_TENSORBOARD_RUN', 'Name of the folder of this job in HOROVOD_TENSORBOARD_DIR.'),
    kind: anyText,
    defaultText: 'when this process started, and its pid',
  },
  runAddress: {
    ...given('HOROVOD_RUN_ADDR', 'Address where ranks of run() that mpirun has started fetch their call.'),
    kind: addressList,
  },
  runSecret: {
    ...given('_HOROVOD_RUN_SECRET_KEY', 'Secret for that address, 32 bytes in hex. Never printed.'),
    kind: secretKey,
    isSecret: true,
  },
});
