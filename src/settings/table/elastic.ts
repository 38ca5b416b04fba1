// Elastic training: how many ranks a job may have, where its hosts come from, and what happens when ranks are lost. Read by horovodrun, but for elasticVerify.

import { resolve } from 'node:path';
import { anyText, boolean, integer, seconds, secondsRange } from '../kinds.ts';
import { inGroup, type SettingsOf } from '../setting.ts';

export interface ElasticSettings {
  /** Given, or a discovery script: the job is elastic. */
  readonly minProcesses: number | undefined;
  readonly maxProcesses: number | undefined;
  readonly hostDiscoveryScript: string | undefined;
  readonly slotsPerHost: number;
  readonly elasticTimeoutMs: number;
  readonly resetLimit: number | undefined;
  readonly cooldown: { readonly minMs: number; readonly maxMs: number };
  readonly spares: number;
  readonly stoppedTimeoutMs: number;
  readonly hangTimeoutMs: number;
  readonly elasticVerify: boolean;
}

export function isElastic({
  minProcesses,
  hostDiscoveryScript,
}: Pick<ElasticSettings, 'minProcesses' | 'hostDiscoveryScript'>): boolean {
  return minProcesses !== undefined || hostDiscoveryScript !== undefined;
}

/** Those that have no meaning in a job that is not elastic. */
export const elasticOnly: readonly (keyof ElasticSettings)[] = [
  'maxProcesses',
  'slotsPerHost',
  'elasticTimeoutMs',
  'resetLimit',
  'cooldown',
  'spares',
  'stoppedTimeoutMs',
  'hangTimeoutMs',
];

/** A relative path is relative to where the flag was given. */
const absolute = (text: string): string => (text === '' ? text : resolve(text));

export const elasticSettings: SettingsOf<ElasticSettings> = inGroup('Elastic training', {
  minProcesses: {
    env: 'HOROVOD_ELASTIC_MIN_NP',
    flags: [{ names: ['--min-np', '--min-num-proc'], operand: 'N' }],
    yaml: { key: 'elastic.min_np' },
    kind: integer(1),
    defaultText: '-np',
    text:
      'Makes the job elastic: it goes on as long as this many ranks are left, and takes in new ones. The script has to ' +
      'train inside elastic.run(). As a variable, it also makes jobs of srun and HOROVOD_RENDEZVOUS elastic.',
  },
  maxProcesses: {
    env: 'HOROVOD_ELASTIC_MAX_NP',
    flags: [{ names: ['--max-np', '--max-num-proc'], operand: 'N' }],
    yaml: { key: 'elastic.max_np' },
    kind: integer(1),
    defaultText: 'all slots',
    text: 'Maximum number of ranks of an elastic job. -np is how many must be there before the first step.',
  },
  hostDiscoveryScript: {
    env: 'HOROVOD_ELASTIC_HOST_DISCOVERY_SCRIPT',
    flags: [
      {
        names: ['--host-discovery-script'],
        operand: 'FILE',
        toText: absolute,
      },
    ],
    yaml: { key: 'elastic.host_discovery_script' },
    kind: anyText,
    text:
      'Makes the job elastic: a program that prints the hosts there are now, one HOST or HOST:SLOTS per line. It is run every ' +
      'second. Not with -H or --hostfile.',
  },
  slotsPerHost: {
    env: 'HOROVOD_ELASTIC_SLOTS_PER_HOST',
    flags: [{ names: ['--slots-per-host', '--slots'], operand: 'N' }],
    yaml: { key: 'elastic.slots_per_host' },
    kind: integer(1),
    default: 1,
    text: 'Slots of hosts that the discovery script prints without :SLOTS.',
  },
  elasticTimeoutMs: {
    env: 'HOROVOD_ELASTIC_TIMEOUT',
    flags: [{ names: ['--elastic-timeout'], operand: 'SECONDS' }],
    yaml: { key: 'elastic.timeout' },
    kind: seconds({ zero: false }),
    default: 600_000,
    text: 'How long an elastic job waits while fewer than --min-np ranks are there. A new worker has this long to call elastic.run(), or --start-timeout if that is longer.',
  },
  resetLimit: {
    env: 'HOROVOD_ELASTIC_RESET_LIMIT',
    flags: [{ names: ['--reset-limit'], operand: 'N' }],
    yaml: { key: 'elastic.reset_limit' },
    kind: integer(),
    defaultText: 'none',
    text: 'How often the ranks of an elastic job may change before it fails. Taking in new ranks counts too.',
  },
  cooldown: {
    env: 'HOROVOD_ELASTIC_COOLDOWN_RANGE',
    flags: [{ names: ['--blacklist-cooldown-range', '--cooldown-range'], operand: 'MIN MAX', isPair: true }],
    yaml: { key: 'elastic.cooldown_range' },
    kind: secondsRange,
    default: { minMs: 1000, maxMs: 60_000 },
    text:
      'Seconds for which a host that was lost, or a slot whose ranks keep dying, is not used. The time doubles from MIN to MAX; ' +
      '0 0 means for ever.',
  },
  spares: {
    env: 'HOROVOD_ELASTIC_SPARES',
    flags: [{ names: ['--spares'], operand: 'N' }],
    yaml: { key: 'elastic.spares' },
    kind: integer(),
    default: 0,
    text: 'Workers that are started in advance and wait, so that a lost rank is replaced at once.',
  },
  stoppedTimeoutMs: {
    env: 'HOROVOD_ELASTIC_STOPPED_TIMEOUT',
    flags: [{ names: ['--stopped-timeout'], operand: 'SECONDS' }],
    yaml: { key: 'elastic.stopped_timeout' },
    kind: seconds({ zero: true }),
    default: 1000,
    text: 'In an elastic job, a rank that was stopped (SIGSTOP) for this long is killed and replaced; 0 means never.',
  },
  hangTimeoutMs: {
    env: 'HOROVOD_ELASTIC_HANG_TIMEOUT',
    flags: [{ names: ['--hang-timeout'], operand: 'SECONDS' }],
    yaml: { key: 'elastic.hang_timeout' },
    kind: seconds({ zero: true }),
    default: 60_000,
    text:
      'In an elastic job, a rank that uses no processor for this long while all others wait for it is killed and replaced; 0 means ' +
      'never.',
  },
  elasticVerify: {
    env: 'HOROVOD_ELASTIC_VERIFY',
    flags: [],
    yaml: { key: 'elastic.verify' },
    kind: boolean,
    default: false,
    text: 'Compare the states of all ranks whenever ranks have joined or were lost, and fail with ERR_HVD_MISMATCH if they differ.',
  },
});
