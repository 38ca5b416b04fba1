// The options of `horovod status`.

import { parseArgs } from 'node:util';
import { HorovodError } from '../../errors.ts';

/** The size of a terminal. */
export interface Screen {
  readonly columns: number;
  readonly rows: number;
}

export interface StatusOptions {
  readonly help: boolean;
  readonly json: boolean;
  readonly once: boolean;
  /** Undefined: as the terminal asks for. */
  readonly watchSeconds?: number | undefined;
  readonly job?: string | undefined;
  readonly host?: string | undefined;
  readonly sshPort?: number | undefined;
  readonly sshIdentityFile?: string | undefined;
  /** Not for users: our own call on another host draws for a terminal of this size here. */
  readonly screen?: Screen | undefined;
}

export const statusHelp = `usage: horovod status [options]

Shows what the ranks of running jobs are doing: on a terminal again every 2 seconds until Ctrl-C or the end of the jobs,
otherwise once. It finds the jobs of the same user on this machine, however they were started, with the ranks of all
their hosts; it needs no port and asks no rank for anything.

Options:
  -w, --watch SECONDS        show it again every so many seconds, also where the output is no terminal
  --once                     show it once
  --job ID                   only this job; the beginning of its id is enough
  --json                     as JSON, one line each time
  --host NAME                look from another machine, by ssh: the jobs that have ranks there
  -p, --ssh-port PORT        for --host
  --ssh-identity-file FILE   for --host
  -h, --help                 this text

Columns:
  step, samples/s   from DistributedOptimizer and the other adapters, or markStep({ samples }) in a loop of one's own
  last collective   the newest one this rank has asked for
  state             what it waits for, for how long and for whom; or what became of it
  bytes/s           given to collectives by this rank
  late              how long the others wait for this rank: now, or in each of the last steps
  age               of the information: half a second is usual, one and a half for ranks of other hosts

The exit code is 0, or 1 if there is no such job, or 2 for wrong options.
`;

export function parseStatusOptions(argv: readonly string[]): StatusOptions {
  const { values, positionals } = parse(argv);
  if (positionals.length > 0) throw usage(`it takes no argument ${JSON.stringify(positionals[0])}.`);
  const { help = false, json = false, once = false, job, host } = values;
  const watchSeconds =
    values.watch === undefined ? undefined : numberOf(values.watch, '--watch', 0.1, 86_400);
  if (once && watchSeconds !== undefined) throw usage('--once and --watch contradict each other.');
  if (job !== undefined && !/^[0-9a-z]{1,64}$/i.test(job)) {
    throw usage(`--job takes the id of a job, as the table shows it, not ${JSON.stringify(job)}.`);
  }
  if (host !== undefined && !/^[^\s-][^\s]*$/.test(host)) {
    throw usage(`--host takes the name of a machine, not ${JSON.stringify(host)}.`);
  }
  const port = values['ssh-port'];
  const sshPort = port === undefined ? undefined : numberOf(port, '--ssh-port', 1, 65_535);
  const sshIdentityFile = values['ssh-identity-file'];
  if (host === undefined && (sshPort !== undefined || sshIdentityFile !== undefined)) {
    throw usage('--ssh-port and --ssh-identity-file belong to --host.');
  }
  return {
    help,
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

function parse(argv: readonly string[]) {
  try {
    return parseArgs({
      args: [...argv],
      allowPositionals: true,
      options: {
        help: { type: 'boolean', short: 'h' },
        json: { type: 'boolean' },
        once: { type: 'boolean' },
        screen: { type: 'string' },
        watch: { type: 'string', short: 'w' },
        job: { type: 'string' },
        host: { type: 'string' },
        'ssh-port': { type: 'string', short: 'p' },
        'ssh-identity-file': { type: 'string' },
      },
    });
  } catch (error) {
    throw usage(`${(error as Error).message.split('. ')[0]}.`);
  }
}

function screenOf(text: string | undefined): Screen | undefined {
  const [columns = 0, rows = 0] = (text ?? '').split('x').map(Number);
  return columns > 0 && rows > 0 ? { columns, rows } : undefined;
}

function numberOf(text: string, flag: string, least: number, most: number): number {
  const value = Number(text);
  if (text.trim() === '' || !Number.isFinite(value) || value < least || value > most) {
    throw usage(`${flag} takes a number from ${least} to ${most}, not ${JSON.stringify(text)}.`);
  }
  return value;
}

function usage(message: string): HorovodError {
  return new HorovodError('ERR_HVD_SETTING', message);
}
