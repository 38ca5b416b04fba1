// `horovod status --host NAME`: runs the same command on another machine over ssh, and passes on its output.

import { spawn } from 'node:child_process';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseRemoteShell, quoted, sshCommand } from '../../launch/ssh/ssh-command.ts';
import type { CommandOutput } from '../subcommand.ts';

const connectTimeoutMs = 10_000;
/** The exit code of ssh if ssh itself fails. */
const sshFailedCode = 255;
const noPackageCode = 3;

// $1 Node, $2 and $3 where the command may be, then its arguments.
const script = [
  'node=$1; first=$2; second=$3; shift 3',
  '[ -x "$node" ] || node=$(command -v node) || { echo "Node was not found on the PATH ($PATH)" >&2; exit 3; }',
  'for file in "$first" "$second"; do if [ -r "$file" ]; then exec "$node" "$file" "$@"; fi; done',
  'echo "horovod was not found at $first or $second" >&2; exit 3',
].join('; ');

export interface RemoteCall {
  readonly host: string;
  /** For `horovod`: 'status', … */
  readonly argv: readonly string[];
  readonly port?: number | undefined;
  readonly identityFile?: string | undefined;
  readonly environment: NodeJS.ProcessEnv;
  /** For messages. Default: 'horovod status'. */
  readonly caller?: string | undefined;
  /** Ends the other command. */
  readonly signal?: AbortSignal | undefined;
}

/** For a test: the program and its arguments. */
export function remoteCall({ host, argv, port, identityFile, environment }: RemoteCall): {
  readonly file: string;
  readonly args: readonly string[];
} {
  const own = fileURLToPath(new URL('../main.js', import.meta.url));
  const installed = join(process.cwd(), 'node_modules/horovod/dist/cli/main.js');
  const words = [script, 'horovod', process.execPath, own, installed, ...argv];
  const remoteShell = parseRemoteShell(environment['OMPI_MCA_plm_rsh_agent']);
  const command = ['exec', '/bin/sh', '-c', ...words.map(quoted)].join(' ');
  return sshCommand(host, command, { port, identityFile, connectTimeoutMs, remoteShell });
}

/** Resolves to the exit code. */
export function runOverSsh(call: RemoteCall, output: CommandOutput): Promise<number> {
  const { file, args } = remoteCall(call);
  const { environment: env, caller = 'horovod status', signal: abort } = call;
  const child = spawn(file, args, { env, stdio: ['ignore', 'pipe', 'pipe'] });
  const end = () => child.kill();
  abort?.addEventListener('abort', end, { once: true });
  child.stdout.setEncoding('utf8').on('data', (text: string) => output.out(text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => output.error(text));
  return new Promise((resolve) => {
    child.once('error', (error) => {
      output.error(`${caller}: cannot run ${file}: ${error.message}. Install an ssh client.\n`);
      resolve(1);
    });
    child.once('close', (code, signal) => {
      abort?.removeEventListener('abort', end);
      if (code === sshFailedCode) {
        output.error(
          `${caller}: ${basename(file)} could not connect to ${call.host}, or lost the connection (see above). ` +
            `This must work without a password: ssh ${call.host} true\n`,
        );
      } else if (code === noPackageCode) {
        output.error(
          `${caller}: ${call.host} needs Node 20.19 or later and this package at the same path as here.\n`,
        );
      }
      resolve(signal !== null || code === sshFailedCode || code === noPackageCode ? 1 : (code ?? 1));
    });
  });
}
