// `npm run build:platforms`: compiles the addon for every platform that gets a package of its own, with zig, and writes those packages
// to release/. Checks that the addons for glibc run with the oldest one that we support.
//
//   npm run build:platforms [-- --only linux-x64-gnu …] [-- --list]

import { copyFileSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { glibcFloor, glibcNeededBy, manifestOf, packageOf, platforms } from './lib/platforms.mjs';
import { inRepository, run } from './lib/tools.mjs';
import { ensureZig, zigCompiler } from './lib/zig.mjs';

export const releaseFolder = inRepository('release');

/** Builds the package of one platform and resolves to its folder. */
export async function buildPlatform(platform, zig, { output = 'inherit' } = {}) {
  const main = JSON.parse(readFileSync(inRepository('package.json'), 'utf8'));
  const build = join(releaseFolder, 'build', platform.name);
  const env = {
    ...process.env,
    CXX: zigCompiler(zig, platform.target),
    HOROVOD_WITH_MPI: '0',
    HOROVOD_WITH_GLOO: '0',
  };
  const code = await run(process.execPath, [inRepository('scripts/build-native.mjs'), '--out', build], {
    env,
    output,
  });
  if (code !== 0) throw new Error(`the addon for ${platform.name} did not build`);
  const addon = join(build, 'horovod.node');
  checkGlibc(platform, addon);
  const folder = join(releaseFolder, packageOf(platform));
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  copyFileSync(addon, join(folder, 'horovod.node'));
  copyFileSync(inRepository('LICENSE'), join(folder, 'LICENSE'));
  writeFileSync(join(folder, 'package.json'), `${JSON.stringify(manifestOf(platform, main), null, 2)}\n`);
  writeFileSync(join(folder, 'README.md'), readmeOf(platform));
  return folder;
}

function checkGlibc(platform, file) {
  const needed = glibcNeededBy(readFileSync(file));
  if (platform.libc === 'musl') {
    if (needed !== undefined) throw new Error(`${file} is for musl, but needs glibc ${needed.join('.')}`);
    return;
  }
  const [major, minor] = glibcFloor.split('.').map(Number);
  if (needed === undefined || needed[0] > major || (needed[0] === major && needed[1] > minor)) {
    throw new Error(`${file} needs glibc ${needed?.join('.') ?? '(none)'}, not at most ${glibcFloor}`);
  }
}

function readmeOf(platform) {
  return `# ${packageOf(platform)}

The native addon of [horovod](https://www.npmjs.com/package/horovod) for ${platform.name}. npm installs it together with horovod where it
fits; you do not have to install it yourself.
`;
}

async function main() {
  const { values } = parseArgs({
    options: {
      only: { type: 'string', multiple: true },
      list: { type: 'boolean' },
      help: { type: 'boolean' },
    },
  });
  const known = platforms.map(({ name }) => name);
  if (values.help) {
    console.log(
      'npm run build:platforms [-- --only NAME …] [-- --list]\n\nBuilds the packages with the addon of each platform into release/, with zig.',
    );
    return 0;
  }
  if (values.list) {
    for (const name of known) console.log(name);
    return 0;
  }
  const unknown = (values.only ?? []).find((name) => !known.includes(name));
  if (unknown !== undefined) {
    console.error(`There is no platform ${unknown}. The platforms are ${known.join(', ')}.`);
    return 2;
  }
  const { zig, reason } = await ensureZig();
  if (reason !== undefined) {
    console.error(
      `zig is missing: ${reason}. Install it with \`pip install ziglang\`, or set HVD_ZIG to its path.`,
    );
    return 1;
  }
  for (const platform of platforms) {
    if (values.only !== undefined && !values.only.includes(platform.name)) continue;
    const began = performance.now();
    const folder = await buildPlatform(platform, zig);
    const { size } = statSync(join(folder, 'horovod.node'));
    const seconds = ((performance.now() - began) / 1000).toFixed(1);
    console.log(`release/${packageOf(platform)}: ${size.toLocaleString('en')} bytes, ${seconds} s`);
  }
  return 0;
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) process.exitCode = await main();
