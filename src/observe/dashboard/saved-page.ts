// The page as one file, with all that it knows: for a mail, or a folder of results. It needs no server and asks nobody for anything.
// A browser does not load modules from beside a file, so each one is in an import map, as a URL that contains its text.

import { readdirSync } from 'node:fs';
import type { DashboardStart } from './messages.ts';
import { pageFolder, readPageFile } from './page-files.ts';

/** Modules are known by these names in the file. */
const prefix = 'dashboard/';
/** Should a text get around everything else: it loads nothing either. */
const policy =
  "default-src 'none'; script-src 'unsafe-inline' data:; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'";

export function savedPage(start: DashboardStart): string {
  const head = `<meta http-equiv="Content-Security-Policy" content="${policy}">`;
  return textOf('index.html')
    .replace('<meta charset="utf-8">', (charset) => `${charset}\n${head}`)
    .replaceAll(
      /<link rel="stylesheet" href="([^"]+)">/g,
      (_, name: string) => `<style>\n${textOf(name)}</style>`,
    )
    .replaceAll(
      /<script src="([^"]+)"><\/script>/g,
      (_, name: string) => `<script>\n${textOf(name)}</script>`,
    )
    .replace(/<script type="module" src="([^"]+)"><\/script>/, (_, name: string) => modules(name))
    .replace(
      '</body>',
      () => `<script type="application/json" id="saved">${jsonOf(start)}</script>\n</body>`,
    );
}

function modules(first: string): string {
  const names = readdirSync(pageFolder()).filter((name) => name.endsWith('.js'));
  const imports = Object.fromEntries(names.map((name) => [`${prefix}${name}`, urlOf(name)]));
  return [
    `<script type="importmap">${jsonOf({ imports })}</script>`,
    `<script type="module">import '${prefix}${first}';</script>`,
  ].join('\n');
}

/** A module that a URL contains has no folder beside it: what it imports has a name instead. */
function urlOf(name: string): string {
  const code = textOf(name)
    .replaceAll(
      /(\bfrom |\bimport )'\.\/([\w-]+\.js)'/g,
      (_, before: string, other: string) => `${before}'${prefix}${other}'`,
    )
    .replace(/\/\/# sourceMappingURL=.*\s*$/, '');
  return `data:text/javascript,${encodeURIComponent(code)}`;
}

function textOf(name: string): string {
  const file = readPageFile(name);
  if (file === undefined)
    throw new Error(`the page of the dashboard is not built: ${name} is missing in ${pageFolder()}`);
  return file.bytes.toString('utf8');
}

/** No text of a rank may end the element that contains it. */
function jsonOf(value: unknown): string {
  return JSON.stringify(value).replaceAll('<', '\\u003c');
}
