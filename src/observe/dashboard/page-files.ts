// The files of the page, as scripts/build-page.mjs has built them.

import { readFileSync } from 'node:fs';
import { extname, join } from 'node:path';
import { packageRoot } from '../../settings/package.ts';
import type { DashboardStart } from './messages.ts';

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

/** `name`: relative, as in a URL, such as `vendor/uplot/uPlot.js`. Undefined: the page has no such file. */
export function readPageFile(name: string): PageFile | undefined {
  const type = types[extname(name)];
  if (type === undefined || !/^[a-z0-9][\w-]*(\.[\w-]+)*(\/[a-z0-9][\w-]*(\.[\w-]+)*)*$/i.test(name))
    return undefined;
  try {
    return { type, bytes: readFileSync(join(packageRoot(), 'dist/observe/dashboard/page', name)) };
  } catch {
    return undefined;
  }
}

/** The page with all it knows in one file, which needs no server. */
export function savedPage(start: DashboardStart): string {
  const page = readPageFile('index.html')?.bytes.toString('utf8') ?? '<!doctype html><title>Horovod</title>';
  const withStyle = page.replaceAll(/<link\b[^>]*\bhref="([^"]+\.css)"[^>]*>/g, (whole, name: string) => {
    const style = readPageFile(name);
    return style === undefined ? whole : `<style>${style.bytes.toString('utf8')}</style>`;
  });
  // No text of a rank may end the element.
  const state = JSON.stringify(start).replaceAll('<', '\\u003c');
  return withStyle.replace(
    /<\/body>|$/,
    () => `<script type="application/json" id="saved">${state}</script>\n</body>`,
  );
}
