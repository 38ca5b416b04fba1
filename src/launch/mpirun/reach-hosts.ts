// Can the other hosts be reached by ssh at all? Asked before mpirun is: its own report of a host that cannot be is a page
// about daemons. What is installed there is not asked; ranks may run in containers that bring everything along.

import { execFile } from 'node:child_process';
import { HorovodError } from '../../errors.ts';
import { describeProblems, type HostProblem, hostProblem } from '../ssh/host-problem.ts';
import { type SshOptions, sshCommand } from '../ssh/ssh-command.ts';

/** Throws ERR_HVD_HOST with what is wrong with each of them. */
export async function reachHosts(
  hosts: readonly string[],
  ssh: SshOptions,
  env: NodeJS.ProcessEnv,
  timeoutMs: number,
): Promise<void> {
  const problems = (await Promise.all(hosts.map((host) => reach(host, ssh, env, timeoutMs)))).filter(
    (problem) => problem !== undefined,
  );
  if (problems.length > 0) throw new HorovodError('ERR_HVD_HOST', describeProblems(problems, hosts.length));
}

async function reach(
  host: string,
  ssh: SshOptions,
  env: NodeJS.ProcessEnv,
  timeoutMs: number,
): Promise<HostProblem | undefined> {
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
    ...{ host, stderr, hasShell: false, directory: '', agentPath: '' },
    tryByHand: [file, ...(ssh.port === undefined ? [] : ['-p', String(ssh.port)]), host].join(' '),
    end: killed ? undefined : { code: typeof code === 'number' ? code : 255 },
    spawnError: typeof code === 'string' ? (error as NodeJS.ErrnoException) : undefined,
    waitedMs: performance.now() - startedAt,
    connectTimeoutMs: ssh.connectTimeoutMs,
  });
}
