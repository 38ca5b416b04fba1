// Tells rank 0 how wide the launcher's terminal is: a memory file with the number of columns as text. Rank 0 gets its path and
// reads it whenever it draws; see console/terminal.ts.

import { writeSync } from 'node:fs';
import { createMemoryFile, type MemoryFile } from '../../control/memory-file.ts';
import { HorovodError } from '../../errors.ts';

const fileBytes = 16;

export class TerminalFile {
  readonly #file: MemoryFile;

  private constructor(file: MemoryFile) {
    this.#file = file;
  }

  /** Undefined where there is no room: rank 0 then prints lines, as into a pipe. */
  static create(columns: number): TerminalFile | undefined {
    try {
      const terminal = new TerminalFile(createMemoryFile(fileBytes, { label: 'terminal' }));
      terminal.write(columns);
      return terminal;
    } catch (error) {
      if (!HorovodError.is(error)) throw error;
      return undefined;
    }
  }

  get path(): string {
    return this.#file.path;
  }

  write(columns: number): void {
    const bytes = Buffer.alloc(fileBytes);
    bytes.write(String(columns));
    writeSync(this.#file.fd, bytes, 0, fileBytes, 0);
  }

  close(): void {
    this.#file.close();
  }
}
