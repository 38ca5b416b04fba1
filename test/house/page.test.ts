// Pages run in a browser. The modules of the dashboard are served from one folder, and nothing from elsewhere comes with them; those of a
// timeline become one script in a file.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { repository } from '../support/repository.ts';
import { importsOf, paths, readSources } from '../support/sources.ts';

const folder = 'src/observe/dashboard/page';
const modules = readSources(folder, /(?<!\.test)\.ts$/);
const timelineFolder = 'src/observe/timeline/report/page';
const timelineModules = readSources(timelineFolder, /(?<!\.test)\.ts$/);
const unsafe =
  /innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|srcdoc|DOMParser/;
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
    assert.deepEqual(paths(modules.filter(({ code }) => unsafe.test(code))), []);
  });

  test('has no script or style in its HTML, and asks nobody else for anything', () => {
    const html = readFileSync(join(repository, folder, 'index.html'), 'utf8');
    assert.doesNotMatch(html, /<style|\sstyle=|\son\w+=|<script(?![^>]*\ssrc=)/);
    assert.doesNotMatch(html, /(?:src|href)="(?:https?:)?\/\//);
  });
});

describe('the page of a timeline', () => {
  test('is not imported by the code of Node', () => {
    const importers = readSources('src', /(?<!\.test)\.ts$/).filter(
      (source) =>
        !source.path.startsWith(timelineFolder) &&
        importsOf(source).some((target) => target.startsWith(`${timelineFolder}/`)),
    );
    assert.deepEqual(paths(importers), []);
  });

  test('turns no text into markup, runs no text, and asks nobody for anything', () => {
    assert.ok(timelineModules.length > 8);
    const asking = /\bfetch\(|XMLHttpRequest|WebSocket|EventSource|sendBeacon|https?:\/\//;
    assert.deepEqual(paths(timelineModules.filter(({ code }) => unsafe.test(code) || asking.test(code))), []);
  });
});
