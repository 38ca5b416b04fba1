import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import {
  buildCommand,
  buildFolders,
  findMainAddon,
  lackOfAddon,
  type Places,
  projectFolder,
} from './places.ts';

/** A project that has installed this package, and a user's home. */
function withProject(check: (given: Places, folder: string) => void): void {
  const folder = mkdtempSync(path.join(tmpdir(), 'hvd-places-'));
  const root = path.join(folder, 'project/node_modules/horovod');
  try {
    write(path.join(root, 'package.json'), '{ "name": "horovod", "version": "1.2.3" }');
    const home = path.join(folder, 'home');
    check({ root, home, version: '1.2.3', platform: 'linux', arch: 'x64', libc: 'gnu' }, folder);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

function write(file: string, text = ''): string {
  mkdirSync(path.dirname(file), { recursive: true });
  writeFileSync(file, text);
  return file;
}

test('the addon comes from horovod build, else from the package, else from the package of the platform', () => {
  withProject((given, folder) => {
    const platform = path.join(folder, 'project/node_modules/horovod-linux-x64-gnu');
    write(path.join(platform, 'package.json'), '{ "name": "horovod-linux-x64-gnu", "main": "horovod.node" }');
    const places = [
      path.join(platform, 'horovod.node'),
      path.join(given.root, 'native/build/horovod.node'),
      path.join(folder, 'home/.cache/horovod/1.2.3-linux-x64-gnu/horovod.node'),
      path.join(folder, 'project/.horovod/1.2.3-linux-x64-gnu/horovod.node'),
    ];
    for (const place of places) {
      write(place);
      assert.equal(findMainAddon(given), place);
    }
    // What another version was built from does not fit.
    assert.equal(findMainAddon({ ...given, version: '1.2.4' }), places[1]);
  });
});

test('each C library has a package and builds of its own', () => {
  withProject((given, folder) => {
    const musl = { ...given, libc: 'musl' } as const;
    const file = write(path.join(folder, 'project/node_modules/horovod-linux-x64-musl/horovod.node'));
    write(path.join(folder, 'project/node_modules/horovod-linux-x64-musl/package.json'), '{}');
    assert.equal(findMainAddon(musl), file);
    assert.equal(findMainAddon(given), undefined);
    assert.ok(buildFolders(musl).every((place) => place.endsWith('1.2.3-linux-x64-musl')));
  });
});

test('with pnpm the project is the folder above the outer node_modules', () => {
  const root = '/home/me/train/node_modules/.pnpm/horovod@1.2.3/node_modules/horovod';
  assert.equal(projectFolder({ root }), '/home/me/train');
  assert.equal(projectFolder({ root: '/home/me/horovod' }), undefined);
  assert.equal(projectFolder({ root: '/node_modules/horovod' }), '/');
});

test('without an addon the advice fits the place: a clone, a project, another system', () => {
  withProject((given) => {
    assert.match(
      lackOfAddon(given),
      /horovod-linux-x64-gnu is not installed; .*--omit=optional, or npx horovod build$/,
    );
    assert.match(lackOfAddon({ ...given, platform: 'darwin' }), /^there is none for darwin x64$/);
    assert.equal(buildCommand('mpi', given), 'npx horovod build --mpi');
    const clone = { ...given, root: '/home/me/horovod' };
    assert.match(lackOfAddon(clone), /run npm run build, with a C\+\+ compiler$/);
    assert.equal(buildCommand('gloo', clone), 'HOROVOD_WITH_GLOO=1 npm run build');
  });
});
