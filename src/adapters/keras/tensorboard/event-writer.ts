// Appends scalars to a TensorBoard event file, on any file system. On this machine they are in the file when the promise resolves, so
// TensorBoard shows a running job, and a job that is killed loses nothing; on HDFS they are written every 10 s. The file is open only
// while it is written to: if fit() throws, callbacks are not called, so it could not be closed.

import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { frameRecord } from '../../../data/formats/tfrecord/framing.ts';
import { GrowingFile } from '../../../files/growing-file.ts';
import { joinLocation } from '../../../files/location.ts';
import { fileSystems } from '../../file-systems.ts';
import { scalarsEvent, versionEvent } from './event-message.ts';

export class EventWriter {
  readonly #file: GrowingFile;

  private constructor(file: GrowingFile) {
    this.#file = file;
  }

  /** Begins a new event file in a folder, which is made if need be. */
  static async create(folder: string): Promise<EventWriter> {
    const files = fileSystems();
    await (await files.fileSystem(folder)).mkdir(folder);
    const seconds = String(Math.floor(Date.now() / 1000)).padStart(10, '0');
    // TensorBoard looks for "tfevents" in the name; the rest keeps the files of several runs apart and in order.
    const name = `events.out.tfevents.${seconds}.${hostname()}.${process.pid}.${randomUUID().slice(0, 8)}.v2`;
    const first = frameRecord(versionEvent(Date.now() / 1000));
    return new EventWriter(await GrowingFile.create(files, joinLocation(folder, name), first));
  }

  async scalars(step: number, scalars: Readonly<Record<string, number>>): Promise<void> {
    await this.#file.append(frameRecord(scalarsEvent(Date.now() / 1000, step, scalars)));
  }

  /** What was given before is in the file when it resolves. */
  async flush(): Promise<void> {
    await this.#file.flush();
  }
}
