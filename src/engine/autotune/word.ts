// What rank 0 says about autotune when the ranks meet, before there is a context: its options, and the result of an earlier
// job. The others follow it, whatever their own environment says.

import { packageVersion } from '../../settings/package.ts';
import type { Settings } from '../../settings/table.ts';
import { type JobShape, misfit, readResult, type SavedResult } from './files.ts';
import type { SettledResults } from './settled-results.ts';
import type { TunableValues } from './tunables.ts';

export interface AutotuneWord {
  readonly stepsPerSample: number;
  /** Settings the user has given. */
  readonly given: readonly string[];
  readonly saved?: SavedResult | undefined;
  /** What an elastic job has settled on in earlier memberships. */
  readonly settled?: readonly SavedResult[] | undefined;
}

/** Undefined: autotune is off. Only the first rank reads the file. `settled`: of an elastic job. */
export function autotuneWord(
  settings: Settings,
  isFirst: boolean,
  warn: (text: string) => void,
  settled?: SettledResults,
): AutotuneWord | undefined {
  if (!settings.autotune) return undefined;
  const { autotuneStepsPerSample: stepsPerSample, autotuneFile } = settings;
  const saved = isFirst && autotuneFile !== undefined ? readResult(autotuneFile, warn) : undefined;
  const own = isFirst ? settled?.list() : undefined;
  return { stepsPerSample, given: [...settings.given], saved, settled: own };
}

/** `hostOf`: the number of each rank's host. */
export function jobShape(transport: string, hostOf: readonly number[]): JobShape {
  const hosts: number[] = [];
  for (const host of hostOf) hosts[host] = (hosts[host] ?? 0) + 1;
  return { version: packageVersion(), transport, ranks: hostOf.length, hosts };
}

/** What this job has settled on when it had this shape; the same on all ranks. */
export function settledValues({ settled, given }: AutotuneWord, shape: JobShape): TunableValues | undefined {
  const result = settled?.find((each) => misfit(each, shape) === undefined);
  return result === undefined ? undefined : withoutGiven(result, given);
}

/** The settings of an earlier job that fits; the same on all ranks. `say`: why one does not. */
export function savedValues(
  { saved, given }: AutotuneWord,
  shape: JobShape,
  say?: (text: string) => void,
): TunableValues | undefined {
  if (saved === undefined) return undefined;
  const reason = misfit(saved, shape);
  if (reason !== undefined) {
    say?.(`does not use the result of an earlier job: ${reason}. Tuning starts over.`);
    return undefined;
  }
  return withoutGiven(saved, given);
}

function withoutGiven({ values }: SavedResult, given: readonly string[]): TunableValues {
  return Object.fromEntries(Object.entries(values).filter(([name]) => !given.includes(name)));
}

/** What of them a transport is opened with. */
export function hierarchyOf(values: TunableValues | undefined): {
  hierarchicalAllreduce?: boolean;
  hierarchicalAllgather?: boolean;
} {
  const { hierarchicalAllreduce, hierarchicalAllgather } = (values ?? {}) as Record<string, unknown>;
  return {
    ...(typeof hierarchicalAllreduce === 'boolean' ? { hierarchicalAllreduce } : {}),
    ...(typeof hierarchicalAllgather === 'boolean' ? { hierarchicalAllgather } : {}),
  };
}
