// The options of `horovod compute-worker`. Rank and size come from whoever has started the process.

import { statSync } from 'node:fs';
import { resolve } from 'node:path';
import type { DispatcherSide } from '../../data/service/registry-messages.ts';
import { readSettings } from '../../settings/read-settings.ts';
import { settingError } from '../../settings/setting.ts';
import { parseOptions } from '../subcommand.ts';

export interface ComputeWorkerCommand {
  readonly path: string;
  readonly rank: number;
  readonly size: number;
  readonly dispatchers: number;
  readonly dispatcherSide: DispatcherSide;
  /** In seconds. */
  readonly timeout: number;
  readonly threads: number | undefined;
  readonly memoryBytes: number;
  /** An absolute path. */
  readonly modules: string;
  readonly joins: boolean;
  /** Part of an elastic job. */
  readonly isElastic: boolean;
}

export const computeWorkerHelp = `Usage: horovodrun -np N horovod compute-worker FILE [options]
       horovod compute-worker FILE --join [options]

Run a data service: N compute workers that read and prepare training data for other jobs. FILE is where training processes find the
service. It is written when the service starts and removed when it ends, so it must be on a file system that both jobs share,
which can be HDFS. The service ends with SIGTERM or Ctrl-C, or when a training process calls computeClient().shutdown().

Works with horovodrun, mpirun and srun, or with --rank and --size in each process. With horovodrun --keep-going, the service goes on
when a worker is lost; in an elastic job (horovodrun --min-np), lost workers are also replaced.

Options:
  --dispatchers N          Number of dispatchers, a divisor of the number of workers (default 1)
  --dispatcher-side SIDE   Where dispatchers run: compute (default) or training
  --timeout SECONDS        Time for processes to register and connect (default 60)
  --threads N              Threads of each worker that prepare samples (default: its cores − 1; HOROVOD_DATA_THREADS)
  --memory-mb M            Memory of each worker for samples and batches, in MiB (default 512; HOROVOD_DATA_MEMORY_MB)
  --modules DIR            Folder with the modules whose functions pipelines may use (default: the current directory). Nothing
                           outside it is ever loaded
  --join                   Add one worker to the service of FILE
  --rank R, --size N       Number of this process and how many there are, without a launcher
  -h, --help               Print this help

The exit code is 0 at the end of the service, 1 if something has failed, or 2 for usage errors.
`;

/** Undefined if help is asked for. */
export function parseComputeWorker(
  argv: readonly string[],
  environment: NodeJS.ProcessEnv,
): ComputeWorkerCommand | undefined {
  const { values, positionals } = parseOptions(argv, {
    dispatchers: { type: 'string' },
    'dispatcher-side': { type: 'string' },
    timeout: { type: 'string' },
    threads: { type: 'string' },
    'memory-mb': { type: 'string' },
    modules: { type: 'string' },
    join: { type: 'boolean' },
    rank: { type: 'string' },
    size: { type: 'string' },
    help: { type: 'boolean', short: 'h' },
  });
  if (values.help) return undefined;
  const [path, ...more] = positionals;
  if (path === undefined) throw settingError('FILE is missing: the path of the config of the service.');
  if (more.length > 0) throw settingError(`unexpected ${more.join(', ')}.`);
  const side = values['dispatcher-side'] ?? 'compute';
  if (side !== 'compute' && side !== 'training')
    throw settingError(`--dispatcher-side is compute or training, not ${JSON.stringify(side)}.`);
  const joins = values.join ?? false;
  if (joins) {
    const fixed = ['dispatchers', 'dispatcher-side', 'rank', 'size'] as const;
    const given = fixed.filter((name) => values[name] !== undefined).map((name) => `--${name}`);
    if (given.length > 0) throw settingError(`--join takes no ${given.join(', ')}: FILE says that.`);
  }
  const settings = readSettings(environment);
  return {
    path,
    ...(joins ? { rank: 0, size: 1 } : placeOf(values.rank, values.size, settings.launcher)),
    dispatchers: integer('--dispatchers', values.dispatchers ?? '1', 1),
    dispatcherSide: side,
    timeout: seconds(values.timeout ?? '60'),
    threads: values.threads === undefined ? settings.dataThreads : integer('--threads', values.threads, 0),
    memoryBytes: integer('--memory-mb', values['memory-mb'] ?? String(settings.dataMemoryMb), 1) * 2 ** 20,
    modules: folder(values.modules ?? '.'),
    joins,
    isElastic: settings.worker !== undefined && values.rank === undefined,
  };
}

function placeOf(
  rank: string | undefined,
  size: string | undefined,
  launcher: { readonly rank: number | undefined; readonly size: number },
): { rank: number; size: number } {
  if ((rank === undefined) !== (size === undefined)) throw settingError('--rank and --size belong together.');
  if (rank === undefined || size === undefined) {
    if (launcher.rank === undefined)
      throw settingError('HOROVOD_RENDEZVOUS is set without HOROVOD_RANK: give --rank and --size.');
    return { rank: launcher.rank, size: launcher.size };
  }
  const place = { rank: integer('--rank', rank, 0), size: integer('--size', size, 1) };
  if (place.rank >= place.size) throw settingError(`--rank ${rank} must be less than --size ${size}.`);
  return place;
}

function integer(flag: string, text: string, min: number): number {
  const value = Number(text);
  if (/^\d{1,9}$/.test(text) && value >= min) return value;
  throw settingError(`${flag} is an integer ≥ ${min}, not ${JSON.stringify(text)}.`);
}

function seconds(text: string): number {
  const value = Number(text);
  if (/^\d+(\.\d+)?$/.test(text) && value > 0 && value <= 86_400) return value;
  throw settingError(`--timeout is a number of seconds, such as 60 or 0.5, not ${JSON.stringify(text)}.`);
}

function folder(path: string): string {
  const absolute = resolve(path);
  if (statSync(absolute, { throwIfNoEntry: false })?.isDirectory() === true) return absolute;
  throw settingError(`--modules: ${absolute} is not a folder.`);
}
