// The collectives: memory, time limits, batches.

import { anyText, boolean, integer, milliseconds, oneOf, seconds } from '../kinds.ts';
import { inGroup, type SettingsOf } from '../setting.ts';

/** auto: if a core is free for it. */
export type OverlapChoice = 'auto' | 'always' | 'never';

/** auto: where that is faster than shared memory. */
export type DirectCopies = 'auto' | '1' | '0';

export interface CollectiveSettings {
  readonly native: boolean;
  readonly nativePath: string | undefined;
  readonly nativeKernels: boolean;
  readonly shmDirectory: string | undefined;
  readonly cma: DirectCopies;
  readonly operationTimeoutMs: number;
  readonly fusionThresholdBytes: number;
  readonly overlap: OverlapChoice;
  readonly bucketBytes: number;
  readonly cycleTimeMs: number;
  readonly dynamicProcessSets: boolean;
}

const mebibytes = (text: string): string => String(Number(text) * 2 ** 20);

export const collectiveSettings: SettingsOf<CollectiveSettings> = inGroup('Collectives', {
  native: {
    env: 'HOROVOD_NATIVE',
    kind: boolean,
    default: true,
    text: 'Use the native addon; 0 selects the portable transport instead.',
  },
  nativePath: {
    env: 'HOROVOD_NATIVE_PATH',
    kind: anyText,
    defaultText: 'found automatically',
    text: 'Path of the native addon to load.',
  },
  nativeKernels: {
    env: 'HOROVOD_NATIVE_KERNELS',
    kind: boolean,
    default: true,
    text: 'Compute with the addon, at the full speed of the processor, where the backend is wasm; 0 selects the WebAssembly kernels instead.',
  },
  shmDirectory: {
    env: 'HOROVOD_SHM_DIR',
    kind: anyText,
    defaultText: '/dev/shm',
    text: 'Directory for memory that the ranks of a host share. It must be on a memory file system (tmpfs).',
  },
  cma: {
    env: 'HOROVOD_CMA',
    kind: oneOf('auto', '1', '0'),
    default: 'auto',
    text: 'Copy large tensors directly from and to the memory of other ranks where the kernel allows it (cross-memory attach); auto does so if that is faster on this processor.',
  },
  operationTimeoutMs: {
    env: 'HOROVOD_TIMEOUT_SECONDS',
    flags: [{ names: ['--timeout-seconds'], operand: 'SECONDS' }],
    kind: seconds({ zero: false }),
    default: 1_800_000,
    text: 'Time limit for each collective. A rank that waits longer throws ERR_HVD_TIMEOUT.',
  },
  fusionThresholdBytes: {
    env: 'HOROVOD_FUSION_THRESHOLD',
    flags: [{ names: ['--fusion-threshold-mb'], operand: 'MB', kind: integer(), toText: mebibytes }],
    yaml: { key: 'params.fusion_threshold_mb', toText: mebibytes },
    kind: integer(),
    default: 128 * 2 ** 20,
    defaultText: '128 MiB',
    text: 'Maximum total size of small tensors fused into one operation; 0 turns fusion off. The variable is in bytes.',
  },
  overlap: {
    env: 'HOROVOD_OVERLAP',
    kind: oneOf('auto', 'always', 'never'),
    default: 'auto',
    text: 'Reduce gradients while backpropagation is still running; auto does so if a core is free for it.',
  },
  bucketBytes: {
    env: 'HOROVOD_BUCKET_BYTES',
    kind: integer(),
    default: 2 * 2 ** 20,
    defaultText: '2 MiB',
    text: 'Number of bytes of gradients to reduce together during backpropagation.',
  },
  cycleTimeMs: {
    env: 'HOROVOD_CYCLE_TIME',
    flags: [{ names: ['--cycle-time-ms'], operand: 'MS' }],
    yaml: { key: 'params.cycle_time_ms' },
    kind: milliseconds,
    default: 0,
    text: 'Time to collect calls into one batch; 0 batches only the calls of one JavaScript tick.',
  },
  dynamicProcessSets: {
    env: 'HOROVOD_DYNAMIC_PROCESS_SETS',
    kind: boolean,
    default: false,
    text: 'Allow process sets to be added and removed after init().',
  },
});
