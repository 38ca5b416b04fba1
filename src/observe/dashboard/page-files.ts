// The files of the page, as scripts/build-page.mjs has built them.

import { readFileSync } from 'node:fs';
import { extname, join } from 'node:path';
import { packageRoot } from '../../settings/package.ts';

export interface PageFile {
  readonly type: string;
  readonly bytes: Buffer;
}

const types: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.txt': 'text/plain; charset=utf-8',
};

export function pageFolder(): string {
  return join(packageRoot(), 'dist/observe/dashboard/page');
}

/** `name`: relative, as in a URL, such as `vendor/uplot/uPlot.js`. Undefined: the page has no such file. */
export function readPageFile(name: string): PageFile | undefined {
  const type = types[extname(name)];
  if (type === undefined || !/^[a-z0-9][\w-]*(\.[\w-]+)*(\/[a-z0-9][\w-]*(\.[\w-]+)*)*$/i.test(name))
    return undefined;
  try {
    return { type, bytes: readFileSync(join(pageFolder(), name)) };
  } catch {
    return undefined;
  }
}
