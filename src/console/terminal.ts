// Whether a rank's output ends on a terminal, for lines that are updated in place. A rank that runs alone may have a terminal
// itself. Under horovodrun its output is a pipe; horovodrun tells rank 0 of its own terminal by a file with the number of
// columns (HOROVOD_TERMINAL), and shows what ends in a carriage return in place, below the lines of all ranks.

import { readFileSync } from 'node:fs';
import { processEnvironment, showsInPlace } from '../settings/environment.ts';
import { settingsTable } from '../settings/table.ts';

/** What is needed of process.stdout. */
export interface OutputStream {
  readonly isTTY?: boolean;
  readonly columns?: number;
  write(text: string): unknown;
}

export interface Terminal {
  /** For a line that is shown; may change. */
  readonly columns: number;
  /** Shows a line in place of the last one that was shown. */
  show(line: string): void;
  /** Prints a line that stays. What was shown is gone. */
  print(line: string): void;
}

/** Where a terminal does not say. */
const defaultColumns = 80;
const eraseLine = '\r\x1b[2K';

/** Undefined: `stream` ends on no terminal that shows lines in place. `given`: HOROVOD_TERMINAL. */
export function terminalOf(
  stream: OutputStream,
  given: string | undefined = stream === process.stdout
    ? processEnvironment()[settingsTable.terminal.env as string]
    : undefined,
  isInPlace: boolean = stream !== process.stdout || showsInPlace(),
): Terminal | undefined {
  // mpirun gives ranks a pseudo terminal without columns, whatever its own output is.
  if (stream.isTTY && stream.columns !== 0) return isInPlace ? ownTerminal(stream) : undefined;
  return given === undefined || given === '' ? undefined : launcherTerminal(stream, given);
}

/** Node does not colour what ranks with such a pseudo terminal print, either. */
export function disregardUnsizedTerminals(
  streams: readonly { isTTY: boolean; columns?: number }[] = [process.stdout, process.stderr],
): void {
  for (const stream of streams) if (stream.isTTY && stream.columns === 0) stream.isTTY = false;
}

function ownTerminal(stream: OutputStream): Terminal {
  return {
    get columns() {
      return stream.columns ?? defaultColumns;
    },
    show(line) {
      stream.write(`${eraseLine}${line.slice(0, this.columns - 1)}`);
    },
    print(line) {
      stream.write(`${eraseLine}${line}\n`);
    },
  };
}

function launcherTerminal(stream: OutputStream, file: string): Terminal | undefined {
  if (columnsIn(file) === undefined) return undefined;
  return {
    get columns() {
      // The launcher may have gone.
      return columnsIn(file) ?? defaultColumns;
    },
    show(line) {
      stream.write(`${line.slice(0, this.columns - 1)}\r`);
    },
    print(line) {
      stream.write(`\r${line}\n`);
    },
  };
}

function columnsIn(file: string): number | undefined {
  try {
    const columns = Number(readFileSync(file, 'latin1').replace(/\0.*$/s, ''));
    return Number.isSafeInteger(columns) && columns > 0 ? columns : undefined;
  } catch {
    // In another container, say.
    return undefined;
  }
}
