// Appends events to a TensorBoard event file, on any file system. On this machine they are in the file when the promise resolves, so
// TensorBoard shows a running job, and a job that is killed loses nothing; on HDFS they are written every 10 s. The file is open only
// while it is written to: a training loop that throws never closes it.

import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { GrowingFile } from '../../files/growing-file.ts';
import { joinLocation } from '../../files/location.ts';
import type { Files } from '../../files/registry.ts';
import { frameRecord } from '../formats/tfrecord/framing.ts';
import { versionEvent } from './summary-message.ts';

export class EventFile {
  readonly #file: GrowingFile;

  private constructor(file: GrowingFile) {
    this.#file = file;
  }

  get location(): string {
    return this.#file.location;
  }

  /** Begins a new event file in a folder, which is made if need be. */
  static async create(files: Files, folder: string): Promise<EventFile> {
    await (await files.fileSystem(folder)).mkdir(folder);
    const seconds = String(Math.floor(Date.now() / 1000)).padStart(10, '0');
    // TensorBoard looks for "tfevents" in the name; the rest keeps the files of several runs apart and in order.
    const name = `events.out.tfevents.${seconds}.${hostname()}.${process.pid}.${randomUUID().slice(0, 8)}.v2`;
    const first = frameRecord(versionEvent(Date.now() / 1000));
    return new EventFile(await GrowingFile.create(files, joinLocation(folder, name), first));
  }

  async append(event: Uint8Array): Promise<void> {
    await this.#file.append(frameRecord(event));
  }

  /** What was given before is in the file when it resolves. */
  async flush(): Promise<void> {
    await this.#file.flush();
  }
}
