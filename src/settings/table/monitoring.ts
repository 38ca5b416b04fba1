// What is watched and reported: stalls, stragglers, the flight recorder, the log.

import { anyText, boolean, integer, negatedBoolean, oneOf, seconds } from '../kinds.ts';
import { inGroup, type SettingsOf } from '../setting.ts';

export type LogFormat = 'text' | 'json';
export type LogLevel = 'trace' | 'debug' | 'info' | 'warning' | 'error' | 'fatal';

export interface MonitoringSettings {
  readonly stallCheck: boolean;
  readonly stallWarningMs: number;
  readonly stallShutdownMs: number;
  /** If the other ranks wait for one rank for this percentage of a step or more, a warning names it; 0: never. */
  readonly stragglerPercent: number;
  readonly divergenceCheck: boolean;
  readonly flightRecords: number;
  /** 'none': no flight records are written. Undefined: below the temporary directory. */
  readonly flightDirectory: string | undefined;
  readonly logLevel: LogLevel;
  readonly logFormat: LogFormat;
  readonly logTime: boolean;
}

/** Leaves text that is not a boolean as it is, for the variable's kind to reject. */
const opposite = (text: string): string => ({ true: '0', false: '1' })[String(boolean.parse(text))] ?? text;

export const monitoringSettings: SettingsOf<MonitoringSettings> = inGroup('Monitoring and logging', {
  stallCheck: {
    env: 'HOROVOD_STALL_CHECK_DISABLE',
    flags: [
      { names: ['--no-stall-check'], text: '1' },
      { names: ['--stall-check'], text: '0', isHidden: true },
    ],
    yaml: { key: 'stall_check.enabled', toText: opposite },
    kind: negatedBoolean,
    default: true,
    defaultText: 'off',
    text: 'Do not warn about collectives that only some ranks have called.',
  },
  stallWarningMs: {
    env: 'HOROVOD_STALL_CHECK_TIME_SECONDS',
    flags: [{ names: ['--stall-check-warning-time-seconds'], operand: 'SECONDS' }],
    yaml: { key: 'stall_check.warning_time_seconds' },
    kind: seconds({ zero: true }),
    default: 60_000,
    text: 'Time after which a warning names the ranks that a collective is waiting for.',
  },
  stallShutdownMs: {
    env: 'HOROVOD_STALL_SHUTDOWN_TIME_SECONDS',
    flags: [{ names: ['--stall-check-shutdown-time-seconds'], operand: 'SECONDS' }],
    yaml: { key: 'stall_check.shutdown_time_seconds' },
    kind: seconds({ zero: true }),
    default: 600_000,
    text: 'Time after which a waiting collective ends the job; 0 means never.',
  },
  stragglerPercent: {
    env: 'HOROVOD_STRAGGLER_PERCENT',
    flags: [{ names: ['--straggler-percent'], operand: 'PERCENT' }],
    kind: integer(),
    default: 20,
    text: 'Warn about a rank if the others wait for it for this percentage of a step or more, averaged over 100 steps; 0 means never.',
  },
  divergenceCheck: {
    env: 'HOROVOD_DIVERGENCE_CHECK',
    flags: [
      { names: ['--no-divergence-check'], text: '0' },
      { names: ['--divergence-check'], text: '1', isHidden: true },
    ],
    yaml: { key: 'divergence_check' },
    kind: boolean,
    default: true,
    text: 'Warn if the weights of the ranks differ, if ranks shuffled their data differently, or if an optimizer is not wrapped.',
  },
  flightRecords: {
    env: 'HOROVOD_FLIGHT_RECORDS',
    kind: integer(),
    default: 2000,
    text: 'Number of most recent collectives that each rank keeps, for flightRecord() and the files in HOROVOD_FLIGHT_DIR.',
  },
  flightDirectory: {
    env: 'HOROVOD_FLIGHT_DIR',
    flags: [{ names: ['--flight-dir'], operand: 'DIR' }],
    kind: anyText,
    defaultText: 'horovod-flight-<uid>/<job> in the temporary directory',
    text: 'Directory where ranks write their last collectives (rank-<n>.json) when the job fails or stalls; none turns this off.',
  },
  logLevel: {
    env: 'HOROVOD_LOG_LEVEL',
    flags: [{ names: ['--log-level'], operand: 'LEVEL' }],
    yaml: { key: 'logging.level' },
    kind: oneOf('trace', 'debug', 'info', 'warning', 'error', 'fatal'),
    default: 'warning',
    text: 'Lowest level of messages to log.',
  },
  logFormat: {
    env: 'HOROVOD_LOG_FORMAT',
    flags: [{ names: ['--log-format'], operand: 'FORMAT' }],
    yaml: { key: 'logging.format' },
    kind: oneOf('text', 'json'),
    default: 'text',
    text: 'Format of log messages. json is one object per line with time, level, rank and message.',
  },
  logTime: {
    env: 'HOROVOD_LOG_HIDE_TIME',
    flags: [
      { names: ['--log-without-timestamp', '--log-hide-timestamp'], text: '1' },
      { names: ['--log-with-timestamp', '--no-log-hide-timestamp'], text: '0', isHidden: true },
    ],
    yaml: { key: 'logging.with_timestamp', toText: opposite },
    kind: negatedBoolean,
    default: true,
    defaultText: 'off',
    text: 'Log messages without the time.',
  },
});
