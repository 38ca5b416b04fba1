// Writes docs/reference/settings.md and errors.md from the tables in the compiled code.
// Usage: node scripts/generate-reference.mjs [directory of the compiled code, default dist]

import { mkdirSync, writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';

const root = resolve(import.meta.dirname, '..');
const compiled = resolve(root, process.argv[2] ?? 'dist');
const { errorsReference, settingsReference } = await import(
  pathToFileURL(resolve(compiled, 'settings/reference.js')).href
);

mkdirSync(resolve(root, 'docs/reference'), { recursive: true });
writeFileSync(resolve(root, 'docs/reference/settings.md'), settingsReference());
writeFileSync(resolve(root, 'docs/reference/errors.md'), errorsReference());
