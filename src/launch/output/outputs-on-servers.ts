// --output-filename and --timeline-filename on HDFS or another server. The files are written to a temporary folder of this machine
// while the job runs, and copied when it has ended: they grow line by line, and a server is too slow for that. If the copy fails, a
// message says where the files are.

import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { HorovodError } from '../../errors.ts';
import { createAtomically } from '../../files/atomic-write.ts';
import { folderOf, isHttp, isLocal, joinLocation, nameOf } from '../../files/location.ts';
import { readAhead } from '../../files/read-ahead.ts';
import type { Files } from '../../files/registry.ts';
import { settingError } from '../../settings/setting.ts';

export interface RequestedOutputs {
  readonly outputFilename: string | undefined;
  readonly timelineFile: string | undefined;
}

export interface DivertedOutputs extends RequestedOutputs {
  /** Copies what is there, and removes it here. Does not throw. */
  copy(say: (text: string) => void): Promise<void>;
}

/** The same outputs with paths of this machine. Undefined if they have such paths already. */
export async function divertOutputs(
  files: Files,
  { outputFilename, timelineFile }: RequestedOutputs,
): Promise<DivertedOutputs | undefined> {
  const remote = (location: string | undefined) =>
    location === undefined || isLocal(location) ? undefined : location;
  const [output, timeline] = [remote(outputFilename), remote(timelineFile)];
  if (output === undefined && timeline === undefined) return undefined;
  // A scheme that nobody knows, or that can only be read, is noticed now and not after the training.
  for (const location of [output, timeline].filter((each) => each !== undefined)) {
    if (isHttp(location)) throw settingError(`${location} can only be read. Use a path or hdfs://.`);
    const folder = location === output ? location : folderOf(location);
    try {
      await (await files.fileSystem(location)).mkdir(folder);
    } catch (error) {
      throw settingError(`${location} cannot be used: ${textOf(error)}`);
    }
  }
  const folder = mkdtempSync(join(tmpdir(), 'horovodrun-'));
  const outputFolder = join(folder, 'output');
  return {
    outputFilename: output === undefined ? outputFilename : outputFolder,
    timelineFile: timeline === undefined ? timelineFile : join(folder, `timeline-${nameOf(timeline)}`),
    async copy(say) {
      try {
        if (output !== undefined) await copyFolder(files, outputFolder, output);
        if (timeline !== undefined) {
          const names = readdirSync(folder).filter((name) => name.startsWith('timeline-'));
          if (names.length === 0)
            say(`there is no timeline to copy to ${timeline}: rank 0 has not written any on this host.`);
          for (const name of names) {
            const target = joinLocation(folderOf(timeline), name.slice('timeline-'.length));
            await copyFile(files, join(folder, name), target);
          }
        }
        rmSync(folder, { recursive: true, force: true });
      } catch (error) {
        say(`the files of this job could not be copied: ${textOf(error)} They are in ${folder}.`);
      }
    },
  };
}

async function copyFolder(files: Files, from: string, to: string): Promise<void> {
  for (const entry of readdirSync(from, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue;
    const path = join(entry.parentPath, entry.name);
    const target = joinLocation(to, ...relative(from, path).split(/[\\/]/));
    await (await files.fileSystem(target)).mkdir(folderOf(target));
    await copyFile(files, path, target);
  }
}

async function copyFile(files: Files, from: string, to: string): Promise<void> {
  await using source = await (await files.fileSystem(from)).open(from);
  await using target = await createAtomically(files, to);
  for await (const piece of readAhead(source)) await target.write(piece);
  await target.close();
}

function textOf(error: unknown): string {
  return HorovodError.is(error) ? error.detail : (error as Error).message;
}
