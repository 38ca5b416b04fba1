// `npm run release`: everything that is published, in release/: the packages with the addon of each platform, and the main package, which
// contains no addon but names those packages as optional dependencies, and `create-horovod`. Each is packed, checked and listed in a bill of materials.
// Without --publish nothing leaves this machine.
//
//   npm run release -- --dry-run [--only PLATFORM …]
//   npm run release -- --publish [--tag NAME]

import { createHash } from 'node:crypto';
import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { buildPlatform, releaseFolder } from './build-platforms.mjs';
import { packageOf, platforms } from './lib/platforms.mjs';
import { capture, inRepository, runTool } from './lib/tools.mjs';
import { ensureZig } from './lib/zig.mjs';

const help = `npm run release -- --dry-run | --publish [options]

Builds and checks all packages in release/.

  --dry-run           build, check and pack; publish nothing
  --publish           the same, then publish with provenance, the packages for platforms first
  --tag NAME          npm's tag for --publish (latest)
  --only PLATFORM     only with --dry-run: leave the other platforms out; may be repeated
  --help              this text`;

/** The tarballs of a release, in the order in which they have to be published. Resolves to { tarballs, folder }. */
export async function packRelease({ only, log = console.log }) {
  const main = readManifest();
  const tarballs = [];
  const { zig, reason } = await ensureZig();
  if (reason !== undefined) throw new Error(`zig is missing: ${reason}`);
  for (const platform of platforms) {
    if (only !== undefined && !only.includes(platform.name)) continue;
    const folder = await buildPlatform(platform, zig, { output: 'stderr' });
    tarballs.push(await pack(folder));
    log(describe(tarballs.at(-1)));
  }
  for (const packing of [packMain, packCreate]) {
    tarballs.push(await packing(main));
    log(describe(tarballs.at(-1)));
  }
  return { tarballs, folder: releaseFolder };
}

/** Packs the checkout, and packs what it contains again without its addons and with the optional dependencies. */
export async function packMain(main, folder = releaseFolder) {
  const staging = join(folder, 'horovod');
  rmSync(staging, { recursive: true, force: true });
  mkdirSync(staging, { recursive: true });
  const whole = await pack(inRepository(), { destination: staging });
  await succeed('tar', ['-xzf', whole, '--strip-components=1', '-C', staging]);
  rmSync(whole);
  rmSync(join(staging, 'native/build'), { recursive: true, force: true });
  const manifest = JSON.parse(readFileSync(join(staging, 'package.json'), 'utf8'));
  manifest.optionalDependencies = Object.fromEntries(
    platforms.map((platform) => [packageOf(platform), main.version]),
  );
  manifest.files = manifest.files.filter((pattern) => !pattern.startsWith('native/build'));
  // Nobody who installs the package can run them.
  delete manifest.scripts;
  delete manifest.devDependencies;
  writeFileSync(join(staging, 'package.json'), `${JSON.stringify(manifest, null, 2)}\n`);
  if ((await runTool('publint', 'publint', [staging, '--strict'], { output: 'stderr' })) !== 0) {
    throw new Error('publint found problems; they are above');
  }
  return pack(staging, { destination: folder });
}

/** `npm create horovod`, with the version of the main package. */
export async function packCreate(main, folder = releaseFolder) {
  const staging = join(folder, 'create-horovod');
  rmSync(staging, { recursive: true, force: true });
  cpSync(inRepository('create-horovod'), staging, { recursive: true });
  cpSync(inRepository('LICENSE'), join(staging, 'LICENSE'));
  const file = join(staging, 'package.json');
  const manifest = { ...JSON.parse(readFileSync(file, 'utf8')), version: main.version };
  if (main.repository !== undefined) manifest.repository = main.repository;
  writeFileSync(file, `${JSON.stringify(manifest, null, 2)}\n`);
  return pack(staging, { destination: folder });
}

/** Resolves to the path of the tarball. */
export async function pack(folder, { destination = releaseFolder } = {}) {
  const { text } = await succeed(
    'npm',
    ['pack', '--json', '--loglevel=error', '--pack-destination', destination],
    {
      cwd: folder,
    },
  );
  const [{ filename }] = JSON.parse(text.slice(text.indexOf('[\n')));
  return join(destination, filename);
}

/** What the main package brings along, as CycloneDX. */
async function writeBillOfMaterials() {
  const { text } = await succeed('npm', [
    'sbom',
    '--sbom-format=cyclonedx',
    '--omit=dev',
    '--omit=peer',
    '--loglevel=error',
  ]);
  const file = join(releaseFolder, 'sbom.cdx.json');
  writeFileSync(`${file}.new`, text.slice(text.indexOf('{')));
  renameSync(`${file}.new`, file);
  return file;
}

function describe(tarball) {
  const bytes = readFileSync(tarball);
  const digest = createHash('sha256').update(bytes).digest('hex');
  return `${tarball.slice(releaseFolder.length + 1).padEnd(44)} ${bytes.length.toLocaleString('en').padStart(10)} bytes  sha256 ${digest.slice(0, 16)}…`;
}

/** What must be true before anything is published. */
async function problems(main) {
  const found = [];
  const { text } = await capture('git', ['status', '--porcelain']);
  if (text.trim() !== '') found.push('there are changes that are not committed');
  if (main.repository === undefined) found.push('package.json has no "repository", which provenance needs');
  if (!readFileSync(inRepository('CHANGELOG.md'), 'utf8').includes(`## ${main.version}`)) {
    found.push(`CHANGELOG.md has no section "## ${main.version}"`);
  }
  return found;
}

async function succeed(command, args, options) {
  const { code, text } = await capture(command, args, options);
  if (code !== 0) throw new Error(`${command} ${args.join(' ')} failed:\n${text}`);
  return { text };
}

const readManifest = () => JSON.parse(readFileSync(inRepository('package.json'), 'utf8'));

async function main() {
  const { values } = parseArgs({
    options: {
      'dry-run': { type: 'boolean' },
      publish: { type: 'boolean' },
      tag: { type: 'string', default: 'latest' },
      only: { type: 'string', multiple: true },
      help: { type: 'boolean' },
    },
  });
  if (values.help || values['dry-run'] === values.publish) {
    console.log(help);
    return values.help ? 0 : 2;
  }
  if (values.publish && values.only !== undefined) {
    console.error('--only cannot be combined with --publish: a release has all platforms.');
    return 2;
  }
  const found = await problems(readManifest());
  for (const problem of found) console.error(`${values.publish ? 'error' : 'before --publish'}: ${problem}`);
  if (values.publish && found.length > 0) return 1;
  if (existsSync(releaseFolder)) {
    for (const name of readdirSync(releaseFolder))
      if (name.endsWith('.tgz')) rmSync(join(releaseFolder, name));
  }
  const { tarballs } = await packRelease({ only: values.only });
  console.log(
    `${(await writeBillOfMaterials()).slice(releaseFolder.length + 1)} lists what the package brings along.`,
  );
  if (!values.publish) {
    console.log(`Dry run: ${tarballs.length} packages are in release/. Nothing was published.`);
    return 0;
  }
  for (const tarball of tarballs) {
    const { code, text } = await capture('npm', [
      'publish',
      tarball,
      '--provenance',
      '--access=public',
      `--tag=${values.tag}`,
    ]);
    process.stdout.write(text);
    if (code !== 0) {
      console.error(
        `${tarball} was not published. What stands before it in the list is; publish the rest by hand.`,
      );
      return 1;
    }
  }
  return 0;
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) process.exitCode = await main();
