// How a job starts, and which parts of the machine its ranks get.

import { boolean, parameterList, seconds } from '../kinds.ts';
import { inGroup, onOff, type SettingsOf } from '../setting.ts';

export interface StartingSettings {
  readonly startTimeoutMs: number;
  readonly sparkStartTimeoutMs: number;
  readonly pinCores: boolean;
  readonly pinGpus: boolean;
  /** Texts of values by name. */
  readonly notebookParameters: ReadonlyMap<string, string> | undefined;
}

export const startingSettings: SettingsOf<StartingSettings> = inGroup('Launching', {
  startTimeoutMs: {
    env: 'HOROVOD_START_TIMEOUT',
    flags: [{ names: ['--start-timeout'], operand: 'SECONDS' }],
    kind: seconds({ zero: false }),
    default: 30_000,
    text: 'Time limit for the hosts to get ready, and in init() for all ranks to connect.',
  },
  sparkStartTimeoutMs: {
    env: 'HOROVOD_SPARK_START_TIMEOUT',
    kind: seconds({ zero: false }),
    default: 600_000,
    text: 'Time limit for Spark to start its tasks; read by horovod/spark and horovod_spark.py. --start-timeout is for what follows.',
  },
  pinCores: {
    env: 'HOROVOD_PIN_CORES',
    flags: onOff('pin-cores'),
    yaml: { key: 'launching.pin_cores' },
    kind: boolean,
    default: false,
    text: 'Bind each rank to its own share of the CPU cores that horovodrun may use (Linux; needs taskset).',
  },
  pinGpus: {
    env: 'HOROVOD_PIN_GPUS',
    flags: onOff('pin-gpus'),
    yaml: { key: 'launching.pin_gpus' },
    kind: boolean,
    default: false,
    text: "Give each rank one GPU: set CUDA_VISIBLE_DEVICES by local rank, from horovodrun's own list if it has one.",
  },
  notebookParameters: {
    env: 'HOROVOD_NOTEBOOK_PARAMETERS',
    flags: [
      {
        names: ['--notebook-parameter'],
        operand: 'NAME=VALUE',
        joinedWith: '\n',
        toText: onOneLine,
      },
    ],
    kind: parameterList,
    text:
      'With a notebook as the command: the value of a name in its cell with the tag `parameters`, as JSON or as text. The flag can be ' +
      'repeated; the variable has one `NAME=VALUE` per line.',
  },
});

/** A value with line ends, as JSON. */
function onOneLine(text: string): string {
  if (!text.includes('\n')) return text;
  const at = text.indexOf('=') + 1;
  return `${text.slice(0, at)}${JSON.stringify(text.slice(at))}`;
}
