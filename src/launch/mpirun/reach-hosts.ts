// Checks that ssh reaches the other hosts, before mpirun is started, because mpirun reports an unreachable host with a page
// about daemons. What is installed there is not checked, because ranks may run in containers.

import { execFile } from 'node:child_process';
import { HorovodError } from '../../errors.ts';
import { describeProblems, type HostProblem, hostProblem } from '../ssh/host-problem.ts';
import { type SshOptions, sshCommand } from '../ssh/ssh-command.ts';

interface Reach {
  readonly ssh: SshOptions;
  readonly env: NodeJS.ProcessEnv;
  readonly timeoutMs: number;
}

/** Throws ERR_HVD_HOST with the problem of each host that cannot be reached. */
export async function reachHosts(hosts: readonly string[], how: Reach): Promise<void> {
  const problems = (await Promise.all(hosts.map((host) => reach(host, how)))).filter(
    (problem) => problem !== undefined,
  );
  if (problems.length > 0) throw new HorovodError('ERR_HVD_HOST', describeProblems(problems, hosts.length));
}

async function reach(host: string, { ssh, env, timeoutMs }: Reach): Promise<HostProblem | undefined> {
  const { file, args } = sshCommand(host, 'true', ssh);
  const startedAt = performance.now();
  const { error, stderr } = await new Promise<{ error: Error | null; stderr: string }>((resolve) => {
    const child = execFile(file, args, { env, timeout: timeoutMs, killSignal: 'SIGKILL' }, (error, _, text) =>
      resolve({ error, stderr: text }),
    );
    child.stdin?.end();
  });
  if (error === null) return undefined;
  const { code, killed } = error as { code?: unknown; killed?: boolean };
  return hostProblem({
    host,
    stderr,
    hasShell: false,
    directory: '',
    agentPath: '',
    tryByHand: [file, ...(ssh.port === undefined ? [] : ['-p', String(ssh.port)]), host].join(' '),
    end: killed ? undefined : { code: typeof code === 'number' ? code : 255 },
    spawnError: typeof code === 'string' ? (error as NodeJS.ErrnoException) : undefined,
    waitedMs: performance.now() - startedAt,
    connectTimeoutMs: ssh.connectTimeoutMs,
  });
}
