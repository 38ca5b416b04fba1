// When a rank writes its flight record: the job has failed, a collective stalls, an uncaught error or an exit code ends
// the process, somebody sends SIGUSR2, or another rank of the host has written its record. Never throws into the program:
// if it cannot write there is one warning.
//
// A rank that writes touches the file `asked` in the directory. The other ranks look at it a few times a second, from a
// timer and from inside blocking waits, where no signal handler of Node runs.

import type { Log } from '../../console/log.ts';
import type { OperationObserver } from '../../engine/observer.ts';
import type { HorovodError } from '../../errors.ts';
import { typedCommand } from '../../settings/command-name.ts';
import {
  askedAtMs,
  askForDumps,
  type FlightDirectory,
  openFlightDirectory,
  pruneGenerations,
} from './flight-directory.ts';
import { type FlightDump, writeDump } from './flight-dump.ts';

export type DumpReason = 'failure' | 'stall' | 'uncaught error' | 'exit' | 'signal' | 'asked';

export interface FlightPlace {
  readonly directory: FlightDirectory;
  /** True: the launcher says at the end where the records are. */
  readonly isAnnounced: boolean;
}

export interface FlightDumperOptions {
  readonly place: FlightPlace | undefined;
  readonly log: Log;
  snapshot(reason: DumpReason, error: unknown): FlightDump;
}

/** Our handlers of SIGUSR2: those of the user take precedence. */
const ownHandlers = new WeakSet<() => void>();
/** How often `asked` is looked at. */
const lookMs = 400;

export class FlightDumper implements OperationObserver {
  readonly name = 'the writer of flight records';
  readonly #options: FlightDumperOptions;
  readonly #startedAtMs = Date.now();
  #timer: NodeJS.Timeout | undefined;
  #askedAtMs = 0;
  #hasWarned = false;
  /** The last word has been written: what follows is aftermath. */
  #isFinal = false;
  #stop: () => void = () => {};

  constructor(options: FlightDumperOptions) {
    this.#options = options;
  }

  /** `horovod flight-report <directory>`, for texts; undefined where nothing is written. */
  get command(): string | undefined {
    const { place } = this.#options;
    return place === undefined
      ? undefined
      : `${typedCommand('horovod')} flight-report ${place.directory.path}`;
  }

  /** Listens to signals, the end of the process, and to what other ranks ask. */
  listen(): void {
    if (this.#options.place === undefined) return;
    const onSignal = () => {
      const isOurs = process.listeners('SIGUSR2').every((handler) => ownHandlers.has(handler as () => void));
      if (isOurs) this.write('signal');
    };
    const onError = (error: unknown) => this.write('uncaught error', error);
    const onExit = (code: number) => {
      if (code !== 0) this.write('exit');
    };
    ownHandlers.add(onSignal);
    process.on('SIGUSR2', onSignal);
    process.on('uncaughtExceptionMonitor', onError);
    process.on('exit', onExit);
    this.#timer = setInterval(() => this.look(), lookMs);
    this.#timer.unref();
    this.#stop = () => {
      process.off('SIGUSR2', onSignal);
      process.off('uncaughtExceptionMonitor', onError);
      process.off('exit', onExit);
    };
  }

  /** No timer runs meanwhile. */
  waiting(): void {
    this.look();
  }

  failed(error: HorovodError): void {
    this.write('failure', error);
  }

  /** Writes if another rank has written its record. */
  look(): void {
    const { place } = this.#options;
    if (place === undefined) return;
    const atMs = askedAtMs(place.directory);
    if (atMs <= this.#askedAtMs || atMs < this.#startedAtMs - 1000) return;
    this.#askedAtMs = atMs;
    this.write('asked');
  }

  write(reason: DumpReason, error?: unknown): void {
    const { place, log } = this.#options;
    if (place === undefined || this.#isFinal) return;
    if (reason === 'failure' || reason === 'uncaught error') this.#isFinal = true;
    try {
      const { path, generation } = place.directory;
      openFlightDirectory(place.directory);
      const dump = this.#options.snapshot(reason, error);
      writeDump(path, generation === undefined ? dump : { ...dump, generation });
      pruneGenerations(place.directory);
      if (reason === 'asked') return;
      const isFirst = this.#ask(place);
      const level = isFirst && !place.isAnnounced && reason !== 'stall' ? 'error' : 'info';
      log.write(
        level,
        `the flight record of this rank is in ${place.directory.path}; ${this.command} compares the ranks.`,
      );
    } catch (failure) {
      if (this.#hasWarned) return;
      this.#hasWarned = true;
      const why = failure instanceof Error ? failure.message : String(failure);
      log.write('warning', `the flight record could not be written (HOROVOD_FLIGHT_DIR): ${why}.`);
    }
  }

  close(): void {
    clearInterval(this.#timer);
    this.#stop();
  }

  /** True: nobody has asked in the last seconds. */
  #ask(place: FlightPlace): boolean {
    const before = askedAtMs(place.directory);
    askForDumps(place.directory);
    this.#askedAtMs = askedAtMs(place.directory);
    return this.#askedAtMs - before > 5000;
  }
}
