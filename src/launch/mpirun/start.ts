// Starts mpirun for a job.

import { forwardedEnvironment } from '../../settings/environment.ts';
import { JobSecret } from '../../settings/job-secret.ts';
import { type LaunchOptions, type Settings, settingsTable } from '../../settings/table.ts';
import { describeNative } from '../../transport/native/load.ts';
import { environmentForOtherHosts } from '../agent/forwarded-environment.ts';
import { resolveCommand } from '../command.ts';
import type { ConsoleWriter } from '../output/console-writer.ts';
import { type HostPlan, prefixOf, requestForHosts } from '../plan-job.ts';
import { requireMpirun } from './mpi-family.ts';
import { MpirunJob } from './mpirun-job.ts';
import { reachHosts } from './reach-hosts.ts';

export interface MpirunLaunch {
  readonly plan: HostPlan;
  readonly command: readonly string[];
  readonly options: LaunchOptions;
  readonly settings: Settings;
  /** Variables that the flags and the config file set. */
  readonly environment: Readonly<Record<string, string>>;
  readonly driverEnvironment: NodeJS.ProcessEnv;
  readonly stdout: ConsoleWriter;
  readonly stderr: ConsoleWriter;
  readonly say: (text: string) => void;
}

export async function startMpirunJob(launch: MpirunLaunch): Promise<MpirunJob> {
  const { options, settings, say, stdout, stderr, driverEnvironment } = launch;
  const { slots, remoteNames } = launch.plan;
  // mpirun places the ranks.
  const unpinned = { ...settings, pinCores: false, pinGpus: false };
  const { remote } = requestForHosts({
    plan: launch.plan,
    options,
    settings: unpinned,
    driverEnvironment,
    say,
  });
  const [mpirun] = await Promise.all([
    requireMpirun(settings.mpirun, driverEnvironment, settings.startTimeoutMs),
    remote &&
      reachHosts([...remoteNames], {
        ssh: remote.ssh,
        env: driverEnvironment,
        timeoutMs: settings.startTimeoutMs,
      }),
  ]);
  for (const [isGiven, flag] of [
    [settings.pinCores, '--pin-cores'],
    [settings.pinGpus, '--pin-gpus'],
  ] as const) {
    if (isGiven)
      say(`${flag} has no effect with --mpi, because mpirun places the ranks. Use --binding-args.`);
  }
  const launcher = { kind: mpirun.family === 'mpich' || mpirun.family === 'intel-mpi' ? 'pmi' : 'open-mpi' };
  const addon = describeNative({ ...settings, transport: 'mpi', launcher });
  // A warning only, because the command may not use Horovod at all.
  if (!addon.built) say(`the MPI addon is missing, so init() will fail: ${addon.reason}.`);
  const rules = { allow: options.envAllow, deny: options.envDeny };
  // Ranks on this host inherit the environment of mpirun.
  const driver = forwardedEnvironment(driverEnvironment, rules);
  const secretName = settingsTable.userSecret.env as string;
  return MpirunJob.start({
    mpirun,
    slots,
    command: resolveCommand(launch.command, process.execPath, process.execArgv),
    driverEnvironment: driver,
    environment: {
      ...environmentForOtherHosts(driver, rules),
      ...launch.environment,
      // The ranks find each other without us and use this to authenticate. The command line of mpirun contains its name
      // only.
      [secretName]: driverEnvironment[secretName] || JobSecret.generate().revealForEnvironment(),
    },
    hasRemoteHosts: remoteNames.size > 0,
    sshPort: options.sshPort,
    sshIdentityFile: options.sshIdentityFile,
    networkInterfaces: settings.networkInterfaces,
    bindingArgs: options.bindingArgs,
    mpiArgs: options.mpiArgs,
    prefix: prefixOf(options),
    outputDirectory: options.outputFilename,
    stdout,
    stderr,
    say,
    explain: options.verbose ? say : () => undefined,
  });
}
