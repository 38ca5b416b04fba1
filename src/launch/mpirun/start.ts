// From what horovodrun was told to a running mpirun.

import { describeNative } from '../../native/load.ts';
import { JobSecret } from '../../rendezvous/job-secret.ts';
import { forwardedEnvironment } from '../../settings/environment.ts';
import { type LaunchOptions, type Settings, settingsTable } from '../../settings/table.ts';
import { environmentForOtherHosts } from '../agent/forwarded-environment.ts';
import { resolveCommand } from '../command.ts';
import { isLocalHost } from '../hosts/local-host.ts';
import type { Slot } from '../hosts/plan-slots.ts';
import type { ConsoleWriter } from '../output/console-writer.ts';
import { requireMpirun } from './mpi-family.ts';
import { MpirunJob } from './mpirun-job.ts';

export interface MpirunLaunch {
  readonly slots: readonly Slot[];
  readonly command: readonly string[];
  readonly options: LaunchOptions;
  readonly settings: Settings;
  /** Variables that flags and config file set. */
  readonly environment: Readonly<Record<string, string>>;
  readonly driverEnvironment: NodeJS.ProcessEnv;
  readonly stdout: ConsoleWriter;
  readonly stderr: ConsoleWriter;
  readonly say: (text: string) => void;
}

export async function startMpirunJob(launch: MpirunLaunch): Promise<MpirunJob> {
  const { slots, options, settings, say, stdout, stderr } = launch;
  const hosts = [...new Set(slots.map(({ hostname }) => hostname))];
  const [mpirun, ...areLocal] = await Promise.all([
    requireMpirun(settings.mpirun, launch.driverEnvironment, settings.startTimeoutMs),
    ...hosts.map((name) => isLocalHost(name, settings.startTimeoutMs)),
  ]);
  for (const [isGiven, flag] of [
    [settings.pinCores, '--pin-cores'],
    [settings.pinGpus, '--pin-gpus'],
  ] as const) {
    if (isGiven) say(`${flag} has no effect with --mpi: mpirun places the ranks (--binding-args).`);
  }
  const launcher = { kind: mpirun.family === 'mpich' || mpirun.family === 'intel-mpi' ? 'pmi' : 'open-mpi' };
  const addon = describeNative({ ...settings, engine: 'mpi', launcher });
  // Whatever is started: it may be no rank of ours at all.
  if (!addon.built) say(`the mpi engine is missing, and init() will fail: ${addon.reason}.`);
  const rules = { allow: options.envAllow, deny: options.envDeny };
  // mpirun's own environment is what ranks of this host inherit.
  const driver = forwardedEnvironment(launch.driverEnvironment, rules);
  const secretName = settingsTable.userSecret.env as string;
  return MpirunJob.start({
    mpirun,
    slots,
    command: resolveCommand(launch.command, process.execPath, process.execArgv),
    driverEnvironment: driver,
    environment: {
      ...environmentForOtherHosts(driver, rules),
      ...launch.environment,
      // The ranks find each other without us, and by this know that they are of one job. Named in the command line
      // of mpirun, and not written there.
      [secretName]: launch.driverEnvironment[secretName] ?? JobSecret.generate().revealForEnvironment(),
    },
    hasRemoteHosts: areLocal.includes(false),
    sshPort: options.sshPort,
    sshIdentityFile: options.sshIdentityFile,
    networkInterfaces: settings.networkInterfaces,
    bindingArgs: options.bindingArgs,
    mpiArgs: options.mpiArgs,
    prefix: !options.prefixOutput ? 'none' : options.prefixTimestamp ? 'rank and time' : 'rank',
    outputDirectory: options.outputFilename,
    ...{ stdout, stderr, say },
    explain: options.verbose ? say : () => undefined,
  });
}
