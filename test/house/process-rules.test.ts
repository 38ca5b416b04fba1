// What product code must not do to its process, whose owner is the user: read the environment, exit, keep state in a module. The
// rules look at the code's text, so they know the ways to write such a thing, aliases included.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { paths, readProduct, withoutComments } from '../support/sources.ts';

const product = readProduct().filter(({ path }) => !path.startsWith('src/testing/'));

/** Files that run as a process of ours: they may exit, and hand `process` on. */
const commandLine = /^src\/(cli\/main|launch\/main|launch\/agent\/main|launch\/run\/rank-main)\.ts$/;

/** Module-level state that is allowed, with the reason. */
const allowedState: Readonly<Record<string, string>> = {
  'src/context/default/default-context.ts generations': 'the default context is the one global',
  'src/engine/fingerprint.ts scratchFloat': 'written and read within one synchronous call',
  'src/rendezvous/without-launcher/pmi-meeting-place.ts invitations':
    'a PMI connection belongs to the process and allows one exchange in its life',
  // Notes on an object that belongs to somebody else, or to another layer. They live as long as it does.
  'src/adapters/tensorflow/backend/tfjs-node-memory.ts memories': 'by backend of TensorFlow.js',
  'src/adapters/tensorflow/backend/wasm/compiled-kernels.ts kernelsOf': 'by WASM module',
  'src/adapters/divergence/data-notes.ts notes': 'by context',
  'src/adapters/divergence/divergence-guard.ts broadcastsEnded': 'by context and process set',
  'src/adapters/keras/callbacks/horovod-callback.ts unwrapped': "by the user's optimizer",
  'src/adapters/tensorflow/broadcast-notes.ts notes': "by the user's variable",
  'src/adapters/tensorflow/optimizer/distributed-optimizer.ts steppers': "by the user's optimizer",
  'src/adapters/tensorflow/optimizer/error-feedback.ts keepers': "by the user's optimizer",
  'src/adapters/tensorflow/optimizer/sharded/state.ts cut': "by the user's optimizer",
  'src/adapters/tensorflow/optimizer/tape-activity.ts own': 'by engine of TensorFlow.js',
  'src/data/resumable.ts resumables': 'by sampler or dataset; what users must not see of it',
  'src/elastic/state.ts sides': "by the user's state; what users must not see of it",
  'src/observe/flight-recorder/flight-dumper.ts ownHandlers': 'by signal handler of the process',
  'src/operations/collectives/allreduce-compressed.ts memories': 'by members of a process set',
  'src/operations/process-set.ts insides': 'by process set; what users must not see of it',
};

describe('the process', () => {
  test('only settings/ reads the environment', () => {
    const readers = product.filter(
      ({ path, code }) => readsEnvironment(code) && !path.startsWith('src/settings/'),
    );
    assert.deepEqual(paths(readers), []);
  });

  test('only the command line exits the process', () => {
    const exits = product.filter(({ path, code }) => exitsProcess(code) && !commandLine.test(path));
    assert.deepEqual(paths(exits), []);
  });

  test('nobody gives the process another name', () => {
    const aliases = product.filter(({ path, code }) => aliasesProcess(code) && !commandLine.test(path));
    assert.deepEqual(paths(aliases), []);
  });

  test('no module keeps mutable state but the default context', () => {
    const found = product.flatMap(({ path, code }) => mutableState(code).map((name) => `${path} ${name}`));
    const isDefaultContext = (each: string) => each.startsWith('src/context/default/default-context.ts ');
    assert.deepEqual(
      found.filter((each) => !(each in allowedState) && !isDefaultContext(each)),
      [],
    );
    assert.deepEqual(
      Object.keys(allowedState).filter((each) => !found.includes(each)),
      [],
      'no longer needed in the list of exceptions',
    );
  });
});

describe('these rules find', () => {
  const table: readonly (readonly [rule: (code: string) => unknown, code: string, isFound: boolean])[] = [
    [readsEnvironment, "process.env['HOME']", true],
    [readsEnvironment, "globalThis.process.env['HOME']", true],
    [readsEnvironment, "process['env']", true],
    [readsEnvironment, 'process\n  .env', true],
    [readsEnvironment, 'const { env } = process;', true],
    [readsEnvironment, 'const { pid, env: variables } = globalThis.process;', true],
    [readsEnvironment, "import { env } from 'node:process';", true],
    [readsEnvironment, "import { pid } from 'process';", false],
    [readsEnvironment, '// process.env is read in settings/', false],
    [readsEnvironment, 'options.env', false],
    [exitsProcess, 'process.exit(1)', true],
    [exitsProcess, 'process.exitCode = 1', true],
    [exitsProcess, 'process?.abort()', true],
    [exitsProcess, 'const { exit } = process;', true],
    [exitsProcess, "import { exit as leave } from 'node:process';", true],
    [exitsProcess, "process.on('exit', close)", false],
    [aliasesProcess, "import process from 'node:process';", true],
    [aliasesProcess, "import * as p from 'process';", true],
    [aliasesProcess, "const p = await import('node:process');", true],
    [aliasesProcess, "const p = require('node:process');", true],
    [aliasesProcess, 'const p = process;', true],
    [aliasesProcess, 'const p = globalThis.process;', true],
    [aliasesProcess, "const p = globalThis['process'];", true],
    [aliasesProcess, 'run(process)', true],
    [aliasesProcess, 'const process = model(); run(process);', false],
    [aliasesProcess, 'process.emitWarning.bind(process)', false],
    [aliasesProcess, 'const { pid } = process;', false],
    [mutableStateFound, 'let count = 0;', true],
    [mutableStateFound, 'export let count = 0;', true],
    [mutableStateFound, 'const known = new Map();\nfunction keep() {\n  known.set(1, 2);\n}', true],
    [mutableStateFound, 'const list: string[] = [];\nexport function add() {\n  list.push("x");\n}', true],
    [mutableStateFound, 'const options = { count: 0 };\nfunction f() {\n  options.count += 1;\n}', true],
    [mutableStateFound, 'const table = {};\nfunction f(k) {\n  table[k] = 1;\n}', true],
    [mutableStateFound, 'const scratch = new Float64Array(1);\nfunction f() {\n  scratch[0] = 1;\n}', true],
    [mutableStateFound, 'const counter = { n: 0 };\nfunction f() {\n  return counter.n++;\n}', true],
    [mutableStateFound, 'class A {\n  static #count = 0;\n}', true],
    [mutableStateFound, 'class A {\n  static readonly limit = 5;\n  static open() {}\n}', false],
    [
      mutableStateFound,
      'const codes = new Map([[1, 2]]);\nfunction f() {\n  return codes.get(1) === 2;\n}',
      false,
    ],
    [mutableStateFound, 'function f() {\n  const local = [];\n  local.push(1);\n}', false],
    [mutableStateFound, 'const list = [1];\nfunction f(o) {\n  o.list.push(1);\n}', false],
  ];
  for (const [rule, code, isFound] of table) {
    test(`${rule.name} ${isFound ? 'in' : 'nothing in'}: ${code.replaceAll('\n', ' ')}`, () => {
      assert.equal(Boolean(rule(withoutComments(code))), isFound);
    });
  }
});

function readsEnvironment(code: string): boolean {
  return usesOfProcess(code).includes('env');
}

function exitsProcess(code: string): boolean {
  return usesOfProcess(code).some((name) => ['exit', 'reallyExit', 'abort', 'exitCode'].includes(name));
}

/** Names of the members of `process` that the code uses: by a dot, by a string, by destructuring or by an import. */
function usesOfProcess(code: string): string[] {
  const direct = [...code.matchAll(/\bprocess\s*(?:\?\.|\.|\[)\s*['"]?(\w+)/g)].map(
    (match) => match[1] as string,
  );
  const taken =
    /(?:\b(?:const|let|var)\s*\{([^}]*)\}\s*=\s*(?:globalThis\.)?process\b|import\s*\{([^}]*)\}\s*from\s*'(?:node:)?process')/g;
  const named = [...code.matchAll(taken)].flatMap(([, destructured, imported]) =>
    (destructured ?? imported ?? '').split(',').map((part) => /\w+/.exec(part)?.[0] ?? ''),
  );
  return [...direct, ...named];
}

function aliasesProcess(code: string): boolean {
  if (/(?:import\s*\(|require\s*\(|import\s+(?:\*\s*as\s+)?\w+\s+from)\s*'(?:node:)?process'/.test(code))
    return true;
  if (/\bglobal(?:This)?\s*\[\s*'process'/.test(code)) return true;
  // A variable of that name, such as a Gaussian process, is something else.
  if (/\b(?:const|let)\s+process\b/.test(code)) return false;
  const plain = code.replaceAll(/\.bind\(process\)|\}\s*=\s*(?:globalThis\.)?process\b/g, '');
  return /(?:[=(,]|=>)\s*(?:globalThis\.)?process\s*[;,)\n]/.test(plain);
}

function mutableStateFound(code: string): boolean {
  return mutableState(code).length > 0;
}

/** Names of module-level variables that can change: `let`, static fields, and constants whose content the module changes. */
function mutableState(code: string): string[] {
  const variables = [...code.matchAll(/^(?:export )?(?:let|var) (\w+)/gm)].map((match) => match[1] as string);
  const statics = [
    ...code.matchAll(/^\s+(?:private |public |protected )?static (?!readonly |async )(#?\w+)\s*[:=;]/gm),
  ];
  const constants = [...code.matchAll(/^(?:export )?const (\w+)\b/gm)].map((match) => match[1] as string);
  return [
    ...variables,
    ...statics.map((match) => match[1] as string),
    ...constants.filter((name) => isChanged(name, code)),
  ];
}

function isChanged(name: string, code: string): boolean {
  const method = '(?:set|add|delete|clear|push|pop|shift|unshift|splice|sort|reverse|fill|copyWithin)';
  const place = '(?:\\.\\w+|\\[[^\\]\\n]*\\])+';
  const assignment = '(?:[-+*/%&|^]|\\*\\*|<<|>>>?|\\?\\?|&&|\\|\\|)?=(?![=>])';
  const forms = [
    `(?<![.\\w])${name}\\.${method}\\(`,
    `(?<![.\\w])${name}${place}\\s*(?:${assignment}|\\+\\+|--)`,
    `(?:\\+\\+|--|\\bdelete )${name}${place}`,
    `\\bObject\\.assign\\(${name}\\b`,
  ];
  return new RegExp(forms.join('|')).test(code);
}
