// Settings of how a job starts, and with what of the machine.

import { seconds, truth } from '../kinds.ts';
import type { SettingsOf } from '../types.ts';

export const startingSettings: SettingsOf<'startTimeoutMs' | 'pinCores' | 'pinGpus'> = {
  startTimeoutMs: {
    group: 'Launching',
    env: 'HOROVOD_START_TIMEOUT',
    flags: [{ names: ['--start-timeout'], operand: 'SECONDS' }],
    kind: seconds({ zero: false }),
    default: 30_000,
    defaultText: '30',
    text: 'How long hosts may take to be ready, and how long init() waits for all ranks to come.',
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
};
