// The options of `horovod status`.

import { settingError } from '../../settings/setting.ts';
import { parseOptions } from '../subcommand.ts';

/** The size of a terminal. */
export interface Screen {
  readonly columns: number;
  readonly rows: number;
}

export interface StatusOptions {
  readonly help: boolean;
  /** Of the config of a data service, which is shown instead of jobs. */
  readonly config?: string | undefined;
  readonly json: boolean;
  readonly once: boolean;
  /** Undefined: depends on the terminal. */
  readonly watchSeconds?: number | undefined;
  readonly job?: string | undefined;
  readonly host?: string | undefined;
  readonly sshPort?: number | undefined;
  readonly sshIdentityFile?: string | undefined;
  /** Internal: `horovod status --host` passes the size of the local terminal. */
  readonly screen?: Screen | undefined;
}

export const statusHelp = `Usage: horovod status [options]
       horovod status CONFIG [--watch SECONDS | --once] [--json]

Show what the ranks of running jobs are doing. On a terminal, the table is updated every 2 s until you press Ctrl-C or the
jobs end; otherwise it is printed once. It shows all your jobs on this machine, no matter how they were started, with the
ranks on all their hosts. It needs no port and does not disturb the ranks.

With CONFIG, the config file of a data service, show its jobs and workers.

Options:
  -w, --watch SECONDS       Print the table every SECONDS, even if the output is not a terminal
  --once                    Print the table once
  --job ID                  Show only this job. The first characters of its id are enough
  --json                    Print one line of JSON each time
  --host NAME               Show the jobs that have ranks on another machine, over ssh
  -p, --ssh-port PORT       Port of the ssh server (with --host)
  --ssh-identity-file FILE  Private key file for ssh (with --host)
  -h, --help                Print this help

Columns:
  step, samples/s  Training steps and samples, as counted by DistributedOptimizer and similar or by markStep({ samples })
  last collective  The newest collective that this rank has called
  state            What the rank is waiting for and how long, or how it ended. Empty if it is working
  bytes/s          Bytes that this rank passes to collectives
  late             How long the others have been waiting for this rank, or how late it was in each of the last steps
  data             Share of the time in which training waits for data, where it reads with horovod/data
  age              Age of the information: about 0.5 s, or 1.5 s for ranks on other hosts

Columns of a data service:
  worker           Its number; D: its process also runs a dispatcher
  batches/s, MB/s  What it sends to training processes
  leases           Parts of the data that it works on
  arena            How full its memory for finished batches is
  busiest stage    What its threads spend most of their time on

The exit code is 0, 1 if there is no such job, or 2 for usage errors.
`;

export function parseStatusOptions(argv: readonly string[]): StatusOptions {
  const { values, positionals } = parseOptions(argv, {
    help: { type: 'boolean', short: 'h' },
    json: { type: 'boolean' },
    once: { type: 'boolean' },
    screen: { type: 'string' },
    watch: { type: 'string', short: 'w' },
    job: { type: 'string' },
    host: { type: 'string' },
    'ssh-port': { type: 'string', short: 'p' },
    'ssh-identity-file': { type: 'string' },
  });
  const [config, ...more] = positionals;
  if (more.length > 0) throw settingError(`unexpected argument ${JSON.stringify(more[0])}.`);
  const { help = false, json = false, once = false, job, host } = values;
  const watchSeconds =
    values.watch === undefined
      ? undefined
      : numberOf(values.watch, { flag: '--watch', min: 0.1, max: 86_400 });
  if (once && watchSeconds !== undefined) throw settingError('--once and --watch cannot be used together.');
  if (job !== undefined && !/^[0-9a-z]{1,64}$/i.test(job)) {
    throw settingError(`--job expects a job id as shown in the table, not ${JSON.stringify(job)}.`);
  }
  if (host !== undefined && !/^[^\s-][^\s]*$/.test(host)) {
    throw settingError(`--host expects the name of a machine, not ${JSON.stringify(host)}.`);
  }
  if (config !== undefined && (job !== undefined || host !== undefined)) {
    throw settingError('--job and --host cannot be used with the config of a data service.');
  }
  const port = values['ssh-port'];
  const sshPort =
    port === undefined ? undefined : numberOf(port, { flag: '--ssh-port', min: 1, max: 65_535 });
  const sshIdentityFile = values['ssh-identity-file'];
  if (host === undefined && (sshPort !== undefined || sshIdentityFile !== undefined)) {
    throw settingError('--ssh-port and --ssh-identity-file can only be used with --host.');
  }
  return {
    help,
    ...(config === undefined ? {} : { config }),
    json,
    once,
    screen: screenOf(values.screen),
    watchSeconds,
    job,
    host,
    sshPort,
    sshIdentityFile,
  };
}

function screenOf(text: string | undefined): Screen | undefined {
  const [columns = 0, rows = 0] = (text ?? '').split('x').map(Number);
  return columns > 0 && rows > 0 ? { columns, rows } : undefined;
}

function numberOf(
  text: string,
  { flag, min, max }: { readonly flag: string; readonly min: number; readonly max: number },
): number {
  const value = Number(text);
  if (text.trim() === '' || !Number.isFinite(value) || value < min || value > max) {
    throw settingError(`${flag} expects a number from ${min} to ${max}, not ${JSON.stringify(text)}.`);
  }
  return value;
}
