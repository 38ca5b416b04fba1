// What the ranks of a failed job did last, for its dashboard.

import { dumpsIn, flightDirectory } from '../../observe/flight-recorder/flight-directory.ts';
import { analyse } from '../../observe/flight-recorder/report/analyse.ts';
import { loadDumps } from '../../observe/flight-recorder/report/load-dumps.ts';
import { renderReport } from '../../observe/flight-recorder/report/render.ts';

export interface FlightReportRequest {
  /** HOROVOD_FLIGHT_DIR */
  readonly given: string | undefined;
  /** As it is shown. */
  readonly job: string;
  /** Date.now() */
  readonly sinceMs: number;
}

/** As `horovod flight-report` prints it. Undefined: the ranks of this machine have left no records. */
export function flightReport({ given, job, sinceMs }: FlightReportRequest): string | undefined {
  const directory = flightDirectory(given, job);
  // File systems have coarser clocks.
  if (directory === undefined || dumpsIn(directory, sinceMs - 1000).length === 0) return undefined;
  try {
    const { dumps, notes } = loadDumps([directory.path]);
    return renderReport({ dumps, notes, finding: analyse(dumps) });
  } catch {
    return undefined; // What cannot be read is no reason to end otherwise.
  }
}
