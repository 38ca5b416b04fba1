// Where a file is: a path, a file:// URL as a string (TensorFlow.js's habit: also relative, also unescaped), a URL of another
// scheme, or a URL object. Paths of HDFS are literal, as Hadoop has them: `run 1%.txt` needs no escapes. Those of http are URLs.

import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { HorovodError } from '../errors.ts';

const fileScheme = 'file://';

/** 'file' for a path; the scheme of a URL in small letters. One letter is a drive. */
export function schemeOf(location: string): string {
  return /^([a-z][a-z0-9+.-]+):\/\//i.exec(location)?.[1]?.toLowerCase() ?? 'file';
}

/** Paths and file:// URLs: what Node's own functions can open. */
export function isLocal(location: string): boolean {
  return schemeOf(location) === 'file';
}

/** For errors and logs: without user, password and query, which may be secrets. */
export function shownLocation(location: string): string {
  if (!isHttp(location) || !URL.canParse(location)) return location;
  const { protocol, host, pathname, search, hash } = new URL(location);
  return `${protocol}//${host}${pathname}${search === '' ? '' : '?…'}${hash}`;
}

/** The absolute path or URL that is meant. */
export function locationOf(location: string | URL): string {
  if (location instanceof URL && location.protocol !== 'file:') {
    return isHttp(location.href) ? location.href : decode(location.href);
  }
  if (location instanceof URL || isLocal(location)) return pathOf(location);
  return location;
}

/** The absolute path meant by a path, a file:// string or a file: URL. */
export function pathOf(location: string | URL): string {
  if (location instanceof URL) return fileURLToPath(location);
  if (location === '' || location === fileScheme) {
    throw new HorovodError('ERR_HVD_INVALID_ARGUMENT', 'The path of a file is empty.');
  }
  if (!location.toLowerCase().startsWith(fileScheme)) return resolve(location);
  const literal = resolve(location.slice(fileScheme.length));
  const decoded = decode(literal);
  // tfjs-node takes the text literally: what it has saved as "my%20model" must be found too.
  return decoded !== literal && existsSync(literal) && !existsSync(decoded) ? literal : decoded;
}

/** The location of a name in a folder. */
export function joinLocation(folder: string, ...names: readonly string[]): string {
  const [base, query] = cutQuery(folder);
  const parts = isHttp(folder) ? names.map(encodePath) : names;
  return [base === '/' ? '' : base.replace(/(?<!:\/)(?<!:)\/+$/, ''), ...parts].join('/') + query;
}

/** The folder that a file or folder is in. */
export function folderOf(location: string): string {
  const [base, query] = cutQuery(location);
  const { root, path } = splitRoot(base);
  const cut = path.replace(/\/+$/, '').lastIndexOf('/');
  return root + (cut <= 0 ? path.slice(0, 1) : path.slice(0, cut)) + query;
}

/** The last part of a location. */
export function nameOf(location: string): string {
  const { path } = splitRoot(cutQuery(location)[0]);
  return path.replace(/\/+$/, '').split('/').at(-1) ?? '';
}

/** `hdfs://host:8020` and `/folder/file`; a path has no root. */
export function splitRoot(location: string): { readonly root: string; readonly path: string } {
  const root = /^[a-z][a-z0-9+.-]+:\/\/[^/]*/i.exec(location)?.[0] ?? '';
  return { root, path: location.slice(root.length) || (root === '' ? '' : '/') };
}

export function isHttp(location: string): boolean {
  return ['http', 'https'].includes(schemeOf(location));
}

function cutQuery(location: string): [base: string, query: string] {
  const at = isHttp(location) ? location.search(/[?#]/) : -1;
  return at < 0 ? [location, ''] : [location.slice(0, at), location.slice(at)];
}

function encodePath(path: string): string {
  return path.split('/').map(encodeURIComponent).join('/');
}

/** Undoes percent-encoding; a stray % (50%.model) stays what it is. */
function decode(path: string): string {
  try {
    return decodeURIComponent(path);
  } catch {
    return path;
  }
}
