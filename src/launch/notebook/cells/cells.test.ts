// From the text of a notebook to a module: which cells run, parameters, imports, errors with their cells, and the source map.

import assert from 'node:assert/strict';
import { SourceMap } from 'node:module';
import { describe, test } from 'node:test';
import { type CellSpec, denoMetadata, notebookText } from '../../../../test/support/notebook-file.ts';
import { HorovodError } from '../../../errors.ts';
import { compileTypeScript } from '../../typescript/transform.ts';
import { skippedText } from './load-notebook.ts';
import { parseNotebook } from './notebook.ts';
import { notebookModule } from './notebook-module.ts';
import { withParameters } from './parameters.ts';

type Cells = readonly (string | CellSpec)[];

const parse = (text: string) => parseNotebook('/project/train.ipynb', text);
const moduleOf = (cells: Cells, parameters: Record<string, string> = {}) =>
  notebookModule(withParameters(parse(notebookText(cells)), new Map(Object.entries(parameters))), (source) =>
    compileTypeScript(source, '/project/train.ipynb'),
  );
/** The code without empty lines and empty statements. */
const codeOf = (cells: Cells, parameters?: Record<string, string>) =>
  moduleOf(cells, parameters)
    .code.split('\n')
    .filter((line) => line !== '' && line !== ';');

function messageOf(call: () => unknown): string {
  try {
    call();
  } catch (error) {
    assert.ok(HorovodError.is(error), String(error));
    assert.equal(error.code, 'ERR_HVD_NOTEBOOK');
    return error.detail;
  }
  return assert.fail('nothing was thrown');
}

describe('what runs of a notebook', () => {
  const runs: readonly [name: string, cells: Cells, code: readonly string[], skipped?: string][] = [
    ['cells in their order', ['let a = 1;', 'a = 2;'], ['let a = 1;', 'a = 2;']],
    ['a list of lines', [{ source: ['let a = 1;\n', 'a = 2;'] }], ['let a = 1;', 'a = 2;']],
    ['lines that end as on Windows', ['let a = 1;\r\na = 2;\r\n'], ['let a = 1;', 'a = 2;']],
    [
      'no markdown and no raw text',
      [{ type: 'markdown', source: '# x' }, { type: 'raw', source: 'x' }, 'f();'],
      ['f();'],
    ],
    ['nothing of an empty notebook', [], []],
    ['types are removed', ['const a: number = 1 as number;'], ['const a = 1;']],
    [
      'a cell that begins with a bracket',
      ['const a = b', '[1, 2].map(f)'],
      ['const a = b;', '[', '    1,', '    2', '].map(f);'],
    ],
    [
      'no cells with certain tags',
      [
        'a();',
        { tags: ['skip'], source: 'b();' },
        { tags: ['x', 'skip-execution'], source: 'c();', count: 4 },
        { tags: ['launcher'], source: 'd(' },
      ],
      ['a();'],
      'train.ipynb: these do not run here: cell 2 (tag skip); cell 3 (In [4]) (tag skip-execution); cell 4 (tag launcher).',
    ],
    [
      'no cell of another language',
      ['\n%%bash\nls -l', 'a();'],
      ['a();'],
      'train.ipynb: these do not run here: cell 1 (%%bash).',
    ],
    [
      'no lines for the kernel',
      ['!npm install x\na();', '%time\n! ls -l /tmp\n!pip install -q "y"\nb();'],
      ['a();', 'b();'],
      'train.ipynb: these do not run here: cell 1, line 1 (!npm install x); cell 2, line 1 (%time); cell 2, line 2 (! ls -l /tmp); cell 2, line 3 (!pip install -q "y").',
    ],
    [
      'code that looks like such lines',
      ['!ready && f();\n!(await g());\n!x.y;\n!a in b;', 'const m = 7\n% 2;'],
      ['!ready && f();', '!await g();', '!x.y;', '!a in b;', 'const m = 7 % 2;'],
    ],
  ];
  for (const [name, cells, code, skipped] of runs) {
    test(name, () => {
      assert.deepEqual(codeOf(cells), code);
      assert.equal(skippedText(parse(notebookText(cells))), skipped);
    });
  }

  test('a byte order mark is no part of it', () => {
    assert.equal(parse(`\uFEFF${notebookText(['a();'])}`).cells.length, 1);
  });

  const files: readonly [name: string, text: string, message: RegExp][] = [
    ['no JSON', '{ "cells": [', /^train\.ipynb is not a notebook: it is not JSON \(/],
    ['no object', '[]', /^train\.ipynb is not a notebook: it has no cells\.$/],
    ['no format', '{}', /^train\.ipynb is not a notebook: it has no nbformat\.$/],
    ['no cells', '{ "nbformat": 4 }', /^train\.ipynb is not a notebook: it has no cells\.$/],
    [
      'format 3',
      '{ "nbformat": 3, "worksheets": [] }',
      /format 3; expected format 4\. Convert it with `jupyter nbconvert --to notebook --nbformat 4 train\.ipynb`\.$/,
    ],
    ['format 5', '{ "nbformat": 5, "cells": [] }', /format 5; expected format 4\.$/],
    [
      'a notebook of Python',
      notebookText([], {
        metadata: { kernelspec: { name: 'python3', display_name: 'Python 3', language: 'python' } },
      }),
      /^train\.ipynb is a notebook of python \(kernel Python 3\); expected TypeScript or JavaScript\. Choose the kernel of Deno or tslab/,
    ],
    [
      'a cell without source',
      '{ "nbformat": 4, "cells": [{ "cell_type": "code" }] }',
      /^train\.ipynb is damaged: code cell 1 has no source\.$/,
    ],
  ];
  for (const [name, text, message] of files) {
    test(`${name}: an error says so`, () =>
      assert.match(
        messageOf(() => parse(text)),
        message,
      ));
  }

  test('a notebook that does not name its language is accepted, and one of jslab', () => {
    assert.equal(parse(notebookText(['a();'], { metadata: {} })).cells.length, 1);
    const jslab = { kernelspec: { name: 'jslab', language: 'javascript' } };
    assert.equal(parse(notebookText(['a();'], { metadata: jslab })).cells.length, 1);
    assert.equal(denoMetadata.language_info.name, 'typescript');
  });
});

describe('imports', () => {
  const used = 'use(hvd, a, b, d);';
  const table: readonly [name: string, cells: Cells, code: readonly string[]][] = [
    [
      'what is repeated is imported once',
      [
        "import * as hvd from 'horovod';",
        "import * as hvd from 'horovod';\nimport { a } from './x.ts';",
        "import {\n  a,\n  b,\n} from './x.ts'\nimport d, { a } from './x.ts';",
        used,
      ],
      [
        "import * as hvd from 'horovod';",
        "import { a } from './x.ts';",
        "import { b } from './x.ts';",
        "import d from './x.ts';",
        used,
      ],
    ],
    [
      'modules without names stay',
      ["import 'side';", "import 'side';\na();"],
      ["import 'side';", "import 'side';", 'a();'],
    ],
    [
      'the kernel of tslab is left out',
      ["import * as tslab from 'tslab';\ntslab.display.html('x');"],
      ["tslab.display.html('x');"],
    ],
    [
      'text in a template is no import',
      ["import { a } from 'x';\nconst t = `\nimport { a } from 'x';\n`; use(a);"],
      ["import { a } from 'x';", 'const t = `', "import { a } from 'x';", '`;', 'use(a);'],
    ],
    [
      'require() works',
      ["const fs = require('node:fs');"],
      [
        "import { createRequire as hvdCreateRequire } from 'node:module'; const require = hvdCreateRequire(import.meta.url);",
        "const fs = require('node:fs');",
      ],
    ],
    [
      'a require() of its own too',
      [
        "import { createRequire } from 'node:module';\nconst require = createRequire(import.meta.url);\nrequire('x');",
      ],
      [
        "import { createRequire } from 'node:module';",
        'const require = createRequire(import.meta.url);',
        "require('x');",
      ],
    ],
  ];
  for (const [name, cells, code] of table) test(name, () => assert.deepEqual(codeOf(cells), code));

  test('a package that only Deno can load is an error that says what to do', () => {
    const message = messageOf(() =>
      moduleOf(['let x;', "import * as tf from 'npm:@tensorflow/tfjs@4.22.0/dist/x.js';\ntf.y();"]),
    );
    assert.match(
      message,
      /^train\.ipynb cell 2, line 1 imports 'npm:@tensorflow\/tfjs@4\.22\.0\/dist\/x\.js', which only Deno can load/,
    );
    assert.match(
      message,
      /Install @tensorflow\/tfjs in a node_modules folder .* import '@tensorflow\/tfjs\/dist\/x\.js'/,
    );
    assert.match(
      messageOf(() => moduleOf(["import { a } from 'https://x.example/y.ts';\na();"])),
      /Import it from a file or an npm package/,
    );
  });
});

describe('names that are declared twice', () => {
  const table: readonly [name: string, cells: Cells, message: RegExp][] = [
    [
      'in two cells',
      [
        'const a = 1;',
        { source: 'f();', count: 2 },
        { source: 'const steps = 1;', count: 3 },
        { source: 'f();\nconst steps: number = 2;', count: 12 },
      ],
      /^train\.ipynb: cell 4 \(In \[12\]\) declares `steps`, as cell 3 \(In \[3\]\) does\. .*rename one .*tag `skip`\.\n {2}1 \| f\(\);\n> 2 \| const steps: number = 2;$/s,
    ],
    ['functions', ['function f() {}', 'function f(n: number) {}'], /cell 2 declares `f`, as cell 1 does/],
    ['classes and variables', ['{ let a; }\nclass A {}', 'var A;'], /cell 2 declares `A`, as cell 1 does/],
    [
      'destructured',
      ['const { a, b: [c] } = x;', 'let d = (c) => c;', 'let c = 1;'],
      /cell 3 declares `c`, as cell 1 does/,
    ],
    [
      'imports of another kind',
      ["import { a } from 'x'; a();", "import { a } from 'y'; a();"],
      /cell 2 declares `a`, as cell 1 does/,
    ],
    ['in one cell', ['let b;', 'let a = 1;\nlet a = 2;'], /cell 2 declares `a` twice/],
  ];
  for (const [name, cells, message] of table) {
    test(name, () =>
      assert.match(
        messageOf(() => moduleOf(cells)),
        message,
      ),
    );
  }

  test('the same name in a function, in var and with export is fine', () => {
    moduleOf([
      'const a = 1; function f() { const a = 2; return a; }',
      'var b = 1;',
      'var b = 2;',
      'export const c = await import.meta.url;\nexport default { a, b };',
    ]);
  });
});

describe('code that cannot be compiled', () => {
  const table: readonly [name: string, cells: Cells, message: RegExp][] = [
    [
      'names cell, line and column',
      ['f();', { source: 'f();\nconst broken: = 2;', count: 7 }],
      /^train\.ipynb cell 2 \(In \[7\]\), line 2, column 15: .+\n {2}1 \| f\(\);\n> 2 \| const broken: = 2;\n {4}\| {15}\^$/s,
    ],
    ['an open bracket is the fault of its cell', ['f(', 'g();', 'h();'], /^train\.ipynb cell 1, line 1/],
    ['what only the engine finds', ['f();', 'g();\nbreak;'], /^train\.ipynb cell 2, line 2.*break/is],
  ];
  for (const [name, cells, message] of table) {
    test(name, () =>
      assert.match(
        messageOf(() => moduleOf(cells)),
        message,
      ),
    );
  }
});

describe('parameters', () => {
  const cell = (source: string): CellSpec => ({ tags: ['parameters'], source });
  const values: readonly [source: string, parameters: Record<string, string>, code: readonly string[]][] = [
    [
      'const lr = 0.1; // the rate\nlet steps = 5',
      { lr: '0.25', steps: '7' },
      ['const lr = 0.25; // the rate', 'let steps = 7;'],
    ],
    ['const name: string = "a";', { name: '123' }, ['const name = "123";']],
    ['const name: string = "a";', { name: '"b c"' }, ['const name = "b c";']],
    ["const name = 'a; // b';", { name: 'x' }, ['const name = "x";']],
    ['const list: number[] = [1, 2];', { list: '[3]' }, ['const list = [', '    3', '];']],
    ['const f: (x: number) => number = (x) => x, no = 1;', {}, ['const f = (x)=>x, no = 1;']],
    [
      '/* two\n   lines */\nexport const é: boolean = true;',
      { é: 'false' },
      ['/* two', '   lines */ export const é = false;'],
    ],
    ['const anything = undefined;', { anything: 'text' }, ['const anything = "text";']],
    ['const anything = undefined;', { anything: 'null' }, ['const anything = null;']],
  ];
  for (const [source, parameters, code] of values) {
    test(`${source} with ${JSON.stringify(parameters)}`, () =>
      assert.deepEqual(codeOf([cell(source)], parameters), code));
  }

  const wrong: readonly [name: string, cells: Cells, parameters: Record<string, string>, message: RegExp][] =
    [
      [
        'no such name',
        [cell('const lr = 1;\nconst steps = 2;')],
        { stepz: '1' },
        /^train\.ipynb has no parameter stepz\. Did you mean steps\? Its parameters are lr, steps\.$/,
      ],
      [
        'no such cell',
        ['const lr = 1;'],
        { lr: '1' },
        /^train\.ipynb has no parameters, but lr is given\. Give the cell that declares them the tag `parameters`\.$/,
      ],
      [
        'another type',
        [cell('const lr = 1;')],
        { lr: 'fast' },
        /the parameter lr is a number in cell 1, but its value is "fast"\.$/,
      ],
      [
        'another declared type',
        [cell('const on: boolean = f();')],
        { on: '1' },
        /the parameter on is a boolean in cell 1, but its value is 1\.$/,
      ],
      [
        'something else in the cell',
        [cell('const lr = 1;\nf(lr);')],
        { lr: '2' },
        /cell 1, line 2: a cell with the tag `parameters` may hold only .* Found: f\(lr\);$/,
      ],
      ['two on a line', [cell('const lr = 1; const b = 2;')], { lr: '2' }, /line 1: .*one per line/],
      ['a value of several lines', [cell('const lr = [\n1];')], { lr: '2' }, /line 1: .*one per line/],
    ];
  for (const [name, cells, parameters, message] of wrong) {
    test(`${name}: an error says so`, () =>
      assert.match(
        messageOf(() => moduleOf(cells, parameters)),
        message,
      ));
  }
});

describe('the source map', () => {
  const cells: Cells = [
    "import * as hvd from 'horovod';",
    { tags: ['skip'], source: 'x();' },
    "!npm install x\n/* 😀é */ const s: string = '日本'; if (s) throw new Error(s.repeat(2));",
    'enum Color { Red }\nawait hvd.allreduce(Color.Red as unknown, one<number>(two));',
  ];
  const places: readonly [token: string, place: string][] = [
    ['throw ', 'train.ipynb cell 3:2:42'],
    ['new Error', 'train.ipynb cell 3:2:48'],
    ['repeat', 'train.ipynb cell 3:2:60'],
    ['allreduce', 'train.ipynb cell 4:2:11'],
    ['one(', 'train.ipynb cell 4:2:43'],
    ['two', 'train.ipynb cell 4:2:55'],
  ];
  const { code, map } = moduleOf(cells);
  const payload = JSON.parse(map) as { sources: string[]; sourcesContent: string[] };
  const lines = code.split('\n');
  for (const [token, place] of places) {
    test(`leads from ${token} to ${place}`, () => {
      const line = lines.findIndex((each) => each.includes(token));
      const column = (lines[line] as string).indexOf(token);
      const entry = new SourceMap(JSON.parse(map)).findEntry(line, column);
      assert.ok('originalSource' in entry);
      assert.equal(`${entry.originalSource}:${entry.originalLine + 1}:${entry.originalColumn + 1}`, place);
    });
  }

  test('has one source for each cell, with its text', () => {
    assert.deepEqual(payload.sources, ['train.ipynb cell 1', 'train.ipynb cell 3', 'train.ipynb cell 4']);
    assert.match(payload.sourcesContent[1] as string, /^\n\/\* 😀é \*\//);
  });

  test('is right behind an added first line', () => {
    const { code, map } = moduleOf(["const a = require('x');", 'boom();']);
    const line = code.split('\n').indexOf('boom();');
    const entry = new SourceMap(JSON.parse(map)).findEntry(line, 0);
    assert.ok('originalSource' in entry);
    assert.deepEqual([entry.originalSource, entry.originalLine], ['train.ipynb cell 2', 0]);
  });
});
