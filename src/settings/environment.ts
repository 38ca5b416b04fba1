// The environment of this process, and the one that horovodrun gives to a rank.

import type { JobSecret } from './job-secret.ts';
import { type Settings, settingsTable } from './table.ts';

/** The only place in the package that reads the environment of this process. */
export function processEnvironment(): NodeJS.ProcessEnv {
  return process.env;
}

/** Whether a terminal may show lines in place: not one that cannot (TERM=dumb), nor that of CI, whose logs would keep every update. */
export function showsInPlace(env: NodeJS.ProcessEnv = process.env): boolean {
  const { TERM: term, CI: ci = '' } = env;
  return term !== 'dumb' && (ci === '' || ci === '0' || ci === 'false');
}

/**
 * Limits how many threads TensorFlow (tfjs-node) starts. Must be called before it is loaded, because it reads these
 * variables once. Variables that the user has set stay.
 */
export function limitTensorFlowThreads(threads: number, env: NodeJS.ProcessEnv = process.env): void {
  env['TF_NUM_INTRAOP_THREADS'] ??= String(threads);
  env['TF_NUM_INTEROP_THREADS'] ??= '1';
}

/** Hides the lines that TensorFlow prints in each rank when it starts. A level that the user has set stays. */
export function quietTensorFlow(env: NodeJS.ProcessEnv = process.env): void {
  env['TF_CPP_MIN_LOG_LEVEL'] ??= '1';
}

/** Lets this process see only these GPUs. Must be called before CUDA starts. */
export function showGpus(gpus: string, env: NodeJS.ProcessEnv = process.env): void {
  env['CUDA_VISIBLE_DEVICES'] = gpus;
}

/**
 * Limits the network interfaces that MPI uses. Must be called before MPI is initialized, because it reads these variables
 * then. Variables that the user or mpirun has set stay.
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
  // UCX (MPICH, Open MPI) takes one list for all networks, libfabric one interface.
  if (!hasFasterNetwork) env['UCX_NET_DEVICES'] ??= names;
  for (const name of ['FI_TCP_IFACE', 'FI_SOCKETS_IFACE']) env[name] ??= near[0]?.name;
}

/** What makes a process a rank of a job. */
export type RankIdentity = Pick<
  Settings,
  'rank' | 'size' | 'localRank' | 'localSize' | 'crossRank' | 'crossSize' | 'hostname'
> & {
  readonly localCores: number | undefined;
  /** Of an elastic job. */
  readonly worker?: number | undefined;
  readonly terminal?: string | undefined;
  readonly rendezvousAddress: string;
  readonly jobId: string;
  readonly secret: JobSecret;
};

/** Which variables of the launcher go to the ranks: names, in which `*` matches any characters. */
export interface ForwardingRules {
  readonly allow?: readonly string[] | undefined;
  readonly deny?: readonly string[] | undefined;
}

/**
 * The part of the launcher's environment that goes to the ranks: no variables of its shell or of another job, and not the
 * secret for jobs without a launcher, which ranks with a launcher do not need.
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

/** Tests whether a name matches one of the patterns. */
export function matcher(patterns: readonly string[]): (name: string) => boolean {
  const expressions = patterns.map(
    (pattern) => new RegExp(`^${pattern.replaceAll('.', '\\.').replaceAll('*', '.*')}$`),
  );
  return (name) => expressions.some((expression) => expression.test(name));
}

/**
 * The forwarded part of the launcher's environment, then the variables from flags and config file, then the identity of
 * the rank.
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
