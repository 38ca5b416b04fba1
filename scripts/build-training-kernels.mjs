// Compiles native/wasm/*.c into native/wasm/compiled/training-kernels.wasm. Run it after you change a C file. Only this script
// needs clang and lld (`apt-get install clang lld`). The custom section "sources" of the module contains a digest of the C files,
// which a test compares, so that nobody forgets to run this script.

import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const [customSection, dataSection] = [0, 11];
const repository = join(import.meta.dirname, '..');
const folder = mkdtempSync(join(tmpdir(), 'training-kernels-'));
const output = join(folder, 'training-kernels.wasm');
try {
  const compile = '--target=wasm32 -O3 -msimd128 -mbulk-memory -ffreestanding -Wall -Wextra -Werror -c';
  const link = '--target=wasm32 -nostdlib -Wl,--no-entry,--import-memory,--strip-all';
  const sources = readdirSync(join(repository, 'native/wasm')).flatMap((name) =>
    name.endsWith('.c') ? [name.slice(0, -2)] : [],
  );
  const objects = sources.map((name) => join(folder, `${name}.o`));
  const run = (...parameters) => execFileSync('clang', parameters, { cwd: repository, stdio: 'inherit' });
  for (const [i, name] of sources.entries()) {
    run(...compile.split(' '), '-o', objects[i], `native/wasm/${name}.c`);
  }
  run(...link.split(' '), '-o', output, ...objects);
  const bytes = readFileSync(output);
  const usesStack = objects.some((object) => readFileSync(object).includes('__stack_pointer'));
  if (usesStack || sectionsOf(bytes).includes(dataSection)) {
    throw new Error(
      'The kernels use a stack in memory or static data; see the beginning of training-kernels.c.',
    );
  }
  const module = Buffer.concat([bytes, sourcesSection()]);
  writeFileSync(join(repository, 'native/wasm/compiled/training-kernels.wasm'), module);
  console.log(`training-kernels.wasm: ${module.length} bytes`);
} finally {
  rmSync(folder, { recursive: true, force: true });
}

function sourcesSection() {
  const name = Buffer.from('sources');
  const content = Buffer.concat([Buffer.of(name.length), name, Buffer.from(digestOfSources())]);
  return Buffer.concat([Buffer.of(customSection, content.length), content]); // shorter than 128 bytes
}

function digestOfSources() {
  const sources = join(repository, 'native/wasm');
  const hash = createHash('sha256');
  const names = readdirSync(sources).filter((name) => /\.[ch]$/.test(name));
  for (const name of names.sort()) hash.update(readFileSync(join(sources, name)));
  return hash.digest('hex');
}

function sectionsOf(bytes) {
  const sections = [];
  for (let at = 8; at < bytes.length; ) {
    sections.push(bytes[at++]);
    let length = 0;
    for (let shift = 0, more = true; more; shift += 7) {
      more = bytes[at] >= 128;
      length |= (bytes[at++] & 127) << shift;
    }
    at += length;
  }
  return sections;
}
