// The newest of the checkpoints that a script has written, one for each epoch.

import { problemOf } from '../../files/file-system.ts';
import { folderOf, locationOf } from '../../files/location.ts';
import { statusOf } from '../../files/read-file.ts';
import { invalid } from '../../operations/check-options.ts';
import { fileSystems } from '../file-systems.ts';
import { modelJsonIn } from './model-files/location.ts';

const mark = '{epoch}';

/**
 * The highest epoch for which there is a model at `filepath`, whose {epoch} stands for the number, as in BestModelCheckpoint; 0 if
 * there is none. A folder whose first save was interrupted has no model. Not collective: ask on the rank that can read the files, and
 * broadcast the answer.
 */
export async function lastSavedEpoch(filepath: string): Promise<number> {
  if (typeof filepath !== 'string' || !filepath.includes(mark)) {
    throw invalid(
      'lastSavedEpoch()',
      `expected a path with ${mark} in it, such as 'checkpoints/epoch-${mark}'`,
    );
  }
  const files = fileSystems();
  const place = locationOf(filepath);
  // The folder with one entry for each epoch, and what those entries are called.
  const folder = folderOf(`${place.slice(0, place.indexOf(mark))}x`);
  const [entry = ''] = place.slice(folder.length).replace(/^\/+/, '').split('/');
  const [before = '', ...after] = entry.split(mark);
  const fileSystem = await files.fileSystem(folder);
  const entries = await fileSystem.list(folder).catch((error: unknown) => {
    if (problemOf(error) === 'missing') return [];
    throw error;
  });
  const epochs = entries.flatMap(({ name }) => {
    const digits = /^\d+/.exec(name.slice(before.length))?.[0];
    return digits !== undefined && name === [before, ...after].join(digits) ? [Number(digits)] : [];
  });
  // From the newest on: usually the first one is there.
  for (const epoch of epochs.sort((a, b) => b - a)) {
    const model = modelJsonIn(place.replaceAll(mark, String(epoch)));
    if ((await statusOf(files, model)) !== undefined) return epoch;
  }
  return 0;
}
