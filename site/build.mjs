// `npm run site`: the guide, the reference and TypeDoc's pages of the API as a web site with local search, in site/dist. Dead links,
// and pages that would load something from another host, fail.

import { spawnSync } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { stage } from './stage.mjs';

const here = dirname(fileURLToPath(import.meta.url));
const repository = dirname(here);
// Beside node_modules, where VitePress looks for what its pages import.
const staged = join(here, '.staged');
const out = join(here, 'dist');

export function buildSite() {
  stage(repository, staged);
  writeApi();
  tool('vitepress', 'bin/vitepress.js', ['build', here], { HVD_SITE_STAGED: staged, HVD_SITE_OUT: out });
  const foreign = foreignRequests(out);
  if (foreign.length > 0) throw new Error(`Pages load from other hosts:\n${foreign.join('\n')}`);
  console.log(`The site is in site/dist: ${countPages(out)} pages.`);
}

/** One page for each thing that users import, under the name that they write, from the compiled declarations. */
function writeApi() {
  const { exports } = JSON.parse(readFileSync(join(repository, 'package.json'), 'utf8'));
  const folder = join(here, '.entries');
  rmSync(folder, { recursive: true, force: true });
  const entries = Object.entries(exports).flatMap(([name, { types }]) => {
    // The loader of TypeScript exports nothing.
    if (types === undefined || name === './typescript') return [];
    const file = join(folder, `${name.replace(/^\./, 'horovod')}.ts`);
    mkdirSync(dirname(file), { recursive: true });
    const declarations = relative(dirname(file), join(repository, types.replace(/\.d\.ts$/, '.js')));
    writeFileSync(file, `export * from '${declarations}';\n`);
    return [file];
  });
  const options = {
    entryPoints: entries,
    basePath: folder,
    tsconfig: join(here, 'tsconfig.json'),
    skipErrorChecking: true,
    plugin: ['typedoc-plugin-markdown'],
    out: join(staged, 'docs/api'),
    readme: 'none',
    name: 'API',
    entryFileName: 'index',
    hidePageHeader: true,
    hideBreadcrumbs: true,
    disableSources: true,
    logLevel: 'Error',
  };
  const file = join(folder, 'typedoc.json');
  writeFileSync(file, JSON.stringify(options));
  tool('typedoc', 'bin/typedoc', ['--options', file]);
}

function tool(name, file, args, env = {}) {
  const folder = join(here, 'node_modules', name);
  const { status, error } = spawnSync(process.execPath, [join(folder, file), ...args], {
    cwd: here,
    env: { ...process.env, ...env },
    stdio: ['ignore', 'inherit', 'inherit'],
    timeout: 600_000,
  });
  if (status !== 0) throw new Error(`${name} failed (${error?.message ?? `exit code ${status}`})`);
}

/** What a browser would fetch from elsewhere when it opens a page. Links that a person clicks are not that. */
function foreignRequests(folder) {
  const found = [];
  for (const path of readdirSync(folder, { recursive: true })) {
    if (!/\.(html|css)$/.test(path)) continue;
    const text = readFileSync(join(folder, path), 'utf8');
    for (const [, url] of text.matchAll(
      /<(?:script|img|iframe|link)\b[^>]*?\b(?:src|href)="(https?:[^"]+)"/g,
    ))
      found.push(`${path}: ${url}`);
    for (const [, url] of text.matchAll(/(?:url\(|@import )["']?(https?:[^"')]+)/g))
      found.push(`${path}: ${url}`);
  }
  return found;
}

const countPages = (folder) =>
  readdirSync(folder, { recursive: true }).filter((path) => path.endsWith('.html')).length;

try {
  buildSite();
} catch (error) {
  console.error(`site: ${error.message}`);
  process.exitCode = 1;
}
