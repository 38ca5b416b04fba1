// Where a model is: a path, a file:// URL as a string (TensorFlow.js's habit: also relative, also unescaped), or a
// URL object. A model is a folder with model.json in it; its weights lie beside that file.

import { existsSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { HorovodError } from '../../../errors.ts';

const scheme = 'file://';

/** Whether TensorFlow.js would look for a file:// handler. */
export function isFileUrl(location: string): boolean {
  return location.startsWith(scheme);
}

/** The absolute path meant by a path, a file:// string or a URL. */
export function pathOf(location: string | URL): string {
  if (location instanceof URL) {
    if (location.protocol === 'file:') return fileURLToPath(location);
    throw new HorovodError(
      'ERR_HVD_INVALID_ARGUMENT',
      `${location.href} is not a file: URL. Give a path, a file:// URL or a tf.io handler (tf.io.http(…)).`,
    );
  }
  if (location === '' || location === scheme) {
    throw new HorovodError('ERR_HVD_INVALID_ARGUMENT', 'The path of the model is empty.');
  }
  if (!isFileUrl(location)) return resolve(location);
  const literal = resolve(location.slice(scheme.length));
  const decoded = decode(literal);
  // tfjs-node takes the text literally: what it has saved as "my%20model" must be found too.
  return decoded !== literal && existsSync(literal) && !existsSync(decoded) ? literal : decoded;
}

/** model.json, whether the folder or the file itself was named. */
export function modelJsonIn(path: string): string {
  return path.endsWith('.json') ? path : join(path, 'model.json');
}

/** The folder to save into; a trailing model.json is allowed. */
export function folderOf(path: string): string {
  return basename(path) === 'model.json' ? dirname(path) : path;
}

/** Undoes percent-encoding; a stray % (50%.model) stays what it is. */
function decode(path: string): string {
  try {
    return decodeURIComponent(path);
  } catch {
    return path;
  }
}
