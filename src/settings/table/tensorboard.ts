// TensorBoard: where jobs write what it shows, and how horovodrun finds it.

import { anyText } from '../kinds.ts';
import { inGroup, type SettingsOf } from '../setting.ts';
import { absoluteLocation } from './absolute-location.ts';

export interface TensorBoardSettings {
  readonly tensorboardDir: string;
  /** Undefined: it is looked for. */
  readonly tensorboardCommand: string | undefined;
}

export const tensorBoardSettings: SettingsOf<TensorBoardSettings> = inGroup('Monitoring and logging', {
  tensorboardDir: {
    env: 'HOROVOD_TENSORBOARD_DIR',
    flags: [{ names: ['--tensorboard-logdir'], operand: 'DIR', toText: absoluteLocation }],
    yaml: { key: 'tensorboard.logdir', toText: absoluteLocation },
    kind: anyText,
    default: 'logs',
    text: 'Folder for TensorBoard, which may be a URL, such as hdfs://…. Each job has a folder of its own in it, which logdir() of horovod/tensorboard returns.',
  },
  tensorboardCommand: {
    env: 'HOROVOD_TENSORBOARD',
    kind: anyText,
    defaultText: 'tensorboard in the PATH or in $VIRTUAL_ENV, else python3 -m tensorboard.main',
    text: 'The program that --tensorboard starts.',
  },
});
