// The command that starts an agent on another host. ssh is the user's own: it knows config, keys, agents, jump hosts
// and Kerberos. What runs there is one line for /bin/sh, whatever the login shell: no `!`, no quotes but single ones
// around words. Pure functions.

import type { RankCommand } from '../spawn/rank-process.ts';

export interface SshOptions {
  readonly port?: number | undefined;
  readonly identityFile?: string | undefined;
  /** Of one attempt to connect. */
  readonly connectTimeoutMs: number;
  /** Instead of ssh: a program that takes a host and a command, as Open MPI's plm_rsh_agent is. */
  readonly remoteShell?: readonly string[] | undefined;
}

export function sshCommand(host: string, remoteCommand: string, options: SshOptions): RankCommand {
  const { port, identityFile, connectTimeoutMs, remoteShell } = options;
  const [program, ...words] = remoteShell ?? [];
  // Not ssh itself: its flags are its own.
  if (program !== undefined && !/(^|\/)ssh$/.test(program)) {
    return { file: program, args: [...words, host, remoteCommand] };
  }
  return {
    file: program ?? 'ssh',
    args: [
      ...words,
      // No terminal, and nobody is asked anything: a question would be a silent hang.
      ...['-T', '-o', 'BatchMode=yes'],
      ...['-o', `ConnectTimeout=${Math.max(1, Math.ceil(connectTimeoutMs / 1000))}`],
      // A connection that is shared with others would end theirs when we end it; using theirs is fine.
      ...['-o', 'ControlMaster=no'],
      ...(port === undefined ? [] : ['-p', String(port)]),
      ...(identityFile === undefined ? [] : ['-i', identityFile]),
      // A host name is never an option.
      ...['--', host, remoteCommand],
    ],
  };
}

export interface RemotePlaces {
  readonly directory: string;
  /** The Node that runs horovodrun: the same path is tried first, then `node` of the PATH there. */
  readonly node: string;
  /** Where the agent may be; the first that exists is taken. */
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

/** One word for any shell. */
export function quoted(word: string): string {
  return `'${word.replaceAll("'", `'\\''`)}'`;
}

/** OMPI_MCA_plm_rsh_agent: a program with arguments, or several with colons between them; the first counts. */
export function parseRemoteShell(text: string | undefined): string[] | undefined {
  const words = (text ?? '')
    .split(/\s+:\s+|:(?=\s|$)/)[0]
    ?.trim()
    .split(/\s+/);
  return words === undefined || words[0] === '' ? undefined : words;
}
