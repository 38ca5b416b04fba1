// The command that starts an agent on another host. It uses the user's ssh, with its config, keys, agents, jump hosts and
// Kerberos. The remote command is one line for /bin/sh that any login shell passes on unchanged: no `!`, and only single
// quotes around words. Pure functions.

import type { RankCommand } from '../spawn/rank-process.ts';

export interface SshOptions {
  readonly port?: number | undefined;
  readonly identityFile?: string | undefined;
  /** For one attempt to connect. */
  readonly connectTimeoutMs: number;
  /** A program to use instead of ssh, like Open MPI's plm_rsh_agent. It takes a host and a command. */
  readonly remoteShell?: readonly string[] | undefined;
}

export function sshCommand(host: string, remoteCommand: string, options: SshOptions): RankCommand {
  const { port, identityFile, connectTimeoutMs, remoteShell } = options;
  const [program, ...words] = remoteShell ?? [];
  // Another program than ssh does not know its flags.
  if (program !== undefined && !/(^|\/)ssh$/.test(program)) {
    return { file: program, args: [...words, host, remoteCommand] };
  }
  return {
    file: program ?? 'ssh',
    args: [
      ...words,
      // No terminal and no questions, because a question would hang silently.
      ...['-T', '-o', 'BatchMode=yes'],
      ...['-o', `ConnectTimeout=${Math.max(1, Math.ceil(connectTimeoutMs / 1000))}`],
      // We may use a shared connection, but not open one: ours ends with the job, and others would lose it.
      ...['-o', 'ControlMaster=no'],
      ...(port === undefined ? [] : ['-p', String(port)]),
      ...(identityFile === undefined ? [] : ['-i', identityFile]),
      // After --, a host name cannot be an option.
      ...['--', host, remoteCommand],
    ],
  };
}

export interface RemotePlaces {
  readonly directory: string;
  /** The path of Node here. It is tried first there, then `node` on the PATH. */
  readonly node: string;
  /** Possible paths of the agent; the first that exists is used. */
  readonly agents: readonly string[];
}

// Words of protocol.ts. $1 directory, $2 Node, then the agents.
const script = [
  'echo "horovod-agent shell"',
  'cd "$1" >/dev/null 2>&1 || { echo "horovod-agent problem no-directory"; exit 3; }',
  'node=$2',
  '[ -x "$node" ] || node=$(command -v node) || { echo "horovod-agent problem no-node $PATH"; exit 3; }',
  'shift 2',
  'for agent in "$@"; do if [ -r "$agent" ]; then exec "$node" "$agent"; fi; done',
  'echo "horovod-agent problem no-package"; exit 3',
].join('; ');

export function remoteCommand({ directory, node, agents }: RemotePlaces): string {
  return ['exec', '/bin/sh', '-c', ...[script, 'horovod-agent', directory, node, ...agents].map(quoted)].join(
    ' ',
  );
}

/** The word in quotes, for any shell. */
export function quoted(word: string): string {
  return `'${word.replaceAll("'", `'\\''`)}'`;
}

/** OMPI_MCA_plm_rsh_agent: a program with arguments, or several separated by colons, of which the first is used. */
export function parseRemoteShell(text: string | undefined): string[] | undefined {
  const words = (text ?? '')
    .split(/\s+:\s+|:(?=\s|$)/)[0]
    ?.trim()
    .split(/\s+/);
  return words === undefined || words[0] === '' ? undefined : words;
}
