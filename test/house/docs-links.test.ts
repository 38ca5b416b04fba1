// Checks the pages of the documentation: links lead somewhere, the guide's table of contents is complete, and every variable
// and error code that a page names exists.

import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { describe, test } from 'node:test';
import { repository } from '../support/repository.ts';

const root = repository;
const pages = [
  ...['README.md', 'ARCHITECTURE.md', 'CHANGELOG.md', 'CONTRIBUTING.md', 'bench/README.md'],
  ...['docs', 'examples'].flatMap((folder) => filesBelow(folder, '.md')),
];

describe('documentation', () => {
  for (const page of pages) {
    test(`links of ${page} lead somewhere`, () => {
      assert.deepEqual(
        linksOf(read(page)).flatMap((link) => brokenLink(page, link) ?? []),
        [],
      );
    });
  }

  test('links are found in text and not in code, and anchors are made as on GitHub', () => {
    const text = '# A `b()`, c\n[x](y.md#z) and `[no](link)`\n```\n# no\n[no](link)\n```\n## a b, c\n';
    assert.deepEqual(linksOf(text), ['y.md#z']);
    assert.deepEqual([...anchorsOf(text)], ['a-b-c', 'a-b-c-1']);
  });

  test('a link to a file or a heading that does not exist is found', () => {
    assert.equal(brokenLink('README.md', 'docs/guide/index.md'), undefined);
    assert.match(brokenLink('README.md', 'docs/guide/nothing.md') ?? '', /no such file/);
    assert.match(brokenLink('README.md', 'docs/guide/index.md#nothing') ?? '', /no such heading/);
  });

  test('the contents of the guide name every page of it', () => {
    const contents = new Set(linksOf(read('docs/guide/index.md')));
    const guide = readdirSync(join(root, 'docs/guide')).filter((name) => name !== 'index.md');
    assert.deepEqual(
      guide.filter((name) => !contents.has(name)),
      [],
    );
  });

  test('variables and error codes that pages name exist', () => {
    const code = [
      ...filesBelow('src', '.ts'),
      ...filesBelow('scripts', '.mjs'),
      ...filesBelow('bench', '.mjs'),
    ]
      .filter((file) => !file.endsWith('.test.ts'))
      .map(read)
      .join('\n');
    const known = namesIn(code);
    // The changelog also names what was renamed or removed.
    const current = pages.filter((page) => page !== 'CHANGELOG.md');
    const unknown = current.flatMap((page) =>
      [...namesIn(read(page))].filter((name) => !known.has(name)).map((name) => `${page}: ${name}`),
    );
    assert.deepEqual(unknown, []);
  });
});

function read(page: string): string {
  return readFileSync(join(root, page), 'utf8');
}

function filesBelow(folder: string, ending: string): string[] {
  return readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith(ending))
    .map((name) => join(folder, name));
}

/** Ends of names with a star (`HOROVOD_*`) are left out. */
function namesIn(text: string): Set<string> {
  return new Set(text.match(/\b(HOROVOD|ERR_HVD)(_[A-Z0-9]+)+\b(?![_*])/g) ?? []);
}

function withoutCode(text: string): string {
  return text.replaceAll(/^ *```[\s\S]*?^ *```/gm, '').replaceAll(/<!--[\s\S]*?-->/g, '');
}

function linksOf(text: string): string[] {
  const prose = withoutCode(text).replaceAll(/`[^`\n]*`/g, 'code');
  return [...prose.matchAll(/\]\(([^()\s]+)\)/g)].map((match) => match[1] as string);
}

/** What is wrong with it. */
function brokenLink(page: string, link: string): string | undefined {
  if (/^[a-z]+:/.test(link)) return undefined;
  const [path = '', anchor] = link.split('#', 2);
  const target = path === '' ? join(root, page) : resolve(root, dirname(page), path);
  if (!existsSync(target)) return `${link}: no such file`;
  if (anchor === undefined) return undefined;
  const headings = anchorsOf(read(relative(root, target)));
  return headings.has(anchor) ? undefined : `${link}: no such heading`;
}

function anchorsOf(text: string): Set<string> {
  const anchors = new Set<string>();
  for (const [, heading = ''] of withoutCode(text).matchAll(/^#{1,6} +(.+?) *$/gm)) {
    const words = heading.replaceAll(/\]\([^)]*\)/g, '').toLowerCase();
    const anchor = words.replaceAll(/[^\p{L}\p{N} _-]/gu, '').replaceAll(' ', '-');
    let unique = anchor;
    for (let count = 1; anchors.has(unique); count++) unique = `${anchor}-${count}`;
    anchors.add(unique);
  }
  return anchors;
}
