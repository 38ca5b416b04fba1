// The one table of settings. Each is one entry: variable, flags, key of the config file, kind, default and one
// sentence. Reading the environment, the flags of horovodrun, its --help, the config file and the reference page
// all come from here. A flag or config key is worth the text its environment variable would have; given by both,
// the flag wins over the file and the file over the environment.

import type { JobSecret } from '../rendezvous/job-secret.ts';
import {
  anyText,
  denial,
  hostAndPort,
  identifier,
  type Kind,
  milliseconds,
  oneOf,
  seconds,
  secretKey,
  truth,
  wholeNumber,
} from './kinds.ts';

export type PlaneChoice = 'auto' | 'shm' | 'portable';
/** auto: where a core is to spare. */
export type OverlapChoice = 'auto' | 'always' | 'never';
export type LogLevel = 'trace' | 'debug' | 'info' | 'warning' | 'error' | 'fatal';

/** What one rank knows about its job and how it is to behave. */
export interface Settings {
  readonly rank: number;
  readonly size: number;
  readonly localRank: number;
  readonly localSize: number;
  readonly crossRank: number;
  readonly crossSize: number;
  /** Cores the ranks of this host have together, when the launcher has given each its own. */
  readonly localCores: number | undefined;
  readonly hostname: string;
  /** host:port of the launcher's store; undefined for a single process without launcher. */
  readonly rendezvousAddress: string | undefined;
  readonly secret: JobSecret | undefined;
  readonly jobId: string | undefined;
  readonly plane: PlaneChoice;
  readonly native: boolean;
  readonly nativePath: string | undefined;
  readonly shmDirectory: string | undefined;
  readonly cma: boolean;
  readonly operationTimeoutMs: number;
  readonly startTimeoutMs: number;
  readonly pinCores: boolean;
  readonly pinGpus: boolean;
  readonly stallCheck: boolean;
  readonly stallWarningMs: number;
  readonly stallShutdownMs: number;
  readonly fusionThresholdBytes: number;
  readonly cycleTimeMs: number;
  readonly overlap: OverlapChoice;
  readonly bucketBytes: number;
  readonly dynamicProcessSets: boolean;
  readonly flightRecords: number;
  readonly logLevel: LogLevel;
}

/** What horovodrun itself is told. */
export interface LaunchOptions {
  readonly processes: number | undefined;
  readonly hosts: string | undefined;
  readonly hostfile: string | undefined;
  readonly configFile: string | undefined;
  readonly outputFilename: string | undefined;
  readonly prefixOutput: boolean;
  readonly prefixTimestamp: boolean;
  readonly verbose: boolean;
  readonly checkBuild: boolean;
  readonly version: boolean;
  readonly help: boolean;
}

export type Flag =
  /** Takes a value: `--start-timeout 30`. */
  | {
      readonly names: readonly string[];
      /** What the value is called in --help. */
      readonly operand: string;
      /** Where the flag counts in other units than the variable. */
      readonly kind?: Kind<unknown>;
      readonly toText?: (text: string) => string;
    }
  /** Takes none, and is worth `text`. */
  | { readonly names: readonly string[]; readonly text: string; readonly isHidden?: true };

export interface Setting<T> {
  readonly group: SettingGroup;
  readonly env?: string;
  readonly flags?: readonly Flag[];
  readonly yaml?: { readonly key: string; readonly toText?: (text: string) => string };
  readonly kind: Kind<NonNullable<T>>;
  readonly default: T;
  /** The default in words, where its value would not say it. */
  readonly defaultText?: string;
  /** One sentence. */
  readonly text: string;
  /** Never printed. */
  readonly isSecret?: true;
  /** Set by horovodrun for every rank: not for users. */
  readonly isGiven?: true;
}

export const settingGroups = [
  'Launching',
  'Output',
  'Collectives',
  'Watching',
  'Given by horovodrun',
] as const;
export type SettingGroup = (typeof settingGroups)[number];

const mebibytes = (text: string): string => String(Number(text) * 2 ** 20);
/** Leaves text that is no truth value as it is, for the variable's kind to refuse. */
const opposite = (text: string): string => ({ true: '0', false: '1' })[String(truth.parse(text))] ?? text;
const given = (env: string, text: string) =>
  ({ group: 'Given by horovodrun', env, text, isGiven: true }) as const;

export const settingsTable: { readonly [K in keyof Settings]: Setting<Settings[K]> } = {
  startTimeoutMs: {
    group: 'Launching',
    env: 'HOROVOD_START_TIMEOUT',
    flags: [{ names: ['--start-timeout'], operand: 'SECONDS' }],
    kind: seconds({ zero: false }),
    default: 30_000,
    defaultText: '30',
    text: 'How long init() waits for all ranks to come.',
  },
  pinCores: {
    group: 'Launching',
    env: 'HOROVOD_PIN_CORES',
    flags: [
      { names: ['--pin-cores'], text: '1' },
      { names: ['--no-pin-cores'], text: '0', isHidden: true },
    ],
    yaml: { key: 'launching.pin_cores' },
    kind: truth,
    default: false,
    defaultText: '0',
    text: 'Gives each rank cores of its own: an equal share of those horovodrun may use (Linux, with taskset).',
  },
  pinGpus: {
    group: 'Launching',
    env: 'HOROVOD_PIN_GPUS',
    flags: [
      { names: ['--pin-gpus'], text: '1' },
      { names: ['--no-pin-gpus'], text: '0', isHidden: true },
    ],
    yaml: { key: 'launching.pin_gpus' },
    kind: truth,
    default: false,
    defaultText: '0',
    text: 'Gives each rank one GPU: CUDA_VISIBLE_DEVICES from its local rank, out of that of horovodrun if it is set.',
  },
  plane: {
    group: 'Collectives',
    env: 'HOROVOD_PLANE',
    kind: oneOf('auto', 'shm', 'portable'),
    default: 'auto',
    text: 'What moves the bytes: shm (native shared memory), portable (TypeScript only), or the best there is.',
  },
  native: {
    group: 'Collectives',
    env: 'HOROVOD_NATIVE',
    kind: truth,
    default: true,
    defaultText: '1',
    text: 'Whether the native addon may be used; 0 forces the portable plane.',
  },
  nativePath: {
    group: 'Collectives',
    env: 'HOROVOD_NATIVE_PATH',
    kind: anyText,
    default: undefined,
    defaultText: 'searched',
    text: 'The file of the native addon to load.',
  },
  shmDirectory: {
    group: 'Collectives',
    env: 'HOROVOD_SHM_DIR',
    kind: anyText,
    default: undefined,
    defaultText: '/dev/shm',
    text: 'A directory of a memory file system for what ranks of one host share.',
  },
  cma: {
    group: 'Collectives',
    env: 'HOROVOD_CMA',
    kind: truth,
    default: true,
    defaultText: '1',
    text: "Whether large tensors are read directly from the peers' memory where the kernel allows it.",
  },
  operationTimeoutMs: {
    group: 'Collectives',
    env: 'HOROVOD_TIMEOUT_SECONDS',
    flags: [{ names: ['--timeout-seconds'], operand: 'SECONDS' }],
    kind: seconds({ zero: false }),
    default: 1_800_000,
    defaultText: '1800',
    text: 'The deadline of every collective: a rank that waits longer throws ERR_HVD_TIMEOUT.',
  },
  fusionThresholdBytes: {
    group: 'Collectives',
    env: 'HOROVOD_FUSION_THRESHOLD',
    flags: [{ names: ['--fusion-threshold-mb'], operand: 'MB', kind: wholeNumber(), toText: mebibytes }],
    yaml: { key: 'params.fusion_threshold_mb', toText: mebibytes },
    kind: wholeNumber(),
    default: 128 * 2 ** 20,
    defaultText: '128 MiB',
    text: 'How many bytes of small tensors are moved as one operation; 0 turns fusion off.',
  },
  overlap: {
    group: 'Collectives',
    env: 'HOROVOD_OVERLAP',
    kind: oneOf('auto', 'always', 'never'),
    default: 'auto',
    text: 'Whether gradients are reduced while backpropagation goes on; auto: where a core is to spare for it.',
  },
  bucketBytes: {
    group: 'Collectives',
    env: 'HOROVOD_BUCKET_BYTES',
    kind: wholeNumber(),
    default: 2 * 2 ** 20,
    defaultText: '2 MiB',
    text: 'How many bytes of gradients start together while backpropagation goes on.',
  },
  cycleTimeMs: {
    group: 'Collectives',
    env: 'HOROVOD_CYCLE_TIME',
    flags: [{ names: ['--cycle-time-ms'], operand: 'MS' }],
    yaml: { key: 'params.cycle_time_ms' },
    kind: milliseconds,
    default: 0,
    text: 'How long calls are gathered into one batch; 0: only those of one JavaScript tick.',
  },
  dynamicProcessSets: {
    group: 'Collectives',
    env: 'HOROVOD_DYNAMIC_PROCESS_SETS',
    kind: truth,
    default: false,
    defaultText: '0',
    text: 'Whether process sets may be added and removed after init().',
  },
  stallCheck: {
    group: 'Watching',
    env: 'HOROVOD_STALL_CHECK_DISABLE',
    flags: [
      { names: ['--no-stall-check'], text: '1' },
      { names: ['--stall-check'], text: '0', isHidden: true },
    ],
    yaml: { key: 'stall_check.enabled', toText: opposite },
    kind: denial,
    default: true,
    defaultText: '0',
    text: 'Turns off the warning about collectives that only some ranks have called.',
  },
  stallWarningMs: {
    group: 'Watching',
    env: 'HOROVOD_STALL_CHECK_TIME_SECONDS',
    flags: [{ names: ['--stall-check-warning-time-seconds'], operand: 'SECONDS' }],
    yaml: { key: 'stall_check.warning_time_seconds' },
    kind: seconds({ zero: true }),
    default: 60_000,
    defaultText: '60',
    text: 'After how long a waiting collective is warned about, with the ranks that are missing.',
  },
  stallShutdownMs: {
    group: 'Watching',
    env: 'HOROVOD_STALL_SHUTDOWN_TIME_SECONDS',
    flags: [{ names: ['--stall-check-shutdown-time-seconds'], operand: 'SECONDS' }],
    yaml: { key: 'stall_check.shutdown_time_seconds' },
    kind: seconds({ zero: true }),
    default: 0,
    text: 'After how long a waiting collective ends the job; 0: never.',
  },
  flightRecords: {
    group: 'Watching',
    env: 'HOROVOD_FLIGHT_RECORDS',
    kind: wholeNumber(),
    default: 256,
    text: 'How many of the last collectives flightRecord() remembers.',
  },
  logLevel: {
    group: 'Watching',
    env: 'HOROVOD_LOG_LEVEL',
    flags: [{ names: ['--log-level'], operand: 'LEVEL' }],
    yaml: { key: 'logging.level' },
    kind: oneOf('trace', 'debug', 'info', 'warning', 'error', 'fatal'),
    default: 'warning',
    text: 'The least important messages still logged: trace, debug, info, warning, error or fatal.',
  },
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
    ...given('HOROVOD_RENDEZVOUS_ADDR', 'Where the ranks find each other.'),
    kind: hostAndPort,
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
};

export const launchTable: { readonly [K in keyof LaunchOptions]: Setting<LaunchOptions[K]> } = {
  processes: {
    group: 'Launching',
    flags: [{ names: ['-np', '--num-proc'], operand: 'N' }],
    kind: wholeNumber(1),
    default: undefined,
    defaultText: 'required',
    text: 'How many processes to start.',
  },
  hosts: {
    group: 'Launching',
    flags: [{ names: ['-H', '--hosts'], operand: 'HOST:SLOTS,…' }],
    kind: anyText,
    default: undefined,
    defaultText: 'localhost with N slots',
    text: 'Where to start them; in this version this host only (localhost, 127.0.0.1 or its name).',
  },
  hostfile: {
    group: 'Launching',
    flags: [{ names: ['--hostfile', '-hostfile'], operand: 'FILE' }],
    kind: anyText,
    default: undefined,
    defaultText: 'none',
    text: 'A file with a line `HOST slots=N` for each host, instead of -H.',
  },
  configFile: {
    group: 'Launching',
    flags: [{ names: ['--config-file'], operand: 'FILE' }],
    kind: anyText,
    default: undefined,
    defaultText: 'none',
    text: 'A YAML file of settings; flags win over it, whatever their order.',
  },
  outputFilename: {
    group: 'Output',
    flags: [{ names: ['--output-filename'], operand: 'DIRECTORY' }],
    kind: anyText,
    default: undefined,
    defaultText: 'none',
    text: 'Also writes the output of each rank to DIRECTORY/rank.<rank>/stdout and …/stderr.',
  },
  prefixOutput: {
    group: 'Output',
    flags: [{ names: ['--no-prefix-output'], text: '0' }],
    kind: truth,
    default: true,
    defaultText: '',
    text: 'Shows output without `[rank]<stdout>:` in front of each line.',
  },
  prefixTimestamp: {
    group: 'Output',
    flags: [{ names: ['-prefix-timestamp', '--prefix-output-with-timestamp'], text: '1' }],
    kind: truth,
    default: false,
    defaultText: '',
    text: 'Puts the time in front of the prefix of each line.',
  },
  verbose: {
    group: 'Output',
    flags: [{ names: ['--verbose'], text: '1' }],
    kind: truth,
    default: false,
    defaultText: '',
    text: 'Says what horovodrun does.',
  },
  checkBuild: {
    group: 'Launching',
    flags: [{ names: ['-cb', '--check-build'], text: '1' }],
    kind: truth,
    default: false,
    defaultText: '',
    text: 'Shows what this installation can do, and why it cannot do the rest.',
  },
  version: {
    group: 'Launching',
    flags: [{ names: ['-v', '--version'], text: '1' }],
    kind: truth,
    default: false,
    defaultText: '',
    text: 'Shows the version.',
  },
  help: {
    group: 'Launching',
    flags: [{ names: ['-h', '--help'], text: '1' }],
    kind: truth,
    default: false,
    defaultText: '',
    text: 'Shows this help.',
  },
};
