// What the starts of one rank alone and of several have in common.

import { createLog } from '../../console/log.ts';
import { HorovodError } from '../../errors.ts';
import { flightDirectory } from '../../observe/flight-recorder/flight-directory.ts';
import type { FlightPlace } from '../../observe/flight-recorder/flight-dumper.ts';
import type { Settings } from '../../settings/table.ts';
import { describe } from '../../tensor/tensor.ts';
import type { ContextParts } from '../context-parts.ts';

export type CommonParts = Pick<ContextParts, 'limits' | 'hasDynamicProcessSets' | 'processSet'>;

/** Says what autotune does, whatever the log level is: it was turned on to be heard of. */
export function announcer(settings: Settings, rank: number): (text: string) => void {
  const log = createLog(settings, rank);
  return (text) => log.tell(`autotune ${text}`);
}

/** Under horovodrun the report of a failed job says where the records are. */
export function flightPlace(
  { flightDirectory: given, launcher }: Settings,
  job: string,
  generation?: number,
): FlightPlace | undefined {
  const directory = flightDirectory(given, job, { generation });
  return directory === undefined ? undefined : { directory, isAnnounced: launcher.kind === 'horovodrun' };
}

/** The ranks that take part. */
export function checkRanks(
  ranks: readonly number[] | undefined,
  rank: number,
  size: number,
): readonly number[] {
  if (ranks === undefined) return Array.from({ length: size }, (_, each) => each);
  const isList =
    Array.isArray(ranks) && ranks.every((each) => Number.isSafeInteger(each) && each >= 0 && each < size);
  if (!isList || new Set(ranks).size !== ranks.length || ranks.length === 0) {
    throw new HorovodError(
      'ERR_HVD_INVALID_ARGUMENT',
      `init: ranks is a list of different ranks below ${size}, not ${describe(ranks)}.`,
    );
  }
  if (!ranks.includes(rank)) {
    throw new HorovodError(
      'ERR_HVD_INVALID_ARGUMENT',
      `init: rank ${rank} is not one of ranks [${ranks.join(', ')}]; only those may call it.`,
    );
  }
  return [...ranks];
}
