// Folders of src/ are layers in one total order: a file imports, values and types, from its own folder and from layers
// below it, and no chain of folders inside a layer leads back to where it began. See ARCHITECTURE.md, Layers.

import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { describe, test } from 'node:test';
import { repository } from '../support/repository.ts';
import { importsOf, withoutComments } from '../support/sources.ts';

/** From the top to the bottom. Layers that do not exist yet keep their place. */
const layers = [
  'cli',
  'testing',
  'launch',
  'adapters',
  'elastic',
  'data',
  'context',
  'observe',
  'operations',
  'engine',
  'transport',
  'rendezvous',
  'net',
  'control',
  'files',
  'tensor',
  'console',
  'settings',
];
/** Files of src/ itself: the public faces stand above every layer, errors.ts and what it needs below. */
const faces = ['index.ts', 'tensorflow.ts', 'keras.ts', 'jax.ts'];

interface Import {
  readonly from: string;
  readonly to: string;
}

const files = readdirSync(join(repository, 'src'), { recursive: true, withFileTypes: true })
  .filter((entry) => entry.isFile() && entry.name.endsWith('.ts') && !entry.name.endsWith('.test.ts'))
  .map((entry) => relative(join(repository, 'src'), join(entry.parentPath, entry.name)))
  .sort();
const imports = files.flatMap((file) =>
  importsFrom(file, withoutComments(readFileSync(join(repository, 'src', file), 'utf8'))),
);

describe('layers', () => {
  test('every folder of src/ is a layer, and there are at most 18', () => {
    const folders = readdirSync(join(repository, 'src'), { withFileTypes: true })
      .filter((entry) => entry.isDirectory())
      .map(({ name }) => name);
    assert.deepEqual(
      folders.filter((name) => !layers.includes(name)),
      [],
    );
    assert.ok(layers.length <= 18);
  });

  test('no import, of a value or a type, points up', () => {
    const up = imports.filter(({ from, to }) => heightOf(to) > heightOf(from));
    assert.deepEqual(up.map(describeImport), []);
  });

  test('adapters do not import each other, but keras builds on tensorflow; what they share imports none', () => {
    const adapterOf = (path: string) => /^adapters\/(tensorflow|keras|jax)\//.exec(path)?.[1];
    const across = imports.filter(({ from, to }) => {
      if (!from.startsWith('adapters/')) return false;
      const [own, other] = [adapterOf(from), adapterOf(to)];
      return other !== undefined && own !== other && `${own} ${other}` !== 'keras tensorflow';
    });
    assert.deepEqual(across.map(describeImport), []);
  });

  test('no chain of folders closes a cycle', () => {
    assert.deepEqual(cyclesOf(folderGraph(imports)), []);
  });

  test('imports of every form are found', () => {
    const text = [
      "import a from './a.ts';",
      "import type { B } from '../b.ts';",
      "export * from './c.ts';",
      "const d: typeof import('./d.ts') = await import('./e.ts');",
      "import './f.ts';",
      "// import './no.ts';",
      "import { g,\n  type H } from './g.ts';",
    ].join('\n');
    assert.deepEqual(
      importsFrom('x/y.ts', withoutComments(text)).map(({ to }) => to),
      ['x/a.ts', 'b.ts', 'x/c.ts', 'x/d.ts', 'x/e.ts', 'x/f.ts', 'x/g.ts'],
    );
  });

  test('comments are no code, strings and regular expressions are', () => {
    const text = "a('/*'); // b\nc(/[/*]/, `// d`); /* e\n f */ g('http://h');";
    assert.equal(withoutComments(text), "a('/*');\nc(/[/*]/, `// d`);  g('http://h');");
  });

  test('a cycle is found, and named from its first folder', () => {
    const graph = new Map([
      ['a', new Set(['b'])],
      ['b', new Set(['c'])],
      ['c', new Set(['a'])],
      ['d', new Set(['a'])],
    ]);
    assert.deepEqual(cyclesOf(graph), ['a → b → c → a']);
  });
});

function describeImport({ from, to }: Import): string {
  return `src/${from} → src/${to}`;
}

/** How high a file stands: errors.ts is at 0, the faces are at the top. */
function heightOf(path: string): number {
  if (faces.includes(path)) return layers.length + 1;
  const [folder] = path.split('/') as [string];
  const place = layers.indexOf(folder);
  return place < 0 ? 0 : layers.length - place;
}

function importsFrom(file: string, code: string): Import[] {
  return importsOf({ path: file, code }).map((to) => ({ from: file, to }));
}

/**
 * Folders, and the folders their files import. A folder's interface lies at its top and its implementations below: files
 * at the top may be imported by subfolders of the same layer, and subfolders by files that assemble them; so only
 * sibling folders are compared.
 */
function folderGraph(list: readonly Import[]): Map<string, Set<string>> {
  const graph = new Map<string, Set<string>>();
  for (const { from, to } of list) {
    const [a, b] = [dirname(from), dirname(to)];
    if (a === b || a === '.' || b === '.' || isAbove(a, b) || isAbove(b, a)) continue;
    graph.set(a, (graph.get(a) ?? new Set()).add(b));
  }
  return graph;
}

function isAbove(folder: string, other: string): boolean {
  return other.startsWith(`${folder}/`);
}

/** Each cycle once, from the folder that comes first in the alphabet. */
function cyclesOf(graph: ReadonlyMap<string, ReadonlySet<string>>): string[] {
  const found = new Set<string>();
  const finished = new Set<string>();
  const visit = (folder: string, way: readonly string[]): void => {
    const place = way.indexOf(folder);
    if (place >= 0) {
      const cycle = way.slice(place);
      const first = cycle.indexOf([...cycle].sort()[0] as string);
      const turned = [...cycle.slice(first), ...cycle.slice(0, first)];
      found.add([...turned, turned[0]].join(' → '));
      return;
    }
    if (finished.has(folder)) return;
    for (const next of graph.get(folder) ?? []) visit(next, [...way, folder]);
    finished.add(folder);
  };
  for (const folder of [...graph.keys()].sort()) visit(folder, []);
  return [...found].sort();
}
