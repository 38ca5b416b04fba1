// Where a model is: a folder with model.json in it, on any file system; its weights lie beside that file.

import { folderOf, joinLocation, locationOf, nameOf } from '../../../files/location.ts';

/** model.json, whether the folder or the file itself was named. */
export function modelJsonIn(location: string | URL): string {
  const place = locationOf(location);
  return nameOf(place).endsWith('.json') ? place : joinLocation(place, 'model.json');
}

/** The folder to save into; a trailing model.json is allowed. */
export function modelFolderOf(location: string | URL): string {
  const place = locationOf(location);
  return nameOf(place) === 'model.json' ? folderOf(place) : place;
}

/** A file beside model.json. */
export function besideModelJson(modelJson: string, name: string): string {
  return joinLocation(folderOf(modelJson), name);
}
