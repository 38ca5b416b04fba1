// Builds the pages of this package into dist/: compiles their modules, which are the only code that knows a browser, and copies what
// is no code beside them.

import { cpSync, mkdirSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { inRepository, runTool } from './lib/tools.mjs';

const pages = ['src/observe/dashboard/page', 'src/observe/timeline/report/page'];
const isAsset = (name) => /^vendor$|\.(html|css)$/.test(name);

/** Resolves to the exit code of the compiler. */
export async function buildPage(options) {
  for (const source of pages) {
    const code = await runTool('typescript', 'tsc', ['-p', join(source, 'tsconfig.json')], options);
    if (code !== 0) return code;
    const target = inRepository(source.replace(/^src/, 'dist'));
    mkdirSync(target, { recursive: true });
    for (const name of readdirSync(inRepository(source)).filter(isAsset)) {
      cpSync(inRepository(source, name), join(target, name), { recursive: true });
    }
  }
  return 0;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) process.exitCode = await buildPage();
