// The newest of the checkpoints that a script has written, one for each epoch.

import { existsSync, readdirSync } from 'node:fs';
import { dirname, relative, sep } from 'node:path';
import { invalid } from '../../operations/check-options.ts';
import { modelJsonIn, pathOf } from './model-files/location.ts';

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
  const path = pathOf(filepath);
  // The folder with one entry for each epoch, and what those entries are called.
  const folder = dirname(`${path.slice(0, path.indexOf(mark))}x`);
  const [entry = ''] = relative(folder, path).split(sep);
  const [before = '', ...after] = entry.split(mark);
  const epochs = (existsSync(folder) ? readdirSync(folder) : []).flatMap((name) => {
    const digits = /^\d+/.exec(name.slice(before.length))?.[0];
    return digits !== undefined && name === [before, ...after].join(digits) ? [Number(digits)] : [];
  });
  const isSaved = (epoch: number) => existsSync(modelJsonIn(path.replaceAll(mark, String(epoch))));
  return Math.max(0, ...epochs.filter(isSaved));
}
