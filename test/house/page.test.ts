// The page of the dashboard runs in a browser: its modules are served from one folder, and nothing from elsewhere comes with them.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { repository } from '../support/repository.ts';
import { importsOf, paths, readSources } from '../support/sources.ts';

const folder = 'src/observe/dashboard/page';
const modules = readSources(folder, /(?<!\.test)\.ts$/);
const isType = /import type [^;]*;/g;

describe('the page of the dashboard', () => {
  test('imports values only from its own folder', () => {
    assert.ok(modules.length > 10);
    const found = modules.flatMap(({ path, code }) =>
      importsOf({ path, code: code.replaceAll(isType, '') }).filter(
        (target) => !target.startsWith(`${folder}/`),
      ),
    );
    assert.deepEqual(found, []);
  });

  test('is not imported by the code of Node', () => {
    const importers = readSources('src', /(?<!\.test)\.ts$/).filter(
      (source) =>
        !source.path.startsWith(folder) &&
        importsOf(source).some((target) => target.startsWith(`${folder}/`)),
    );
    assert.deepEqual(paths(importers), []);
  });

  test('turns no text into markup and runs no text', () => {
    const unsafe =
      /innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|srcdoc|DOMParser/;
    assert.deepEqual(paths(modules.filter(({ code }) => unsafe.test(code))), []);
  });

  test('has no script or style in its HTML, and asks nobody else for anything', () => {
    const html = readFileSync(join(repository, folder, 'index.html'), 'utf8');
    assert.doesNotMatch(html, /<style|\sstyle=|\son\w+=|<script(?![^>]*\ssrc=)/);
    assert.doesNotMatch(html, /(?:src|href)="(?:https?:)?\/\//);
  });
});
