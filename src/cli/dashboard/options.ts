// The options of `horovod dashboard`.

import { hostNameList } from '../../settings/kinds.ts';
import { settingError } from '../../settings/setting.ts';
import { parseOptions } from '../subcommand.ts';

export interface DashboardOptions {
  readonly help: boolean;
  readonly job?: string | undefined;
  readonly host?: string | undefined;
  readonly sshPort?: number | undefined;
  readonly sshIdentityFile?: string | undefined;
  /** Of the page; 0: any free one. */
  readonly port: number;
  readonly bind?: string | undefined;
  readonly names?: readonly string[] | undefined;
  readonly outputDirectory?: string | undefined;
  readonly save?: string | undefined;
  readonly keep: boolean;
  readonly open: boolean;
}

export const dashboardHelp = `Usage: horovod dashboard [options]

Show a running job on a web page: what its ranks do and who is slow, loss and metrics, memory and GPUs of its hosts. It shows a
job of yours on this machine, no matter how it was started, with the ranks on all its hosts, and does not disturb the ranks.
It prints the URL of the page and ends with the job. To see the logs of the ranks as well, start the job with
horovodrun --dashboard, or with --output-filename DIR and give DIR here.

Options:
  --job ID                  The job, as shown by horovod status. The first characters of its id are enough
  --output-dir DIR          Show the logs that horovodrun --output-filename DIR writes
  --port PORT               Port of the page; otherwise any free one
  --bind ADDRESS            Serve the page at this address, so that other machines reach it. Default: 127.0.0.1
  --dashboard-host NAME,…   More names by which browsers reach the page, NAME or NAME:PORT, such as those of a proxy
  --save FILE               At the end, write the page with all it shows to one HTML file
  --keep                    Keep the page running when the job has ended, until Ctrl-C
  --open                    Open the page in a browser, where there is a display
  --host NAME               Show a job that has ranks on another machine, over ssh
  -p, --ssh-port PORT       Port of the ssh server (with --host)
  --ssh-identity-file FILE  Private key file for ssh (with --host)
  -h, --help                Print this help

The exit code is 0, 1 if there is no such job, or 2 for usage errors.
`;

export function parseDashboardOptions(argv: readonly string[]): DashboardOptions {
  const { values, positionals } = parseOptions(argv, {
    help: { type: 'boolean', short: 'h' },
    job: { type: 'string' },
    host: { type: 'string' },
    'ssh-port': { type: 'string', short: 'p' },
    'ssh-identity-file': { type: 'string' },
    port: { type: 'string' },
    bind: { type: 'string' },
    'dashboard-host': { type: 'string' },
    'output-dir': { type: 'string' },
    save: { type: 'string' },
    keep: { type: 'boolean' },
    open: { type: 'boolean' },
  });
  if (positionals.length > 0) throw settingError(`unexpected argument ${JSON.stringify(positionals[0])}.`);
  const { help = false, job, host, bind, save, keep = false, open = false } = values;
  if (job !== undefined && !/^[0-9a-z]{1,64}$/i.test(job))
    throw settingError(`--job expects a job id as shown by horovod status, not ${JSON.stringify(job)}.`);
  if (host !== undefined && !/^[^\s-][^\s]*$/.test(host))
    throw settingError(`--host expects the name of a machine, not ${JSON.stringify(host)}.`);
  const sshPort = portOf(values['ssh-port'], '--ssh-port', 1);
  const sshIdentityFile = values['ssh-identity-file'];
  if (host === undefined && (sshPort !== undefined || sshIdentityFile !== undefined))
    throw settingError('--ssh-port and --ssh-identity-file can only be used with --host.');
  const names = values['dashboard-host'];
  const parsedNames = names === undefined ? undefined : hostNameList.parse(names);
  if (names !== undefined && parsedNames === undefined)
    throw settingError(`--dashboard-host is ${JSON.stringify(names)}; expected ${hostNameList.accepts}.`);
  return {
    help,
    job,
    host,
    sshPort,
    sshIdentityFile,
    port: portOf(values.port, '--port', 0) ?? 0,
    bind,
    names: parsedNames,
    outputDirectory: values['output-dir'],
    save,
    keep,
    open,
  };
}

function portOf(text: string | undefined, flag: string, min: number): number | undefined {
  if (text === undefined) return undefined;
  const value = Number(text);
  if (/^\d+$/.test(text) && value >= min && value <= 65_535) return value;
  throw settingError(`${flag} expects a number from ${min} to 65535, not ${JSON.stringify(text)}.`);
}
