// Explains why a host cannot be used, from the output of ssh and of the agent: host, phase, what happened and what to do.
// Pure functions. The messages of ssh are those of OpenSSH.

export interface HostProblem {
  readonly host: string;
  readonly phase: Phase;
  /** A clause, without a full stop. */
  readonly seen: string;
  /** One or more sentences. */
  readonly advice: string;
}

export type Phase =
  | 'ssh'
  | 'name'
  | 'network'
  | 'host key'
  | 'login'
  | 'directory'
  | 'Node'
  | 'package'
  | 'agent';

/** How far the start of an agent came, and what was seen. */
export interface Evidence {
  readonly host: string;
  /** The command with which users can try the connection themselves. */
  readonly tryByHand: string;
  readonly directory: string;
  /** The first path at which the package was looked for. */
  readonly agentPath: string;
  readonly stderr: string;
  /** The login worked, and our command has started. */
  readonly hasShell: boolean;
  /** A `problem` line: its word and the rest. */
  readonly problem?: { readonly word: string; readonly rest: string } | undefined;
  /** How the program ended; undefined: it is still running, and the time is up. */
  readonly end?: { readonly code: number } | { readonly signal: string } | undefined;
  /** The program could not be started. */
  readonly spawnError?: NodeJS.ErrnoException | undefined;
  readonly waitedMs: number;
  /** ssh gives up by itself if it cannot connect within this time. */
  readonly connectTimeoutMs: number;
}

export function hostProblem(evidence: Evidence): HostProblem {
  const { host } = evidence;
  return { host, ...(evidence.hasShell ? afterLogin(evidence) : beforeLogin(evidence)) };
}

type Finding = Omit<HostProblem, 'host'>;

function beforeLogin(evidence: Evidence): Finding {
  const { host, stderr, spawnError, tryByHand, end } = evidence;
  const program = tryByHand.split(' ', 1)[0] as string;
  if (spawnError !== undefined) {
    const seen =
      spawnError.code === 'ENOENT' ? `${program} was not found on this machine` : spawnError.message;
    return { phase: 'ssh', seen, advice: `Install an ssh client, or put ${program} on the PATH.` };
  }
  const said = (pattern: RegExp) =>
    stderr
      .split(/\r?\n/)
      .find((line) => pattern.test(line))
      ?.trim();
  for (const { pattern, phase, advice } of findings) {
    const line = said(pattern);
    if (line !== undefined)
      return { phase, seen: `${program} says: ${line}`, advice: advice(host, tryByHand) };
  }
  if (end === undefined && evidence.waitedMs > evidence.connectTimeoutMs) {
    return {
      phase: 'login',
      seen: `${program} connected, but the login did not complete within ${evidence.waitedMs / 1000} s`,
      advice: `Check whether its login scripts (~/.bashrc, ~/.profile) wait for something, or its home directory or user database is slow. Try \`${tryByHand} true\`.`,
    };
  }
  if (end === undefined) {
    return {
      phase: 'network',
      seen: `${program} got no answer within ${evidence.waitedMs / 1000} s`,
      advice: `Check that it is up and that no firewall drops packets to port 22. Try \`${tryByHand} true\`. If it is only slow, raise --start-timeout.`,
    };
  }
  return {
    phase: 'ssh',
    seen: `${program} ${describe(end)}${lastLine(stderr)}`,
    advice: `Try \`${tryByHand} true\`.`,
  };
}

const findings: readonly {
  readonly pattern: RegExp;
  readonly phase: Phase;
  readonly advice: (host: string, tryByHand: string) => string;
}[] = [
  {
    pattern: /Could not resolve hostname/i,
    phase: 'name',
    advice: (host) =>
      `Check the spelling of ${host} in -H, and DNS, /etc/hosts and ~/.ssh/config on this machine.`,
  },
  {
    pattern: /REMOTE HOST IDENTIFICATION HAS CHANGED/,
    phase: 'host key',
    advice: (host) =>
      `Its key differs from the one in known_hosts: the machine was reinstalled, or someone intercepts the connection. If you know the reason, run \`ssh-keygen -R ${host}\` and log in once by hand.`,
  },
  {
    pattern: /Host key verification failed|No \S+ host key is known/,
    phase: 'host key',
    advice: (_host, tryByHand) =>
      `Its key is not in known_hosts yet. Log in once by hand (\`${tryByHand}\`), add the key with ssh-keyscan, or set \`StrictHostKeyChecking accept-new\` in ~/.ssh/config.`,
  },
  {
    pattern: /UNPROTECTED PRIVATE KEY FILE|bad permissions/i,
    phase: 'login',
    advice: () => 'Other users can read the private key, so ssh does not use it. Run `chmod 600` on it.',
  },
  {
    pattern: /Permission denied|Too many authentication failures|No supported authentication methods/,
    phase: 'login',
    advice: (host) =>
      `It accepts none of your keys, and horovodrun never asks for passwords. Run \`ssh-copy-id ${host}\`, start ssh-agent, or pass the key with --ssh-identity-file.`,
  },
  {
    pattern: /Connection refused/,
    phase: 'network',
    advice: (host) =>
      `No ssh server listens on that port. Start sshd on ${host}, or pass its port with --ssh-port.`,
  },
  {
    pattern: /timed out|No route to host|Network is unreachable|Host is down/i,
    phase: 'network',
    advice: (_host, tryByHand) =>
      `Check that it is up and in the same network, and that no firewall drops packets to its ssh port. Try \`${tryByHand} true\`.`,
  },
  {
    pattern: /kex_exchange_identification|Connection (closed|reset) by|banner exchange/,
    phase: 'ssh',
    advice: (host) =>
      `Its ssh server closed the connection: there were too many logins at once (MaxStartups), or the port belongs to another program. See the log of sshd on ${host}.`,
  },
  {
    pattern: /Bad configuration|Bad port|terminating, \d+ bad configuration|unknown option|illegal option/i,
    phase: 'ssh',
    advice: () => 'Check ~/.ssh/config, --ssh-port and --ssh-identity-file.',
  },
];

function afterLogin(evidence: Evidence): Finding {
  const { host, problem, directory, agentPath, stderr, end, waitedMs } = evidence;
  switch (problem?.word) {
    case 'no-directory':
      return {
        phase: 'directory',
        seen: `the directory ${directory} does not exist or cannot be entered`,
        advice: `Ranks run in the directory in which you start horovodrun. Create it on ${host}, share it (NFS), or start horovodrun in a directory that all hosts have.`,
      };
    case 'no-node':
      return {
        phase: 'Node',
        seen: `Node was not found, neither at its path on this machine nor on the PATH of a non-interactive login (${problem.rest})`,
        advice: `Install Node 20.19 or later on ${host}, or set the PATH in a file that such logins read (~/.bashrc, ~/.zshenv, /etc/environment).`,
      };
    case 'node-too-old':
      return tooOld(
        host,
        `Node ${problem.rest.split(' ')[0]} (${problem.rest.split(' ').slice(1).join(' ')})`,
      );
    case 'no-package':
      return {
        phase: 'package',
        seen: `the package horovod was not found at ${packageFolder(agentPath)} or in ${directory}/node_modules`,
        advice: `Run \`npm install\` in ${directory} on ${host}, or share the directory (NFS).`,
      };
    default:
  }
  // A version of Node that is too old to parse the agent.
  if (/SyntaxError|ERR_UNKNOWN_BUILTIN_MODULE|Cannot use import statement|bad option/.test(stderr)) {
    return { ...tooOld(host, 'Node'), seen: `Node is too old to run the agent${lastLine(stderr)}` };
  }
  if (/ERR_MODULE_NOT_FOUND|Cannot find module|Cannot find package/.test(stderr)) {
    return {
      phase: 'package',
      seen: `the package horovod is incomplete${lastLine(stderr, /Cannot find|ERR_MODULE/)}`,
      advice: `Install the same version on ${host}: \`npm ci\`.`,
    };
  }
  if (end === undefined) {
    return {
      phase: 'agent',
      seen: `the login works, but the agent did not answer within ${waitedMs / 1000} s`,
      advice: `Check whether ${host} is overloaded or its file system is slow. If so, raise --start-timeout.`,
    };
  }
  return {
    phase: 'agent',
    seen: `the login works, but the agent ${describe(end)}${lastLine(stderr)}`,
    advice: `Check that \`node --version\` works on ${host}.`,
  };
}

/** The agent answered, but has another version. */
export function versionProblem(
  host: string,
  own: { readonly version: string; readonly protocol: number },
  other: { readonly version: string; readonly protocol: number },
): HostProblem | undefined {
  if (own.version === other.version && own.protocol === other.protocol) return undefined;
  const seen =
    own.version === other.version
      ? `its horovod ${other.version} is another build than the one here`
      : `it has horovod ${other.version}, but this machine has ${own.version}`;
  return {
    host,
    phase: 'package',
    seen,
    advice: `Install the same version on all hosts: \`npm install horovod@${own.version}\`.`,
  };
}

export function describeProblems(problems: readonly HostProblem[], hosts: number): string {
  const lines = problems.map(
    // The message of another program may end with a full stop.
    ({ host, phase, seen, advice }) => `  ${host} (${phase}): ${seen.replace(/\.$/, '')}. ${advice}`,
  );
  const head =
    problems.length === 1 && hosts === 1
      ? 'the other host cannot be used; nothing was started:'
      : `${problems.length} of ${hosts} other hosts cannot be used; nothing was started:`;
  return [head, ...lines].join('\n');
}

function tooOld(host: string, what: string): Finding {
  return { phase: 'Node', seen: `${what} is too old`, advice: `Install Node 20.19 or later on ${host}.` };
}

function packageFolder(agentPath: string): string {
  return agentPath.replace(/\/[^/]+\/launch\/agent\/main\.js$/, '');
}

function describe(end: { readonly code: number } | { readonly signal: string }): string {
  return 'signal' in end ? `was killed by ${end.signal}` : `ended with code ${end.code}`;
}

/** ': ' and the last line that matches. */
export function lastLine(stderr: string, pattern: RegExp = /\S/): string {
  const line = stderr.split(/\r?\n/).findLast((each) => pattern.test(each) && !/^Node\.js v/.test(each));
  return line === undefined ? '' : `: ${line.trim()}`;
}
