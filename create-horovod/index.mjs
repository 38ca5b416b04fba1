#!/usr/bin/env node
// `npm create horovod [FOLDER]`: a new project with a training script, and its dependencies installed.

import { spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { basename, join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const help = `Usage: npm create horovod [FOLDER] [-- options]

Creates a project in FOLDER (default horovod-training): a small model that trains with TensorFlow.js on several ranks.

Options:
  --no-install  Do not run npm install
  -h, --help    Print this help
`;

const template = fileURLToPath(new URL('template/', import.meta.url));
const own = JSON.parse(readFileSync(new URL('package.json', import.meta.url), 'utf8'));

process.exitCode = main(process.argv.slice(2));

function main(args) {
  let parsed;
  try {
    parsed = parseArgs({
      args,
      allowPositionals: true,
      options: { 'no-install': { type: 'boolean' }, help: { type: 'boolean', short: 'h' } },
    });
  } catch (error) {
    console.error(`create-horovod: ${error.message.split('. ')[0]}.\n\n${help}`);
    return 2;
  }
  const { values, positionals } = parsed;
  if (values.help) {
    console.log(help);
    return 0;
  }
  if (positionals.length > 1) {
    console.error(`create-horovod: expected one folder, not ${positionals.join(' ')}.\n\n${help}`);
    return 2;
  }
  const folder = resolve(positionals[0] ?? 'horovod-training');
  if (existsSync(folder) && readdirSync(folder).length > 0) {
    console.error(`create-horovod: ${folder} is not empty. Choose another folder.`);
    return 1;
  }
  write(folder);
  const place = relative(process.cwd(), folder) || '.';
  console.log(`Created ${place}.`);
  if (!values['no-install'] && install(folder) !== 0) {
    console.error(`create-horovod: npm install failed; its messages are above. The files are in ${place}.`);
    return 1;
  }
  console.log(`
Train on two ranks:

${place === '.' ? '' : `  cd ${/\s/.test(place) ? JSON.stringify(place) : place}\n`}${values['no-install'] ? '  npm install\n' : ''}  npm run train

If something does not work: npm run doctor
`);
  return 0;
}

function write(folder) {
  mkdirSync(folder, { recursive: true });
  cpSync(template, folder, { recursive: true });
  // npm never packs a .gitignore.
  renameSync(join(folder, 'gitignore'), join(folder, '.gitignore'));
  const file = join(folder, 'package.json');
  const manifest = JSON.parse(readFileSync(file, 'utf8'));
  manifest.name = nameOf(folder);
  manifest.dependencies.horovod = `^${own.version}`;
  writeFileSync(file, `${JSON.stringify(manifest, null, 2)}\n`);
}

/** A name that npm accepts. */
function nameOf(folder) {
  const name = basename(folder)
    .toLowerCase()
    .replaceAll(/[^a-z0-9._-]+/g, '-')
    .replace(/^[-._]+|-+$/g, '');
  return name === '' ? 'horovod-training' : name;
}

function install(folder) {
  console.log('Installing dependencies…');
  const command = process.platform === 'win32' ? 'npm.cmd' : 'npm';
  const { status } = spawnSync(command, ['install', '--no-audit', '--no-fund'], {
    cwd: folder,
    stdio: ['ignore', 'inherit', 'inherit'],
    shell: process.platform === 'win32',
  });
  return status ?? 1;
}
