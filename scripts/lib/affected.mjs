// Finds the files that a change affects, for `npm test -- --changed`. A graph contains what each file depends on: its imports (values
// and types) and the files that it names in strings, such as a fixture that a test starts. `affected` follows the graph backwards.

import { dirname, join, normalize } from 'node:path';

/** Every stage depends on these files, which decide how we install, compile and run tests. */
const concernsEverything =
  /^(package(-lock)?\.json|tsconfig\.json|test\/tsconfig\.json|test\/types\/.*tsconfig\.json|scripts\/.*)$/;
/** Only stages that always run read these. */
const concernsLintOnly = /^(biome\.json|\.gitignore|\.ci\/.*|LICENSE)$/;
/** Files outside the graph that are inputs of stages or of the tests in test/house, which always run. */
const isInput = /^(docs|examples|native|bench|bin)\/|^[A-Z]+\.md$/;
/** This file loads the addon, so everything that imports it depends on the C++ sources. */
const addonLoader = 'src/transport/native/load.ts';
/** The entry points of this package, by the names under which users import them. */
const ownEntries = new Map([
  ['horovod', 'src/index.ts'],
  ['horovod/testing', 'src/testing/index.ts'],
  ['horovod/typescript', 'src/launch/typescript/register.ts'],
]);

/**
 * What each file depends on: path → paths, all relative to the repository. `sources` maps the path of every file that can be read
 * to its text; `others` lists files that can only be named (scripts, data, pages).
 */
export function dependencyGraph(sources, others = []) {
  const known = new Set([...sources.keys(), ...others]);
  const byName = new Map();
  for (const path of known) {
    const name = path.slice(path.lastIndexOf('/') + 1);
    byName.set(name, [...(byName.get(name) ?? []), path]);
  }
  const graph = new Map();
  for (const [path, text] of sources) {
    const named = pathsIn(text).flatMap((name) => targetsOf(name, path, known, byName));
    graph.set(path, new Set(named.filter((target) => target !== path)));
  }
  addUnnamedFixtures(graph, known);
  return graph;
}

/**
 * The changed files and everything that depends on them, or `{ everything: reason }` if the change affects every stage. Unknown
 * kinds of files do.
 */
export function affected(changed, graph) {
  const reach = new Set();
  for (const path of changed) {
    if (concernsEverything.test(path)) return { everything: `${path} concerns every stage` };
    if (concernsLintOnly.test(path)) continue;
    const isKnown = graph.has(path) || isInput.test(path) || /^(src|test)\//.test(path);
    if (!isKnown) return { everything: `nothing is known about ${path}` };
    reach.add(path);
    if (path.startsWith('native/src/')) reach.add(addonLoader);
  }
  const dependents = reversed(graph);
  for (const path of reach) for (const dependent of dependents.get(path) ?? []) reach.add(dependent);
  return { files: reach };
}

/** Strings that may be paths: import specifiers and names of files. */
function pathsIn(text) {
  const code = text.replaceAll(/\/\*[\s\S]*?\*\//g, '').replaceAll(/^\s*\/\/.*$/gm, '');
  const strings = [...code.matchAll(/['"`]([\w@./-]+)['"`]/g)].map((match) => match[1]);
  const files = strings.filter((each) => /[\w-]\.\w+$/.test(each));
  // Elsewhere, 'horovod' is the name of the command.
  const own = [...code.matchAll(/(?:from|import)\s*\(?\s*['"](horovod(?:\/\w+)?)['"]/g)].map(
    (match) => match[1],
  );
  return [...new Set([...files, ...own])];
}

function targetsOf(name, from, known, byName) {
  if (/^horovod(\/\w+)?$/.test(name)) {
    return [ownEntries.get(name) ?? name.replace('horovod/', 'src/').concat('.ts')];
  }
  // An import of a deleted file still counts, because the importing file is affected.
  if (name.startsWith('.') && !name.startsWith('.dist-test/')) {
    return [sourceOf(normalize(join(dirname(from), name)), known)];
  }
  const wanted = sourceOf(name.replace(/^.*(?=\bdist\/)/, ''), known);
  if (known.has(wanted)) return [wanted];
  const candidates = byName.get(wanted.slice(wanted.lastIndexOf('/') + 1)) ?? [];
  const matching = candidates.filter((path) => path.endsWith(`/${wanted}`));
  // Names without a folder (main.ts, index.md) are common. Only fixtures and scripts of tests are referred to in this way.
  return wanted.includes('/')
    ? matching
    : matching.filter((path) => /^test\/(fixtures|cluster)\//.test(path));
}

/** The source of a compiled file: dist/a.js → src/a.ts, .dist-test/test/b.js → test/b.ts. */
function sourceOf(path, known) {
  const source = path.replace(/^dist\//, 'src/').replace(/^\.dist-test\//, '');
  const typed = source.replace(/\.js$/, '.ts');
  return known.has(source) ? source : known.has(typed) || /^(src|test)\//.test(typed) ? typed : source;
}

/**
 * The names of some fixtures are put together at run time. A fixture whose name begins like that of a script beside it
 * (sum.cases.txt, sum.ts) belongs to that script. All tests of whole jobs depend on the others.
 */
function addUnnamedFixtures(graph, known) {
  const named = new Set([...graph.values()].flatMap((targets) => [...targets]));
  const scripts = [...graph.keys()].filter((path) => path.startsWith('test/fixtures/'));
  const jobTests = [...graph.keys()].filter((path) =>
    /^test\/(multiprocess|cluster)\/.*\.test\.ts$/.test(path),
  );
  for (const fixture of known) {
    if (!fixture.startsWith('test/fixtures/') || named.has(fixture)) continue;
    const owners = scripts.filter(
      (path) => path !== fixture && fixture.startsWith(path.replace(/\.\w+$/, '')),
    );
    for (const path of owners.length > 0 ? owners : jobTests) graph.get(path).add(fixture);
  }
}

function reversed(graph) {
  const dependents = new Map();
  for (const [path, targets] of graph) {
    for (const target of targets) dependents.set(target, [...(dependents.get(target) ?? []), path]);
  }
  return dependents;
}
