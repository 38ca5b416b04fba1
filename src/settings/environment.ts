// The environment itself: that of this process, and the one horovodrun gives to a rank.

import type { JobSecret } from './job-secret.ts';
import { type Settings, settingsTable } from './table.ts';

/** The only place of the package where the environment of this process is taken from. */
export function processEnvironment(): NodeJS.ProcessEnv {
  return process.env;
}

/**
 * How many threads TensorFlow (tfjs-node) may start, said before it is loaded: it reads these variables of the
 * process once. What the user has set stays.
 */
export function limitTensorFlowThreads(threads: number, env: NodeJS.ProcessEnv = process.env): void {
  env['TF_NUM_INTRAOP_THREADS'] ??= String(threads);
  env['TF_NUM_INTEROP_THREADS'] ??= '1';
}

/** TensorFlow greets with several lines for each rank; warnings and errors stay. What the user has set stays, too. */
export function quietTensorFlow(env: NodeJS.ProcessEnv = process.env): void {
  env['TF_CPP_MIN_LOG_LEVEL'] ??= '1';
}

/**
 * Which interfaces MPI may use, said before it is started: it reads these variables of the process then. What the user
 * or mpirun has set stays.
 */
export function limitMpiInterfaces(
  near: readonly { readonly name: string; readonly cidr: string }[],
  hasFasterNetwork: boolean,
  env: NodeJS.ProcessEnv = process.env,
): void {
  const names = near.map(({ name }) => name).join(',');
  if (env['OMPI_MCA_btl_tcp_if_exclude'] === undefined) {
    env['OMPI_MCA_btl_tcp_if_include'] ??= near.map(({ cidr }) => cidr).join(',');
  }
  // UCX (MPICH, Open MPI): one list for all networks. libfabric: one interface.
  if (!hasFasterNetwork) env['UCX_NET_DEVICES'] ??= names;
  for (const name of ['FI_TCP_IFACE', 'FI_SOCKETS_IFACE']) env[name] ??= near[0]?.name;
}

/** What makes a process a rank of a job. */
export type RankIdentity = Pick<
  Settings,
  'rank' | 'size' | 'localRank' | 'localSize' | 'crossRank' | 'crossSize' | 'hostname'
> & {
  readonly localCores: number | undefined;
  readonly rendezvousAddress: string;
  readonly jobId: string;
  readonly secret: JobSecret;
};

/** Which variables of the driver go to the ranks: names, with `*` for any letters. */
export interface ForwardingRules {
  readonly allow?: readonly string[] | undefined;
  readonly deny?: readonly string[] | undefined;
}

/**
 * What of the driver's environment goes to the ranks: not what belongs to its shell or to another job, and not the
 * secret of jobs without launcher, which these have no use for.
 */
export function forwardedEnvironment(
  driver: NodeJS.ProcessEnv,
  { allow, deny }: ForwardingRules = {},
): NodeJS.ProcessEnv {
  const isGiven = new Set(Object.values(settingsTable).flatMap((each) => (each.isGiven ? [each.env] : [])));
  const isAllowed = allow === undefined ? () => true : matcher([...allow, 'HOROVOD_*', 'PATH']);
  const isDenied = matcher(deny ?? []);
  const entries = Object.entries(driver).filter(
    ([name]) =>
      !/^BASH_FUNC_|^OLDPWD$|CUDA_VISIBLE_DEVICES$/.test(name) &&
      !isGiven.has(name) &&
      name !== settingsTable.userSecret.env &&
      isAllowed(name) &&
      !isDenied(name),
  );
  return Object.fromEntries(entries);
}

/** Does a name match one of the patterns? */
export function matcher(patterns: readonly string[]): (name: string) => boolean {
  const expressions = patterns.map(
    (pattern) => new RegExp(`^${pattern.replaceAll('.', '\\.').replaceAll('*', '.*')}$`),
  );
  return (name) => expressions.some((expression) => expression.test(name));
}

/**
 * The driver's environment, but for what belongs to its shell or to another job; then what flags and config file
 * say; then who the rank is.
 */
export function rankEnvironment(
  driver: NodeJS.ProcessEnv,
  fromFlags: Readonly<Record<string, string>>,
  { secret, ...identity }: RankIdentity,
): NodeJS.ProcessEnv {
  const env: NodeJS.ProcessEnv = { ...forwardedEnvironment(driver), ...fromFlags };
  for (const [name, value] of Object.entries(identity)) {
    if (value !== undefined) env[settingsTable[name as keyof typeof identity].env as string] = String(value);
  }
  env[settingsTable.secret.env as string] = secret.revealForEnvironment();
  return env;
}
