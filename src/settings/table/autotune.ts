// Settings of autotune, with the names Python Horovod has for them.

import { anyText, share, truth, wholeNumber } from '../kinds.ts';
import type { SettingsOf } from '../types.ts';

export const autotuneSettings: SettingsOf<
  | 'autotune'
  | 'autotuneLog'
  | 'autotuneFile'
  | 'autotuneWarmupSamples'
  | 'autotuneStepsPerSample'
  | 'autotuneMaxSamples'
  | 'autotuneNoise'
> = {
  autotune: {
    group: 'Autotune',
    env: 'HOROVOD_AUTOTUNE',
    flags: [
      { names: ['--autotune'], text: '1' },
      { names: ['--no-autotune'], text: '0', isHidden: true },
    ],
    yaml: { key: 'autotune.enabled' },
    kind: truth,
    default: false,
    defaultText: '0',
    text: 'Looks for better settings of those that are not given, while training goes on, and keeps what is measurably faster.',
  },
  autotuneLog: {
    group: 'Autotune',
    env: 'HOROVOD_AUTOTUNE_LOG',
    flags: [{ names: ['--autotune-log-file'], operand: 'FILE' }],
    yaml: { key: 'autotune.log_file' },
    kind: anyText,
    default: undefined,
    defaultText: 'none',
    text: 'Where rank 0 writes each setting tried and its time, as CSV; the last row is what was chosen.',
  },
  autotuneFile: {
    group: 'Autotune',
    env: 'HOROVOD_AUTOTUNE_FILE',
    flags: [{ names: ['--autotune-file'], operand: 'FILE' }],
    yaml: { key: 'autotune.file' },
    kind: anyText,
    default: undefined,
    defaultText: 'none',
    text: 'Where the result is kept: used by a job of the same shape, instead of tuning again; written by rank 0 otherwise.',
  },
  autotuneWarmupSamples: {
    group: 'Autotune',
    env: 'HOROVOD_AUTOTUNE_WARMUP_SAMPLES',
    flags: [{ names: ['--autotune-warmup-samples'], operand: 'N' }],
    yaml: { key: 'autotune.warmup_samples' },
    kind: wholeNumber(),
    default: 3,
    text: 'How many samples are left out at the start; at least one is.',
  },
  autotuneStepsPerSample: {
    group: 'Autotune',
    env: 'HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE',
    flags: [{ names: ['--autotune-steps-per-sample'], operand: 'N' }],
    yaml: { key: 'autotune.steps_per_sample' },
    kind: wholeNumber(1),
    default: 10,
    text: 'How many training steps are timed for one sample.',
  },
  autotuneMaxSamples: {
    group: 'Autotune',
    env: 'HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES',
    flags: [{ names: ['--autotune-bayes-opt-max-samples'], operand: 'N' }],
    yaml: { key: 'autotune.bayes_opt_max_samples' },
    kind: wholeNumber(1),
    default: 20,
    text: 'How many samples the search may take, one setting each; the final comparison takes 8 to 24 more.',
  },
  autotuneNoise: {
    group: 'Autotune',
    env: 'HOROVOD_AUTOTUNE_GAUSSIAN_PROCESS_NOISE',
    flags: [{ names: ['--autotune-gaussian-process-noise'], operand: 'SHARE' }],
    yaml: { key: 'autotune.gaussian_process_noise' },
    kind: share,
    default: undefined,
    defaultText: 'estimated',
    text: "How much of what is measured is noise, as a share of the settings' own effect.",
  },
};
