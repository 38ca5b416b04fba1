// Autotune, with the names of Python Horovod.

import { anyText, boolean, fraction, integer } from '../kinds.ts';
import { inGroup, onOff, type SettingsOf } from '../setting.ts';

export interface AutotuneSettings {
  readonly autotune: boolean;
  readonly autotuneLog: string | undefined;
  readonly autotuneFile: string | undefined;
  readonly autotuneWarmupSamples: number;
  readonly autotuneStepsPerSample: number;
  readonly autotuneMaxSamples: number;
  /** Undefined: estimated from the samples. */
  readonly autotuneNoise: number | undefined;
}

export const autotuneSettings: SettingsOf<AutotuneSettings> = inGroup('Autotune', {
  autotune: {
    env: 'HOROVOD_AUTOTUNE',
    flags: onOff('autotune'),
    yaml: { key: 'autotune.enabled' },
    kind: boolean,
    default: false,
    text: 'Tune the settings that you have not set yourself during training, and keep what is measurably faster.',
  },
  autotuneLog: {
    env: 'HOROVOD_AUTOTUNE_LOG',
    flags: [{ names: ['--autotune-log-file'], operand: 'FILE' }],
    yaml: { key: 'autotune.log_file' },
    kind: anyText,
    text: 'CSV file in which rank 0 logs every configuration it tries, with its time. The last row is the result.',
  },
  autotuneFile: {
    env: 'HOROVOD_AUTOTUNE_FILE',
    flags: [{ names: ['--autotune-file'], operand: 'FILE' }],
    yaml: { key: 'autotune.file' },
    kind: anyText,
    text: 'File for the result. Rank 0 writes it, and later jobs of the same shape use it instead of tuning again.',
  },
  autotuneWarmupSamples: {
    env: 'HOROVOD_AUTOTUNE_WARMUP_SAMPLES',
    flags: [{ names: ['--autotune-warmup-samples'], operand: 'N' }],
    yaml: { key: 'autotune.warmup_samples' },
    kind: integer(),
    default: 3,
    text: 'Number of samples to discard at the start. At least one is always discarded.',
  },
  autotuneStepsPerSample: {
    env: 'HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE',
    flags: [{ names: ['--autotune-steps-per-sample'], operand: 'N' }],
    yaml: { key: 'autotune.steps_per_sample' },
    kind: integer(1),
    default: 10,
    text: 'Number of training steps to time for one sample.',
  },
  autotuneMaxSamples: {
    env: 'HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES',
    flags: [{ names: ['--autotune-bayes-opt-max-samples'], operand: 'N' }],
    yaml: { key: 'autotune.bayes_opt_max_samples' },
    kind: integer(1),
    default: 20,
    text: 'Maximum number of samples for the search, one configuration each. The final comparison takes 8 to 24 more.',
  },
  autotuneNoise: {
    env: 'HOROVOD_AUTOTUNE_GAUSSIAN_PROCESS_NOISE',
    flags: [{ names: ['--autotune-gaussian-process-noise'], operand: 'FRACTION' }],
    yaml: { key: 'autotune.gaussian_process_noise' },
    kind: fraction,
    defaultText: 'estimated',
    text: 'Measurement noise, as a fraction of the effect that the settings have.',
  },
});
