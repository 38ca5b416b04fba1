// Starts mpirun for a job.

import { listLocalAddresses } from '../../net/addresses.ts';
import { forwardedEnvironment } from '../../settings/environment.ts';
import { JobSecret } from '../../settings/job-secret.ts';
import { settingsTable } from '../../settings/table.ts';
import { describeNative } from '../../transport/native/describe-native.ts';
import { environmentForOtherHosts } from '../agent/forwarded-environment.ts';
import { resolveCommand } from '../command.ts';
import { forwardingRules, type Launch, nodeOf, outputOf, sshOptions } from '../job-request.ts';
import { requireMpirun } from './mpi-family.ts';
import { MpirunJob } from './mpirun-job.ts';
import { reachHosts } from './reach-hosts.ts';

export async function startMpirunJob(launch: Launch): Promise<MpirunJob> {
  const { options, settings, say, driverEnvironment } = launch;
  const { slots, remoteNames } = launch.plan;
  const timeoutMs = settings.startTimeoutMs;
  // Throws if none of them is here.
  listLocalAddresses(settings.networkInterfaces);
  const [mpirun] = await Promise.all([
    requireMpirun(settings.mpirun, driverEnvironment, timeoutMs),
    reachHosts([...remoteNames], { ssh: sshOptions(launch), env: driverEnvironment, timeoutMs }),
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
  const rules = forwardingRules(options);
  // Ranks on this host inherit the environment of mpirun.
  const driver = forwardedEnvironment(driverEnvironment, rules);
  const secretName = settingsTable.userSecret.env as string;
  return MpirunJob.start({
    ...outputOf(launch),
    mpirun,
    slots,
    command: resolveCommand(launch.command, nodeOf(launch)),
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
  });
}
