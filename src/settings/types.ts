// What a setting is, and what all of them together are: the types behind the one table (table.ts).

import type { JobSecret } from './job-secret.ts';
import type { Kind } from './kinds.ts';
import type { LauncherEnvironment } from './launcher-environment.ts';

/**
 * shm and portable: ranks of one host through memory. tcp, mpi, gloo: what moves bytes between hosts (with all ranks
 * on one host: between them, over the loopback interface). portable also goes across hosts.
 */
export type TransportChoice = 'auto' | 'shm' | 'tcp' | 'mpi' | 'gloo' | 'portable';
/** auto: where a core is to spare. */
export type OverlapChoice = 'auto' | 'always' | 'never';
export type LogFormat = 'text' | 'json';
export type LogLevel = 'trace' | 'debug' | 'info' | 'warning' | 'error' | 'fatal';

/** Settings that are entries of the table. */
export interface TableSettings {
  readonly rank: number;
  readonly size: number;
  readonly localRank: number;
  readonly localSize: number;
  readonly crossRank: number;
  readonly crossSize: number;
  /** Cores the ranks of this host have together, when the launcher has given each its own. */
  readonly localCores: number | undefined;
  readonly hostname: string;
  /** Where horovodrun's store listens: host:port, or a comma list of such, all of them the same store. */
  readonly rendezvousAddress: string | undefined;
  readonly secret: JobSecret | undefined;
  readonly jobId: string | undefined;
  /** host:port where the ranks of a job without launcher meet. */
  readonly rendezvous: string | undefined;
  /** The user's own secret for a job without launcher. */
  readonly userSecret: JobSecret | undefined;
  /** Where run() hands out its call, and by which secret, when mpirun starts its ranks. */
  readonly runAddress: string | undefined;
  readonly runSecret: JobSecret | undefined;
  readonly transport: TransportChoice;
  readonly mpirun: string;
  readonly mpiThreadsDisable: boolean;
  /** Undefined: on where the job has more than one host. */
  readonly hierarchicalAllreduce: boolean | undefined;
  readonly hierarchicalAllgather: boolean | undefined;
  /** Names of interfaces or subnets (CIDR) whose addresses may be used; undefined: all. */
  readonly networkInterfaces: readonly string[] | undefined;
  /** So long another host may be silent. */
  readonly peerTimeoutMs: number;
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
  readonly autotune: boolean;
  readonly autotuneLog: string | undefined;
  readonly autotuneFile: string | undefined;
  readonly autotuneWarmupSamples: number;
  readonly autotuneStepsPerSample: number;
  readonly autotuneMaxSamples: number;
  /** Undefined: estimated from the samples. */
  readonly autotuneNoise: number | undefined;
  /** Share of a step that the others wait for one rank, from which on it is warned of; 0: never. */
  readonly stragglerPercent: number;
  readonly flightRecords: number;
  /** 'none': no dumps are written. Undefined: below the temporary directory. */
  readonly flightDirectory: string | undefined;
  readonly logLevel: LogLevel;
  readonly logFormat: LogFormat;
  readonly logTime: boolean;
  /** Undefined: none. */
  readonly timelineFile: string | undefined;
  readonly timelineMarkCycles: boolean;
  readonly timelineMaxMb: number;
  /** 0: all of them. */
  readonly timelineOperationsPerSecond: number;
}

/** What one rank knows about its job and how it is to behave. */
export interface Settings extends TableSettings {
  /** Who started this process. `rank`, `size`, `localRank` and `localSize` above are taken from it. */
  readonly launcher: LauncherEnvironment;
  /** Settings that somebody has given, by flag, file or variable: autotune leaves them alone. */
  readonly given: ReadonlySet<string>;
}

/** What horovodrun itself is told. */
export interface LaunchOptions {
  readonly processes: number | undefined;
  readonly hosts: string | undefined;
  readonly hostfile: string | undefined;
  readonly sshPort: number | undefined;
  readonly sshIdentityFile: string | undefined;
  readonly envAllow: readonly string[] | undefined;
  readonly envDeny: readonly string[] | undefined;
  readonly mpiArgs: string | undefined;
  readonly bindingArgs: string | undefined;
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
      /** Given again, its value is added after a comma; otherwise the last one counts. */
      readonly isList?: true;
    }
  /** Takes none, and is worth `text`. */
  | { readonly names: readonly string[]; readonly text: string; readonly isHidden?: true };

export interface Setting<T> {
  readonly group: SettingGroup;
  readonly env?: string;
  /** Other variables that say the same, for when the first is not set. */
  readonly alsoEnv?: readonly { readonly env: string; readonly kind: Kind<NonNullable<T>> }[];
  readonly flags?: readonly Flag[];
  readonly yaml?: {
    readonly key: string;
    readonly kind?: Kind<NonNullable<T>>;
    readonly toText?: (text: string) => string;
  };
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
  'Hosts',
  'mpirun',
  'Output',
  'Collectives',
  'Several hosts',
  'Autotune',
  'Watching',
  'Given by horovodrun',
] as const;
export type SettingGroup = (typeof settingGroups)[number];

/** Some entries of the table. */
export type SettingsOf<K extends keyof TableSettings> = {
  readonly [Key in K]: Setting<TableSettings[Key]>;
};
