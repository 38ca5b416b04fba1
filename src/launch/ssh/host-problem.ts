// Why a host cannot be used, from what ssh and the agent's start have left behind: host, phase, what was seen, what to
// do. Pure functions; the words of ssh are those of OpenSSH.

export interface HostProblem {
  readonly host: string;
  readonly phase: Phase;
  /** A sentence without its end. */
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

/** How far the start of an agent has come, and what was seen of it. */
export interface Evidence {
  readonly host: string;
  /** The program and flags that a user would try by hand. */
  readonly tryByHand: string;
  readonly directory: string;
  /** The first place where the package was looked for. */
  readonly agentPath: string;
  readonly stderr: string;
  /** The login has worked: our shell line has begun. */
  readonly hasShell: boolean;
  /** A `problem` line: its word and the rest. */
  readonly problem?: { readonly word: string; readonly rest: string } | undefined;
  /** How the program ended; undefined: it has not, and the time is up. */
  readonly end?: { readonly code: number } | { readonly signal: string } | undefined;
  /** The program could not be started. */
  readonly spawnError?: NodeJS.ErrnoException | undefined;
  readonly waitedMs: number;
  /** After so long without a connection ssh would have ended by itself. */
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
      seen: `${program} has connected, but the login has not come to our command within ${evidence.waitedMs / 1000} s`,
      advice: `Does its login shell (~/.bashrc, ~/.profile) wait for something, or is its home directory or user directory slow? Try \`${tryByHand} true\`.`,
    };
  }
  if (end === undefined) {
    return {
      phase: 'network',
      seen: `no answer to ${program} within ${evidence.waitedMs / 1000} s`,
      advice: `Is it up, and does a firewall drop packets to port 22? Try \`${tryByHand} true\`; --start-timeout allows for more time.`,
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
      `Is ${host} spelled right in -H, and in DNS, /etc/hosts or ~/.ssh/config of this machine?`,
  },
  {
    pattern: /REMOTE HOST IDENTIFICATION HAS CHANGED/,
    phase: 'host key',
    advice: (host) =>
      `Its key is not the one in known_hosts: a machine set up anew, or somebody in between. If you know why: \`ssh-keygen -R ${host}\`, then log in once by hand.`,
  },
  {
    pattern: /Host key verification failed|No \S+ host key is known/,
    phase: 'host key',
    advice: (_host, tryByHand) =>
      `Nobody has confirmed its key yet: log in once by hand (\`${tryByHand}\`), add it with ssh-keyscan, or set \`StrictHostKeyChecking accept-new\` in ~/.ssh/config.`,
  },
  {
    pattern: /UNPROTECTED PRIVATE KEY FILE|bad permissions/i,
    phase: 'login',
    advice: () => 'The private key can be read by others, so ssh does not use it: `chmod 600` it.',
  },
  {
    pattern: /Permission denied|Too many authentication failures|No supported authentication methods/,
    phase: 'login',
    advice: (host) =>
      `It takes none of your keys, and passwords are never asked for: \`ssh-copy-id ${host}\`, start ssh-agent, or name the key with --ssh-identity-file.`,
  },
  {
    pattern: /Connection refused/,
    phase: 'network',
    advice: (host) => `No ssh server listens there: start sshd on ${host}, or give its port with --ssh-port.`,
  },
  {
    pattern: /timed out|No route to host|Network is unreachable|Host is down/i,
    phase: 'network',
    advice: (_host, tryByHand) =>
      `Is it up and in the same network, and does a firewall drop packets to its ssh port? Try \`${tryByHand} true\`.`,
  },
  {
    pattern: /kex_exchange_identification|Connection (closed|reset) by|banner exchange/,
    phase: 'ssh',
    advice: (host) =>
      `Its ssh server hung up: too many logins at once (MaxStartups), or a port that is no ssh server's. See its log on ${host}.`,
  },
  {
    pattern: /Bad configuration|Bad port|terminating, \d+ bad configuration|unknown option|illegal option/i,
    phase: 'ssh',
    advice: () => 'See ~/.ssh/config, --ssh-port and --ssh-identity-file.',
  },
];

function afterLogin(evidence: Evidence): Finding {
  const { host, problem, directory, agentPath, stderr, end, waitedMs } = evidence;
  switch (problem?.word) {
    case 'no-directory':
      return {
        phase: 'directory',
        seen: `there is no directory ${directory}, or it may not be entered`,
        advice: `Ranks run in the directory horovodrun was started in: make it on ${host}, share it (NFS), or start horovodrun in one that all hosts have.`,
      };
    case 'no-node':
      return {
        phase: 'Node',
        seen: `there is no Node: neither where it is on this machine, nor on the PATH of a login without terminal (${problem.rest})`,
        advice: `Install Node 20.19 or later on ${host}, or set its PATH where such logins read it (~/.bashrc, ~/.zshenv, /etc/environment).`,
      };
    case 'node-too-old':
      return tooOld(
        host,
        `Node ${problem.rest.split(' ')[0]} (${problem.rest.split(' ').slice(1).join(' ')})`,
      );
    case 'no-package':
      return {
        phase: 'package',
        seen: `the package horovod is neither at ${packageFolder(agentPath)} nor in ${directory}/node_modules`,
        advice: `Run \`npm install\` in ${directory} on ${host}, or share the directory (NFS).`,
      };
    default:
  }
  // A Node so old that it cannot read the agent at all.
  if (/SyntaxError|ERR_UNKNOWN_BUILTIN_MODULE|Cannot use import statement|bad option/.test(stderr)) {
    return tooOld(host, `Node there does not understand the agent${lastLine(stderr)}`);
  }
  if (/ERR_MODULE_NOT_FOUND|Cannot find module|Cannot find package/.test(stderr)) {
    return {
      phase: 'package',
      seen: `the package horovod is there, but not whole${lastLine(stderr, /Cannot find|ERR_MODULE/)}`,
      advice: `Install the same version on ${host}: \`npm ci\`.`,
    };
  }
  if (end === undefined) {
    return {
      phase: 'agent',
      seen: `the login works, but the agent has not answered within ${waitedMs / 1000} s`,
      advice: `Is ${host} overloaded, or its file system slow? --start-timeout allows for more time.`,
    };
  }
  return {
    phase: 'agent',
    seen: `the login works, but the agent ${describe(end)}${lastLine(stderr)}`,
    advice: `See whether \`node --version\` works on ${host}.`,
  };
}

/** The agent has answered, but is another version. */
export function versionProblem(
  host: string,
  own: { readonly version: string; readonly protocol: number },
  other: { readonly version: string; readonly protocol: number },
): HostProblem | undefined {
  if (own.version === other.version && own.protocol === other.protocol) return undefined;
  const seen =
    own.version === other.version
      ? `horovod ${other.version} there is another build than here`
      : `horovod ${other.version} is installed there, ${own.version} here`;
  return {
    host,
    phase: 'package',
    seen,
    advice: `Install the same version on all hosts: \`npm install horovod@${own.version}\`.`,
  };
}

export function describeProblems(problems: readonly HostProblem[], hosts: number): string {
  const lines = problems.map(
    // What a program has said may end with a full stop of its own.
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

/** ': the last line of it', or that which matches. */
export function lastLine(stderr: string, pattern: RegExp = /\S/): string {
  const line = stderr.split(/\r?\n/).findLast((each) => pattern.test(each) && !/^Node\.js v/.test(each));
  return line === undefined ? '' : `: ${line.trim()}`;
}
