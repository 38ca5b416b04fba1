// Settings of the collectives: memory, limits, batches.

import { anyText, milliseconds, oneOf, seconds, truth, wholeNumber } from '../kinds.ts';
import type { SettingsOf } from '../types.ts';

const mebibytes = (text: string): string => String(Number(text) * 2 ** 20);

export const collectiveSettings: SettingsOf<
  | 'native'
  | 'nativePath'
  | 'shmDirectory'
  | 'cma'
  | 'operationTimeoutMs'
  | 'fusionThresholdBytes'
  | 'overlap'
  | 'bucketBytes'
  | 'cycleTimeMs'
  | 'dynamicProcessSets'
> = {
  native: {
    group: 'Collectives',
    env: 'HOROVOD_NATIVE',
    kind: truth,
    default: true,
    defaultText: '1',
    text: 'Whether the native addon may be used; 0 forces the portable transport.',
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
};
