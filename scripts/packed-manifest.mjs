// The `prepack` and `postpack` scripts: the packed package.json has no `prepare` script. npm would run it for nobody who
// installs the package, but warns about it. `strip` removes its line from package.json, and `restore` puts it back.

import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const file = fileURLToPath(new URL('../package.json', import.meta.url));
const opening = '  "scripts": {\n';
const line = '    "prepare": "node scripts/prepare.mjs",\n';

const [verb] = process.argv.slice(2);
const before = readFileSync(file, 'utf8');
const without = before.replace(line, '');
const after = verb === 'restore' ? without.replace(opening, opening + line) : without;
const { scripts } = JSON.parse(after);
if (!['strip', 'restore'].includes(verb) || 'prepare' in scripts !== (verb === 'restore')) {
  throw new Error(
    'usage: packed-manifest.mjs strip | restore, with a package.json that has the line as it is here',
  );
}
// Whole at any time: other processes read it.
writeFileSync(`${file}.new`, after);
renameSync(`${file}.new`, file);
