// ARCHITECTURE.md against the sources: the places it names exist, the picture shows the layers in their order, and no
// word is explained twice.

import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { repository } from '../support/repository.ts';

const page = readFileSync(join(repository, 'ARCHITECTURE.md'), 'utf8');
const exists = (path: string) => existsSync(join(repository, path));

describe('ARCHITECTURE.md', () => {
  test('folders of the code map exist, and so do the files to start reading at', () => {
    const missing = rowsOf('Code map').flatMap(([folder = '', , start = '']) => {
      const path = folder.replaceAll('`', '');
      const file = start.replaceAll('`', '');
      return [path, ...(file === '' ? [] : [`${path}/${file}`])].filter((each) => !exists(each));
    });
    assert.deepEqual(missing, []);
  });

  test('the code map has every layer', () => {
    const mapped = rowsOf('Code map').map(([folder = '']) => folder.replaceAll('`', ''));
    const folders = readdirSync(join(repository, 'src'), { withFileTypes: true }).filter((entry) =>
      entry.isDirectory(),
    );
    const unmapped = folders
      .map(({ name }) => `src/${name}`)
      .filter((path) => !mapped.some((each) => each === path || each.startsWith(`${path}/`)));
    assert.deepEqual(unmapped, []);
  });

  test('every invariant names a test that exists', () => {
    for (const [invariant, checks = ''] of rowsOf('Invariants')) {
      const paths = [...checks.matchAll(/`([^`]+\.(?:ts|mjs))`/g)].map((match) => match[1] as string);
      assert.ok(paths.length > 0, invariant);
      assert.deepEqual(
        paths.filter((path) => !exists(path)),
        [],
        invariant,
      );
    }
  });

  test('paths in the text exist', () => {
    const paths = [
      ...page.matchAll(
        /`((?:adapters|cli|context|control|engine|launch|net|observe|operations|rendezvous|transport)\/[\w/.-]*)`/g,
      ),
    ];
    assert.deepEqual(
      paths.map((match) => `src/${match[1]}`).filter((path) => !exists(path)),
      [],
    );
  });

  test('the picture of the layers has them in the order that is tested', () => {
    const order = readFileSync(join(repository, 'test/house/layers.test.ts'), 'utf8');
    const list = /const layers = \[([^\]]*)\]/.exec(order)?.[1] ?? '';
    const tested = [...list.matchAll(/'(\w+)'/g)].map((match) => match[1]);
    const picture = readFileSync(join(repository, 'docs/images/layers.svg'), 'utf8');
    const drawn = [...picture.matchAll(/>(\w+)\/<\/text>/g)].map((match) => match[1]);
    assert.deepEqual(drawn, tested);
  });

  test('the glossary explains each word once', () => {
    const words = rowsOf('Glossary').flatMap(([word = '']) => word.split(', '));
    assert.ok(words.length > 10);
    assert.deepEqual(words, [...new Set(words)]);
  });
});

/** The cells of the table below a heading, without its head. */
function rowsOf(heading: string): string[][] {
  const section = page.split(/^## /m).find((text) => text.startsWith(`${heading}\n`)) ?? '';
  return section
    .split('\n')
    .filter((line) => line.startsWith('| '))
    .slice(2)
    .map((line) => line.slice(2, -2).split(' | '));
}
