// A job that a program starts with run() or launch(): from the options to a launch, as horovodrun has it from its command line.

import { resolve } from 'node:path';
import { HorovodError } from '../../errors.ts';
import { isLocal } from '../../files/location.ts';
import { driverSettings, launchOptions } from '../../settings/command-line.ts';
import { processEnvironment } from '../../settings/environment.ts';
import { readSettings } from '../../settings/read-settings.ts';
import { settingError } from '../../settings/setting.ts';
import { isElastic } from '../../settings/table/elastic.ts';
import { settingsTable } from '../../settings/table.ts';
import { describe } from '../../tensor/tensor.ts';
import type { ElasticLaunch } from '../elastic/elastic-request.ts';
import { type Launch, listedHosts, planHosts } from '../job-request.ts';
import { type PlaceGiver, planInPlaces } from '../places/place-giver.ts';
import { runNameVariable } from '../tensorboard/run-name.ts';
import type { JobOptions } from './run.ts';

export interface ProgramLaunch
  extends Pick<Launch, 'command' | 'node' | 'stdout' | 'stderr' | 'say' | 'onLine'> {
  /** For errors: 'run' or 'launch'. */
  readonly caller: string;
  readonly options: JobOptions;
  /** For the ranks, in addition to those of the options. */
  readonly variables?: Readonly<Record<string, string>> | undefined;
  /** A cluster manager that gives the job its places. */
  readonly givePlaces?: PlaceGiver | undefined;
}

export type PlannedLaunch =
  | { readonly kind: 'elastic'; readonly launch: ElasticLaunch }
  | { readonly kind: 'fixed'; readonly launch: Launch };

/** Throws ERR_HVD_SETTING for wrong options, and ERR_HVD_RUN in a rank. With `givePlaces`, `launch.places` have to be closed if no job is started. */
export async function planLaunch(request: ProgramLaunch): Promise<PlannedLaunch> {
  const { caller, options, command, node, stdout, stderr, say, onLine, variables } = request;
  const driverEnvironment = processEnvironment();
  requireNoRank(driverEnvironment, caller);
  const environment = { ...variablesOf(options), ...runNameVariable(), ...variables };
  const settings = driverSettings(driverEnvironment, environment);
  const { hosts, hostfile, sshPort, sshIdentityFile, outputFilename, discover } = options;
  const { prefixOutput = true, verbose = false } = options;
  if (hosts !== undefined && hostfile !== undefined) {
    throw settingError(`${caller}: hosts and hostfile cannot be used together.`);
  }
  if (outputFilename !== undefined && !isLocal(outputFilename)) {
    throw settingError(`${caller}: outputFilename is ${outputFilename}; expected a folder of this machine.`);
  }
  if (discover !== undefined && typeof discover !== 'string' && typeof discover !== 'function')
    throw settingError(
      `${caller}: discover is ${describe(discover)}; expected the path of a script, or a function that returns [{ name, slots }].`,
    );
  const isElasticLaunch = isElastic(settings) || discover !== undefined;
  if (options.maxNp !== undefined && !isElasticLaunch)
    throw settingError(`${caller}: maxNp is for elastic jobs. Add minNp or discover, or remove it.`);
  const { givePlaces } = request;
  const asked = options.np ?? (isElasticLaunch ? options.minNp : undefined);
  const processes = asked ?? (givePlaces === undefined ? slotsOf(options) : undefined);
  if (processes !== undefined && (!Number.isSafeInteger(processes) || processes < 1)) {
    throw settingError(`${caller}: np is ${processes}; expected an integer ≥ 1.`);
  }
  const launch: Omit<Launch, 'plan'> = {
    command,
    node,
    options: {
      ...launchOptions(new Map()),
      processes,
      hosts,
      hostfile,
      sshPort,
      sshIdentityFile,
      outputFilename,
      prefixOutput,
      verbose,
    },
    settings,
    environment,
    driverEnvironment,
    stdout,
    stderr,
    say,
    onLine,
  };
  if (givePlaces !== undefined) {
    const { signal } = options;
    return planInPlaces(launch, isElasticLaunch, (wanted) => givePlaces({ ...wanted, signal }));
  }
  if (isElasticLaunch) {
    const asked = typeof discover === 'function' ? discover : undefined;
    return { kind: 'elastic', launch: { ...launch, discover: asked } };
  }
  const plan = await planHosts({ processes, hosts, hostfile }, settings.startTimeoutMs);
  return { kind: 'fixed', launch: { ...launch, plan } };
}

/** A rank that starts a job of ranks that run the same script would never come to an end. */
function requireNoRank(env: NodeJS.ProcessEnv, caller: string): void {
  const { jobId, rank, size } = readSettings(env);
  if (jobId === undefined && size === 1) return;
  throw new HorovodError(
    'ERR_HVD_RUN',
    `${caller}: ${caller}() was called by a rank (rank ${rank} of ${size}), and each rank would start a job of its own. Start the script ` +
      `that calls ${caller}() with node, not with horovodrun or mpirun, and call init() in the ${caller === 'run' ? 'function that run() calls' : 'program that launch() starts'}.`,
    { rank },
  );
}

function variablesOf(options: JobOptions): Record<string, string> {
  const { transport, encrypt, startTimeoutMs, networkInterfaces, env } = options;
  const variables: Record<string, string> = { ...env };
  const set = (name: keyof typeof settingsTable, text: string | undefined) => {
    if (text !== undefined) variables[settingsTable[name].env as string] = text;
  };
  const { minNp, maxNp, discover } = options;
  set('minProcesses', minNp === undefined ? undefined : String(minNp));
  set('maxProcesses', maxNp === undefined ? undefined : String(maxNp));
  set('hostDiscoveryScript', typeof discover === 'string' ? resolve(discover) : undefined);
  set('transport', transport);
  set('encrypt', encrypt === undefined ? undefined : encrypt ? '1' : '0');
  set('startTimeoutMs', startTimeoutMs === undefined ? undefined : String(startTimeoutMs / 1000));
  set('networkInterfaces', networkInterfaces?.join(','));
  return variables;
}

function slotsOf(options: JobOptions): number {
  return listedHosts(options)?.reduce((sum, { slots }) => sum + slots, 0) ?? 1;
}
