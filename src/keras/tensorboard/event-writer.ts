// Appends scalars to a TensorBoard event file. Every call is on the file when its promise resolves, so that
// TensorBoard shows a job that is running, and a job that is killed has lost nothing.

import { randomUUID } from 'node:crypto';
import { type FileHandle, mkdir, open } from 'node:fs/promises';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { scalarsEvent, versionEvent } from './event-message.ts';
import { frameRecord } from './record-framing.ts';

export class EventWriter {
  readonly #file: FileHandle;

  private constructor(file: FileHandle) {
    this.#file = file;
  }

  /** Opens a new event file in a folder, which is made if need be. */
  static async open(folder: string): Promise<EventWriter> {
    await mkdir(folder, { recursive: true });
    const seconds = String(Math.floor(Date.now() / 1000)).padStart(10, '0');
    // TensorBoard looks for "tfevents" in the name; the rest keeps the files of several runs apart and in order.
    const name = `events.out.tfevents.${seconds}.${hostname()}.${process.pid}.${randomUUID().slice(0, 8)}.v2`;
    const file = await open(join(folder, name), 'ax');
    await file.appendFile(frameRecord(versionEvent(Date.now() / 1000)));
    return new EventWriter(file);
  }

  async scalars(step: number, scalars: Readonly<Record<string, number>>): Promise<void> {
    await this.#file.appendFile(frameRecord(scalarsEvent(Date.now() / 1000, step, scalars)));
  }

  async close(): Promise<void> {
    await this.#file.close();
  }
}
