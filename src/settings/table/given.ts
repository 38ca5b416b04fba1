// What horovodrun tells each rank: who it is and where the others are.

import { addressList, anyText, identifier, secretKey, wholeNumber } from '../kinds.ts';
import type { SettingsOf } from '../types.ts';

const given = (env: string, text: string) =>
  ({ group: 'Given by horovodrun', env, text, isGiven: true }) as const;

export const givenSettings: SettingsOf<
  | 'rank'
  | 'size'
  | 'localRank'
  | 'localSize'
  | 'crossRank'
  | 'crossSize'
  | 'localCores'
  | 'hostname'
  | 'rendezvousAddress'
  | 'jobId'
  | 'secret'
  | 'runAddress'
  | 'runSecret'
> = {
  rank: { ...given('HOROVOD_RANK', 'Number of this process.'), kind: wholeNumber(), default: 0 },
  size: { ...given('HOROVOD_SIZE', 'How many processes take part.'), kind: wholeNumber(1), default: 1 },
  localRank: {
    ...given('HOROVOD_LOCAL_RANK', 'Number of this process on its host.'),
    kind: wholeNumber(),
    default: 0,
    defaultText: 'the rank',
  },
  localSize: {
    ...given('HOROVOD_LOCAL_SIZE', 'How many processes take part on this host.'),
    kind: wholeNumber(1),
    default: 1,
    defaultText: 'the size',
  },
  crossRank: {
    ...given('HOROVOD_CROSS_RANK', 'Number of this host among those that have this local rank.'),
    kind: wholeNumber(),
    default: 0,
  },
  crossSize: {
    ...given('HOROVOD_CROSS_SIZE', 'How many hosts have this local rank.'),
    kind: wholeNumber(1),
    default: 1,
  },
  localCores: {
    ...given('HOROVOD_LOCAL_CORES', 'How many cores the ranks of this host have together, with --pin-cores.'),
    kind: wholeNumber(1),
    default: undefined,
    defaultText: 'what the process may use',
  },
  hostname: {
    ...given('HOROVOD_HOSTNAME', 'Name of this host in -H.'),
    kind: anyText,
    default: 'localhost',
  },
  rendezvousAddress: {
    ...given(
      'HOROVOD_RENDEZVOUS_ADDR',
      'Where the ranks find each other: host:port, or several of them with commas, tried all at once.',
    ),
    kind: addressList,
    default: undefined,
    defaultText: 'none: a single process',
  },
  jobId: {
    ...given('HOROVOD_JOB_ID', 'Name of the job; part of every proof of the secret.'),
    kind: identifier,
    default: undefined,
    defaultText: 'none',
  },
  secret: {
    ...given('_HOROVOD_SECRET_KEY', 'Secret of the job, 32 bytes in hex; never printed.'),
    kind: secretKey,
    default: undefined,
    defaultText: 'none',
    isSecret: true,
  },
  runAddress: {
    ...given('HOROVOD_RUN_ADDR', 'Where run() hands out its call when mpirun starts its ranks.'),
    kind: addressList,
    default: undefined,
    defaultText: 'none',
  },
  runSecret: {
    ...given('_HOROVOD_RUN_SECRET_KEY', 'Secret of that place, 32 bytes in hex; never printed.'),
    kind: secretKey,
    default: undefined,
    defaultText: 'none',
    isSecret: true,
  },
};
