// The flight records of a job, as its launcher sees them: asks the ranks of this host for them, and says at the end where
// they are.

import {
  askForDumps,
  dumpsIn,
  type FlightDirectory,
  flightDirectory,
  openFlightDirectory,
} from '../../observe/flight-recorder/flight-directory.ts';
import { shortJobId } from '../../rendezvous/short-job-id.ts';

export class FlightRecords {
  readonly #directory: FlightDirectory | undefined;
  readonly #hasOtherHosts: boolean;
  readonly #startedAtMs = Date.now();

  /** `given`: HOROVOD_FLIGHT_DIR. */
  constructor(given: string | undefined, jobId: string, hasOtherHosts: boolean) {
    this.#directory = flightDirectory(given, shortJobId(jobId));
    this.#hasOtherHosts = hasOtherHosts;
  }

  /** Returns what to tell the user. */
  ask(): string {
    if (this.#directory === undefined) return 'no flight records are written: HOROVOD_FLIGHT_DIR is none.';
    try {
      openFlightDirectory(this.#directory);
      askForDumps(this.#directory);
    } catch (error) {
      return `no flight records can be written (HOROVOD_FLIGHT_DIR): ${(error as Error).message}.`;
    }
    return (
      `the ranks of this host write their flight records into ${this.#directory.path}, but for those that compute ` +
      `and do not come back to the event loop. See them with: horovod flight-report ${this.#directory.path}`
    );
  }

  /** Lines for the report of a failed job. */
  pointer(): string[] {
    if (this.#directory === undefined) return [];
    // File systems count time more coarsely than we do.
    if (dumpsIn(this.#directory, this.#startedAtMs - 1000).length === 0) return [];
    const others = this.#hasOtherHosts ? ' (ranks of other hosts: in the same place on their host)' : '';
    return [`What each rank did last: horovod flight-report ${this.#directory.path}${others}`];
  }
}
