import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, describe, test } from 'node:test';
import { filesForTests } from '../../test/support/files.ts';
import { expandBraces, expandPatterns, glob, isPattern, segmentExpression } from './glob.ts';

const folder = mkdtempSync(join(tmpdir(), 'hvd-glob-'));
after(() => rmSync(folder, { recursive: true }));
const files = filesForTests();
const names = [
  'a1.csv',
  'a2.csv',
  'b1.csv',
  'B.csv',
  'x/a3.csv',
  'x/y/a4.csv',
  'x/y/n.txt',
  '.h/a5.csv',
  '.a6.csv',
  'w[1].csv',
  'a*b',
];
for (const name of names) {
  mkdirSync(dirname(join(folder, name)), { recursive: true });
  writeFileSync(join(folder, name), '');
}
symlinkSync(folder, join(folder, 'x/back'));
const found = async (pattern: string) =>
  (await glob(files, join(folder, pattern))).map((path) => path.slice(folder.length + 1));

describe('patterns', () => {
  const table: readonly (readonly [string, readonly string[]])[] = [
    ['*.csv', ['B.csv', 'a1.csv', 'a2.csv', 'b1.csv', 'w[1].csv']],
    ['a?.csv', ['a1.csv', 'a2.csv']],
    ['[ab]1.csv', ['a1.csv', 'b1.csv']],
    ['[!a-b]*.csv', ['B.csv', 'w[1].csv']],
    ['{b1,a2,zz}.csv', ['a2.csv', 'b1.csv']],
    ['{x,x/y}/a*.csv', ['x/a3.csv', 'x/y/a4.csv']],
    ['**/*.csv', ['B.csv', 'a1.csv', 'a2.csv', 'b1.csv', 'w[1].csv', 'x/a3.csv', 'x/y/a4.csv']],
    ['x/**', ['x/a3.csv', 'x/y/a4.csv', 'x/y/n.txt']],
    ['x/**/a4.csv', ['x/y/a4.csv']],
    ['.*.csv', ['.a6.csv']],
    ['.h/*', ['.h/a5.csv']],
    ['w[1].csv', ['w[1].csv']],
    ['a\\*b', ['a*b']],
    ['a1.csv', ['a1.csv']],
    ['nothing*', []],
    ['a1.csv/*', []],
    ['no/such/*', []],
  ];
  for (const [pattern, expected] of table) {
    test(`${pattern} matches ${expected.length}`, async () =>
      assert.deepEqual(await found(pattern), expected));
  }

  test('braces can be nested, and are characters where they have no partner', () => {
    assert.deepEqual(expandBraces('a{b,c{d,e}}f'), ['abf', 'acdf', 'acef']);
    assert.deepEqual(expandBraces('{a}{b,c}'), ['\\{a\\}b', '\\{a\\}c']);
    assert.deepEqual(expandBraces('a{b'), ['a\\{b']);
    assert.ok(segmentExpression('\\{a\\}').test('{a}'));
  });

  test('every other character means itself', () => {
    assert.ok(segmentExpression('a.b+(c)|$^').test('a.b+(c)|$^'));
    assert.ok(!segmentExpression('a.b').test('axb'));
    assert.ok(segmentExpression('é[α-ω]?').test('éβ😀'));
    assert.throws(() => segmentExpression('[z-a]'), {
      code: 'ERR_HVD_FILE_SYSTEM',
      message: /\[z-a\] is not a pattern/,
    });
  });

  test('a question mark of an http URL is no pattern', () => {
    assert.ok(!isPattern('http://host/a?b=[1]'));
    assert.ok(isPattern('hdfs://host/a?'));
  });

  test('lists keep their order; a pattern that matches nothing is an error that names it', async () => {
    const list = [join(folder, 'b1.csv'), join(folder, 'a?.csv')];
    assert.deepEqual(
      (await expandPatterns(files, list)).map((path) => path.slice(folder.length + 1)),
      ['b1.csv', 'a1.csv', 'a2.csv'],
    );
    const missing = join(folder, 'zzz-*');
    await assert.rejects(expandPatterns(files, [missing]), {
      code: 'ERR_HVD_FILE_SYSTEM',
      message: `ERR_HVD_FILE_SYSTEM: No file matches ${missing}.`,
    });
  });
});
