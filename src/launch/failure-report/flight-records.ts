// The flight records of a job, as seen by its launcher: it asks the ranks of this host to write them, and prints where
// they are.

import {
  askForDumps,
  dumpsIn,
  type FlightDirectory,
  flightDirectory,
  openFlightDirectory,
} from '../../observe/flight-recorder/flight-directory.ts';
import { shortJobId } from '../../rendezvous/short-job-id.ts';
import { typedCommand } from '../../settings/command-name.ts';

export class FlightRecords {
  readonly #directory: FlightDirectory | undefined;
  readonly #hasOtherHosts: boolean;
  readonly #startedAtMs = Date.now();

  /** `given`: HOROVOD_FLIGHT_DIR. */
  constructor(given: string | undefined, jobId: string, hasOtherHosts: boolean) {
    this.#directory = flightDirectory(given, shortJobId(jobId));
    this.#hasOtherHosts = hasOtherHosts;
  }

  /** Returns a message for the user. `generation`: that trains now, of an elastic job. */
  ask(generation?: number): string {
    if (this.#directory === undefined) return 'flight records are turned off (HOROVOD_FLIGHT_DIR=none).';
    try {
      openFlightDirectory(this.#directory);
      askForDumps({ ...this.#directory, generation });
    } catch (error) {
      return `cannot write flight records (HOROVOD_FLIGHT_DIR): ${(error as Error).message}.`;
    }
    return (
      `the ranks on this host are writing flight records to ${this.#directory.path}, except for ranks that do not return ` +
      `to the event loop. To see them, run: ${typedCommand('horovod')} flight-report ${this.#directory.path}`
    );
  }

  /** Lines for the report of a failed job. */
  pointer(): string[] {
    if (this.#directory === undefined) return [];
    // File systems have coarser clocks.
    if (dumpsIn(this.#directory, this.#startedAtMs - 1000).length === 0) return [];
    const others = this.#hasOtherHosts ? ' (ranks on other hosts write to the same path on their host)' : '';
    const command = `${typedCommand('horovod')} flight-report ${this.#directory.path}`;
    return [`To see what each rank did last, run: ${command}${others}`];
  }
}
