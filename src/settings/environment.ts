// The environment itself: that of this process, and the one horovodrun gives to a rank.

import type { JobSecret } from '../rendezvous/job-secret.ts';
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

/**
 * The driver's environment, but for what belongs to its shell or to another job; then what flags and config file
 * say; then who the rank is.
 */
export function rankEnvironment(
  driver: NodeJS.ProcessEnv,
  fromFlags: Readonly<Record<string, string>>,
  { secret, ...identity }: RankIdentity,
): NodeJS.ProcessEnv {
  const env: NodeJS.ProcessEnv = {};
  for (const [name, value] of Object.entries(driver)) {
    if (!/^BASH_FUNC_|^OLDPWD$|CUDA_VISIBLE_DEVICES$/.test(name)) env[name] = value;
  }
  for (const setting of Object.values(settingsTable)) if (setting.isGiven) delete env[setting.env as string];
  Object.assign(env, fromFlags);
  for (const [name, value] of Object.entries(identity)) {
    if (value !== undefined) env[settingsTable[name as keyof typeof identity].env as string] = String(value);
  }
  env[settingsTable.secret.env as string] = secret.revealForEnvironment();
  return env;
}
