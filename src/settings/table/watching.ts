// Settings of what is watched and told: stalls, stragglers, the flight recorder, the log.

import { anyText, denial, oneOf, seconds, truth, wholeNumber } from '../kinds.ts';
import type { SettingsOf } from '../types.ts';

/** Leaves text that is no truth value as it is, for the variable's kind to refuse. */
const opposite = (text: string): string => ({ true: '0', false: '1' })[String(truth.parse(text))] ?? text;

export const watchingSettings: SettingsOf<
  | 'stallCheck'
  | 'stallWarningMs'
  | 'stallShutdownMs'
  | 'stragglerPercent'
  | 'flightRecords'
  | 'flightDirectory'
  | 'logLevel'
  | 'logFormat'
  | 'logTime'
> = {
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
    default: 600_000,
    defaultText: '600',
    text: 'After how long a waiting collective ends the job; 0: never.',
  },
  stragglerPercent: {
    group: 'Watching',
    env: 'HOROVOD_STRAGGLER_PERCENT',
    flags: [{ names: ['--straggler-percent'], operand: 'PERCENT' }],
    kind: wholeNumber(),
    default: 20,
    text: 'Warns of a rank that the others wait for, on average of 100 steps, for more than this share of a step; 0: never.',
  },
  flightRecords: {
    group: 'Watching',
    env: 'HOROVOD_FLIGHT_RECORDS',
    kind: wholeNumber(),
    default: 2000,
    text: 'How many of the last collectives each rank remembers, for flightRecord() and dumps.',
  },
  flightDirectory: {
    group: 'Watching',
    env: 'HOROVOD_FLIGHT_DIR',
    flags: [{ names: ['--flight-dir'], operand: 'DIR' }],
    kind: anyText,
    default: undefined,
    defaultText: 'horovod-flight-<uid>/<job> in the temporary directory',
    text: 'Where ranks write rank-<n>.json, their last collectives, when the job fails or stalls; none: nowhere.',
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
  logFormat: {
    group: 'Watching',
    env: 'HOROVOD_LOG_FORMAT',
    flags: [{ names: ['--log-format'], operand: 'FORMAT' }],
    yaml: { key: 'logging.format' },
    kind: oneOf('text', 'json'),
    default: 'text',
    text: 'How messages are logged: text, or json, one object a line with time, level, rank and message.',
  },
  logTime: {
    group: 'Watching',
    env: 'HOROVOD_LOG_HIDE_TIME',
    flags: [
      { names: ['--log-without-timestamp', '--log-hide-timestamp'], text: '1' },
      { names: ['--log-with-timestamp', '--no-log-hide-timestamp'], text: '0', isHidden: true },
    ],
    yaml: { key: 'logging.with_timestamp', toText: opposite },
    kind: denial,
    default: true,
    defaultText: '0',
    text: 'Leaves the time out of logged messages.',
  },
};
