// Appends scalars to a TensorBoard event file. They are in the file when the promise resolves, so TensorBoard shows a running
// job, and a job that is killed loses nothing. The file is open only while it is written to: if fit() throws, callbacks are not
// called, so it could not be closed.

import { randomUUID } from 'node:crypto';
import { appendFile, mkdir } from 'node:fs/promises';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { frameRecord } from '../../../data/formats/tfrecord/framing.ts';
import { scalarsEvent, versionEvent } from './event-message.ts';

export class EventWriter {
  readonly #path: string;

  private constructor(path: string) {
    this.#path = path;
  }

  /** Begins a new event file in a folder, which is made if need be. */
  static async create(folder: string): Promise<EventWriter> {
    await mkdir(folder, { recursive: true });
    const seconds = String(Math.floor(Date.now() / 1000)).padStart(10, '0');
    // TensorBoard looks for "tfevents" in the name; the rest keeps the files of several runs apart and in order.
    const name = `events.out.tfevents.${seconds}.${hostname()}.${process.pid}.${randomUUID().slice(0, 8)}.v2`;
    const path = join(folder, name);
    await appendFile(path, frameRecord(versionEvent(Date.now() / 1000)), { flag: 'ax' });
    return new EventWriter(path);
  }

  async scalars(step: number, scalars: Readonly<Record<string, number>>): Promise<void> {
    await appendFile(this.#path, frameRecord(scalarsEvent(Date.now() / 1000, step, scalars)));
  }
}
