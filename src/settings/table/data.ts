// Reading training data: threads, memory, where indexes are kept.

import { resolve } from 'node:path';
import type { JobSecret } from '../job-secret.ts';
import { anyText, boolean, integer, secretKey } from '../kinds.ts';
import { inGroup, type SettingsOf } from '../setting.ts';

export interface DataSettings {
  /** Undefined: from the number of cores. */
  readonly dataThreads: number | undefined;
  readonly dataMemoryMb: number;
  readonly dataCache: string | undefined;
  readonly dataCheck: boolean;
  /** Of a data service; undefined: its config file has it. */
  readonly dataServiceKey: JobSecret | undefined;
}

const absolute = (text: string): string => (text === '' || /^[a-z]+:/.test(text) ? text : resolve(text));

export const dataSettings: SettingsOf<DataSettings> = inGroup('Files', {
  dataThreads: {
    env: 'HOROVOD_DATA_THREADS',
    kind: integer(),
    defaultText: "the rank's cores − 1, at least 1",
    text: 'Threads of each rank that parse, map and batch the samples of a dataset. One more thread reads. 0: everything in the main thread, for debugging.',
  },
  dataMemoryMb: {
    env: 'HOROVOD_DATA_MEMORY_MB',
    kind: integer(1),
    default: 512,
    text: 'Memory of each rank for samples that are read ahead, in MiB.',
  },
  dataCache: {
    env: 'HOROVOD_DATA_CACHE',
    yaml: { key: 'data.cache', toText: absolute },
    kind: anyText,
    defaultText: 'beside the data',
    text: 'Folder for the indexes of data files (where their records are). By default they are written beside the files, if that is possible.',
  },
  dataCheck: {
    env: 'HOROVOD_DATA_CHECK',
    kind: boolean,
    default: false,
    text: 'Computes one batch in a hundred twice and compares the results, to find functions of a pipeline that give other results when a batch is made again. For debugging.',
  },
  dataServiceKey: {
    env: 'HOROVOD_DATA_SERVICE_KEY',
    kind: secretKey,
    isSecret: true,
    defaultText: 'in the config file of the data service',
    text: 'Key of a data service, 32 bytes in hex, the same for compute workers and training processes. Keeps it out of the config file, where others may be able to read that. Never printed.',
  },
});
