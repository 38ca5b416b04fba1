// Which files a change affects, for `npm test -- --changed`. A graph says what each file depends on: what it imports (values and
// types) and the files it names in a string, such as a fixture that a test starts. `affected` follows the graph backwards.

import { dirname, join, normalize } from 'node:path';

/** Every stage depends on these: how we install, compile and run tests. */
const concernsEverything =
  /^(package(-lock)?\.json|tsconfig\.json|test\/tsconfig\.json|test\/types\/.*tsconfig\.json|scripts\/.*)$/;
/** Only stages that always run read these. */
const concernsLintOnly = /^(biome\.json|\.gitignore|\.ci\/.*|LICENSE)$/;
/** Files outside the graph that are inputs of stages or of the tests in test/house, which always run. */
const isInput = /^(docs|examples|native|bench|bin)\/|^[A-Z]+\.md$/;
/** The addon is loaded here, so that what imports this file depends on the C++ sources. */
const addonLoader = 'src/transport/native/load.ts';
/** Package names of this repository's own entries, as users import them. */
const ownEntries = new Map([
  ['horovod', 'src/index.ts'],
  ['horovod/testing', 'src/testing/index.ts'],
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
 * The changed files and all that depend on them, or `{ everything: reason }` if the change concerns every stage, as an unknown
 * kind of file does.
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
  return [...new Set(strings.filter((each) => /[\w-]\.\w+$/.test(each) || /^horovod(\/\w+)?$/.test(each)))];
}

function targetsOf(name, from, known, byName) {
  if (/^horovod(\/\w+)?$/.test(name)) {
    return [ownEntries.get(name) ?? name.replace('horovod/', 'src/').concat('.ts')];
  }
  // An import of a file that is gone still counts: the one that imports it is affected.
  if (name.startsWith('.') && !name.startsWith('.dist-test/')) {
    return [sourceOf(normalize(join(dirname(from), name)), known)];
  }
  const wanted = sourceOf(name.replace(/^.*(?=\bdist\/)/, ''), known);
  if (known.has(wanted)) return [wanted];
  const candidates = byName.get(wanted.slice(wanted.lastIndexOf('/') + 1)) ?? [];
  const matching = candidates.filter((path) => path.endsWith(`/${wanted}`));
  // A bare name is common (main.ts, index.md); we take it for a fixture or a script of tests, which are named so.
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
 * Some fixtures are named piece by piece. One whose name begins like that of a script beside it (sum.cases.txt, sum.ts) belongs
 * to that script; all tests of whole jobs depend on the others.
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
