// Users who install a release from a registry: the main package without an addon, and a package with the addon for each platform. The
// addon in them is the one of this checkout, so that no other compiler is needed; `npm run build:platforms` makes the real ones.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { glibcNeededBy, manifestOf, packageOf, platforms } from '../../scripts/lib/platforms.mjs';
import { pack, packCreate, packMain } from '../../scripts/release.mjs';
import { startRegistry } from './registry.mjs';

const checkout = fileURLToPath(new URL('../..', import.meta.url)).replace(/\/$/, '');
const addon = join(checkout, 'native/build/horovod.node');
const main = JSON.parse(readFileSync(join(checkout, 'package.json'), 'utf8'));
const folder = mkdtempSync(join(tmpdir(), 'hvd-release-'));
const skip =
  process.platform !== 'linux'
    ? 'there are packages for Linux only'
    : existsSync(addon)
      ? false
      : 'this checkout has no addon: there was no C++ compiler';

const script = `
import { allreduceSync, init, nativeBuilt, rank, shutdown, Sum, transportName } from 'horovod';
await init();
const [sum] = allreduceSync(new Float32Array([rank() + 1]), { op: Sum });
if (rank() === 0) console.log(JSON.stringify({ sum, native: nativeBuilt(), transport: transportName() }));
await shutdown();
`;

let registry;
let creator = '';

before(async () => {
  if (skip) return;
  const packages = [];
  for (const platform of platforms) {
    const place = join(folder, packageOf(platform));
    const manifest = manifestOf(platform, main);
    mkdirSync(place);
    writeFileSync(join(place, 'package.json'), JSON.stringify(manifest));
    copyFileSync(addon, join(place, 'horovod.node'));
    packages.push({ manifest, tarball: await pack(place, { destination: folder }) });
  }
  const tarball = await packMain(main, folder);
  const manifest = JSON.parse(readFileSync(join(folder, 'horovod/package.json'), 'utf8'));
  creator = await packCreate(main, folder);
  registry = await startRegistry([...packages, { manifest, tarball }]);
});

after(async () => {
  await registry?.close();
  rmSync(folder, { recursive: true, force: true });
});

/** Resolves to { code, stdout, stderr }. */
function runIn(cwd, command, args, env = {}) {
  const options = {
    cwd,
    // What a careful user has, and npm 12's default.
    env: { ...process.env, npm_config_ignore_scripts: 'true', npm_config_registry: registry.url, ...env },
    timeout: 180_000,
    maxBuffer: 1 << 26,
  };
  return new Promise((resolve) => {
    execFile(command, args, options, (error, stdout, stderr) =>
      resolve({ code: error === null ? 0 : (error.code ?? 1), stdout, stderr }),
    );
  });
}

async function succeed(cwd, command, args, env) {
  const result = await runIn(cwd, command, args, env);
  assert.equal(result.code, 0, `${command} ${args.join(' ')}\n${result.stdout}${result.stderr}`);
  return result;
}

function newProject(name) {
  const project = join(folder, name);
  mkdirSync(project);
  const dependencies = { horovod: main.version };
  writeFileSync(
    join(project, 'package.json'),
    JSON.stringify({ name, private: true, type: 'module', dependencies }),
  );
  writeFileSync(join(project, 'train.js'), script);
  return project;
}

/** What two ranks of train.js print. */
async function train(project) {
  const horovodrun = join(project, 'node_modules/.bin/horovodrun');
  const { stdout, stderr } = await succeed(project, horovodrun, [
    '-np',
    '2',
    '--no-prefix-output',
    'train.js',
  ]);
  return { ...JSON.parse(stdout), warnings: stderr };
}

const fresh = ['--no-audit', '--no-fund', '--cache', join(folder, 'npm-cache')];

describe('a release', { skip }, () => {
  test('contains no addon itself, and names the packages that have one', () => {
    assert.ok(!existsSync(join(folder, 'horovod/native/build')));
    const manifest = JSON.parse(readFileSync(join(folder, 'horovod/package.json'), 'utf8'));
    assert.deepEqual(Object.keys(manifest.optionalDependencies).sort(), platforms.map(packageOf).sort());
    for (const version of Object.values(manifest.optionalDependencies)) assert.equal(version, main.version);
    assert.equal(manifest.scripts, undefined);
  });

  test('installed with npm has the addon of this platform, and no other', async () => {
    const project = newProject('with-npm');
    await succeed(project, 'npm', ['install', ...fresh]);
    const there = platforms.map(packageOf).filter((name) => existsSync(join(project, 'node_modules', name)));
    assert.equal(there.length, 1);
    const { sum, native, transport, warnings } = await train(project);
    assert.deepEqual({ sum, native, transport }, { sum: 3, native: true, transport: 'shm' });
    assert.doesNotMatch(warnings, /portable/);
  });

  test('installed without optional dependencies works, and says what is missing', async () => {
    const project = newProject('without-optional');
    await succeed(project, 'npm', ['install', '--omit=optional', ...fresh]);
    const { sum, native, transport, warnings } = await train(project);
    assert.deepEqual({ sum, native, transport }, { sum: 3, native: false, transport: 'portable' });
    assert.match(
      warnings,
      /horovod-linux-\w+-\w+ is not installed; run npm install without --omit=optional, or npx horovod build/,
    );
  });

  for (const [name, tool] of [
    ['pnpm', 'pnpm@10'],
    ['yarn', 'yarn@1.22'],
  ]) {
    test(`installed with ${name} has the addon, too`, async () => {
      const tools = join(folder, `${name}-itself`);
      await succeed(folder, 'npm', ['install', '--prefix', tools, ...fresh, tool]);
      const project = newProject(`with-${name}`);
      const places = { HOME: folder, XDG_DATA_HOME: folder, XDG_CACHE_HOME: folder, XDG_STATE_HOME: folder };
      const args = name === 'yarn' ? ['install', '--registry', registry.url] : ['install'];
      await succeed(project, join(tools, 'node_modules/.bin', name), args, places);
      const { sum, native, transport } = await train(project);
      assert.deepEqual({ sum, native, transport }, { sum: 3, native: true, transport: 'shm' });
    });
  }

  test('npm create horovod makes a project that trains on two ranks', async () => {
    const tools = join(folder, 'creator');
    await succeed(folder, 'npm', ['install', '--prefix', tools, ...fresh, creator]);
    const command = join(tools, 'node_modules/.bin/create-horovod');
    const { stdout } = await succeed(folder, command, ['My Model']);
    assert.match(stdout, /cd "My Model"\n {2}npm run train\n/);
    const project = join(folder, 'My Model');
    const { name, dependencies } = JSON.parse(readFileSync(join(project, 'package.json'), 'utf8'));
    assert.equal(name, 'my-model');
    assert.equal(dependencies.horovod, `^${main.version}`);
    const trained = await succeed(project, 'npm', ['run', 'train']);
    const [, accuracy] = /Epoch 3\/3 .* acc (0\.\d+)/.exec(trained.stdout) ?? [];
    assert.ok(Number(accuracy) > 0.9, trained.stdout);
    assert.ok(existsSync(join(project, 'circle/model.json')));
    // What is there is never overwritten.
    const again = await runIn(folder, command, ['My Model']);
    assert.equal(again.code, 1);
    assert.match(again.stderr, /is not empty/);
    assert.equal((await runIn(folder, command, ['--frob'])).code, 2);
  });

  test('has addons whose need of glibc can be read', () => {
    const [major, minor] = glibcNeededBy(readFileSync(addon));
    assert.equal(major, 2);
    assert.ok(minor >= 14, `2.${minor}`);
    assert.equal(glibcNeededBy(Buffer.from('no versions')), undefined);
    assert.deepEqual(glibcNeededBy(Buffer.from('GLIBC_2.9\0GLIBC_2.28\0GLIBC_2.4\0')), [2, 28]);
  });
});
