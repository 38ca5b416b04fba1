// Settings of what is watched and told: stalls, the flight recorder, the log.

import { denial, oneOf, seconds, truth, wholeNumber } from '../kinds.ts';
import type { SettingsOf } from '../types.ts';

/** Leaves text that is no truth value as it is, for the variable's kind to refuse. */
const opposite = (text: string): string => ({ true: '0', false: '1' })[String(truth.parse(text))] ?? text;

export const watchingSettings: SettingsOf<
  'stallCheck' | 'stallWarningMs' | 'stallShutdownMs' | 'flightRecords' | 'logLevel'
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
};
