#!/usr/bin/env node
// The command `horovod`; its code is src/cli/main.ts.

import { existsSync } from 'node:fs';

const main = new URL('../dist/cli/main.js', import.meta.url);
if (existsSync(main)) {
  (await import(main.href)).main(process.argv.slice(2));
} else {
  console.error(
    'horovod: dist/ is missing. In a clone of the repository, run `npm install` or `npm run build`.',
  );
  process.exitCode = 1;
}
