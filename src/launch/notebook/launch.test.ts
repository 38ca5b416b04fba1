// launch(): jobs of notebooks and scripts, started from a program.

import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { notebookText } from '../../../test/support/notebook-file.ts';
import { repository } from '../../../test/support/repository.ts';
import { HorovodError } from '../../errors.ts';
import { run } from '../run/run.ts';
import { linksTo } from './companions.ts';
import { launch, type NotebookJob, type NotebookOptions } from './launch.ts';
import { programOfRanks } from './node-program.ts';

const folder = mkdtempSync(join(tmpdir(), 'hvd-launch-'));
const path = (name: string) => join(folder, name);
const deadline = { timeout: 60_000 };
const quiet = { display: 'none', tensorboard: false } as const;

before(() => {
  mkdirSync(path('node_modules'));
  symlinkSync(repository, path('node_modules/horovod'));
  writeFileSync(
    path('train.ipynb'),
    notebookText([
      "import * as hvd from 'horovod';",
      {
        tags: ['parameters'],
        source: "const by = 1;\nlet fails = false;\nconst tag: string = '';\nconst sizes = [1];",
      },
      'await hvd.init();',
      {
        count: 12,
        source:
          "function check(rank: number): void {\n  if (fails && rank === 1) throw new RangeError('diverged');\n}\nfor (let step = 1; step <= 3; step++) {\n  await hvd.allreduce(new Float32Array([by]), { name: 'grad' });\n  hvd.logMetrics({ loss: by / step });\n  hvd.markStep({ samples: 8 });\n}\ncheck(hvd.rank());",
      },
      "console.log('rank ' + hvd.rank() + ' <' + tag + '> ' + sizes.length);\nawait hvd.shutdown();",
    ]),
  );
  writeFileSync(
    path('waits.ipynb'),
    notebookText(["console.log('waiting');\nsetInterval(() => undefined, 1000);"]),
  );
  writeFileSync(path('early.ts'), "const text: string = 'early';\nthrow new TypeError(text);\n");
  writeFileSync(path('killed.ipynb'), notebookText(["process.kill(process.pid, 'SIGKILL');"]));
  writeFileSync(path('nobody.ipynb'), notebookText(['const a = 1;', "import 'no-such-package';"]));
  writeFileSync(path('twice.ipynb'), notebookText(['const steps = 1;', 'let steps = 2;']));
  writeFileSync(path('old.ipynb'), JSON.stringify({ nbformat: 3, metadata: {}, worksheets: [] }));
  writeFileSync(path('notes.txt'), '');
  writeFileSync(
    path('python.ipynb'),
    notebookText([], { metadata: { kernelspec: { language: 'python', display_name: 'Python 3' } } }),
  );
});
after(() => rmSync(folder, { recursive: true }));

async function failureOf(job: Promise<unknown>): Promise<HorovodError> {
  try {
    await job;
  } catch (error) {
    assert.ok(HorovodError.is(error), String((error as Error)?.stack));
    return error;
  }
  assert.fail('it has not failed');
}

/** A job that can be awaited cannot be the result of a promise. */
interface Running {
  readonly job: NotebookJob;
}

/** Resolves when a rank has printed this. */
function printed(text: string, options: NotebookOptions): Promise<Running> {
  return new Promise((resolve, reject) => {
    const job = launch(path('waits.ipynb'), {
      ...options,
      onOutput: (_rank, _stream, line) => line === text && resolve({ job }),
    });
    job.catch(reject);
  });
}

test('a notebook runs on every rank, and the job knows what they did', deadline, async () => {
  const shown: string[] = [];
  const job = launch(path('train.ipynb'), {
    ...quiet,
    np: 2,
    parameters: { by: 3, tag: '<b>', sizes: [1, 2] },
    display: { html: (html) => shown.push(html) },
  });
  const { size, elapsedMs, metrics } = await job;
  assert.deepEqual([size, metrics], [2, { loss: 1 }]);
  assert.ok(elapsedMs > 0);
  assert.equal(job.logs(1), 'rank 1 <<b>> 2\n');
  assert.deepEqual(job.logs().split('\n').sort(), [
    '',
    '[0]<stdout>:rank 0 <<b>> 2',
    '[1]<stdout>:rank 1 <<b>> 2',
  ]);
  assert.deepEqual(
    job.status()?.ranks.map(({ presence, status }) => [presence, status?.step]),
    [
      ['left', 3],
      ['left', 3],
    ],
  );
  const last = shown.at(-1) ?? '';
  assert.match(last, /<b>train\.ipynb<\/b> on 2 ranks.*done.*step 3 · loss 1.*▣.*▣.*2 done/s);
  assert.match(last, /\[1\]<\/span> rank 1 &lt;&lt;b&gt;&gt; 2/);
});

test('an error names rank, cell and line, and quotes the cell', deadline, async () => {
  const shown: string[] = [];
  const job = launch(pathToFileURL(path('train.ipynb')), {
    ...quiet,
    np: 2,
    parameters: { fails: true },
    display: { html: (html) => shown.push(html) },
  });
  const error = await failureOf(job);
  assert.equal(error.code, 'ERR_HVD_RUN');
  assert.equal(error.rank, 1);
  assert.equal(
    error.detail,
    `launch: rank 1 failed in train.ipynb, cell 4 (In [12]), line 2: RangeError: diverged

  1 | function check(rank: number): void {
> 2 |   if (fails && rank === 1) throw new RangeError('diverged');
    |                                  ^
  3 | }
  4 | for (let step = 1; step <= 3; step++) {`,
  );
  const cause = error.cause as Error;
  assert.deepEqual([cause.name, cause.message], ['RangeError', 'diverged']);
  assert.match(cause.stack ?? '', /at check \(.*train\.ipynb cell 4:2:34\)\n.*train\.ipynb cell 4:9:1/);
  assert.doesNotMatch(error.stack ?? '', /\n +at /);
  assert.match(
    shown.at(-1) ?? '',
    /failed.*cell 4 \(In \[12\]\), line 2: RangeError: diverged.*<details open>/s,
  );
  assert.match(job.logs(1), /RangeError: diverged/);
});

test('errors without a cell say what is known', deadline, async () => {
  const [script, killed, missing] = await Promise.all(
    ['early.ts', 'killed.ipynb', 'nobody.ipynb'].map((name) => failureOf(launch(path(name), quiet))),
  );
  assert.equal(script?.detail, 'launch: rank 0 failed in early.ts: TypeError: early');
  assert.match(script?.cause instanceof Error ? (script.cause.stack ?? '') : '', /early\.ts:2:7/);
  assert.match(
    killed?.message ?? '',
    /killed\.ipynb has failed\. The job has failed\. First failure:\n.*SIGKILL/,
  );
  assert.match(missing?.message ?? '', /nobody\.ipynb.*Cannot find package 'no-such-package'/s);
});

test('run() runs the cells of a notebook, too', deadline, async () => {
  const lines: string[] = [];
  const results = await run(path('train.ipynb'), {
    np: 2,
    showOutput: false,
    env: { HOROVOD_NOTEBOOK_PARAMETERS: 'by=4' },
    onOutput: (_rank, _stream, line) => lines.push(line),
  });
  assert.deepEqual(results, [undefined, undefined]);
  assert.deepEqual(lines.sort(), ['rank 0 <> 1', 'rank 1 <> 1']);
  const error = await failureOf(
    run(path('train.ipynb'), {
      np: 2,
      showOutput: false,
      env: { HOROVOD_NOTEBOOK_PARAMETERS: 'fails=true' },
    }),
  );
  assert.match((error.cause as Error).stack ?? '', /RangeError: diverged\n.*train\.ipynb cell 4:2:34/);
});

test('stop() ends the ranks, and the job rejects', deadline, async () => {
  const shown: string[] = [];
  const { job } = await printed('waiting', {
    ...quiet,
    np: 2,
    display: { html: (html) => shown.push(html) },
  });
  await job.stop();
  const error = await failureOf(job);
  assert.deepEqual([error.code, error.detail], ['ERR_HVD_ABORTED', 'launch: the job was stopped.']);
  assert.match(shown.at(-1) ?? '', /stopped/);
});

test('an AbortSignal does the same, before the start and later', deadline, async () => {
  const early = AbortSignal.abort('never mind');
  assert.equal(
    (await failureOf(launch(path('waits.ipynb'), { ...quiet, signal: early }))).cause,
    'never mind',
  );
  const controller = new AbortController();
  const { job } = await printed('waiting', { ...quiet, signal: controller.signal });
  controller.abort();
  assert.equal((await failureOf(job)).code, 'ERR_HVD_ABORTED');
});

test('elastic jobs are shown and ended in the same way', deadline, async () => {
  // It does not call elastic.run().
  const job = launch(path('train.ipynb'), { ...quiet, np: 2, minNp: 1 });
  const error = await failureOf(job);
  assert.match(
    error.message,
    /failed in train\.ipynb, cell 4 \(In \[12\]\), line 5: HorovodError: ERR_HVD_INVALID_ARGUMENT: in an elastic job/,
  );
});

test('the box links to the dashboard, and its port cannot be taken twice', deadline, async () => {
  const { dashboard, job } = await new Promise<{ dashboard: string; job: NotebookJob }>((resolve) => {
    const job = launch(path('waits.ipynb'), {
      ...quiet,
      dashboard: true,
      display: {
        html(html) {
          const url = /href="(http:\/\/127\.0\.0\.1:\d+\/\?token=\w+)"[^>]*>Dashboard</.exec(html)?.[1];
          if (url !== undefined) resolve({ dashboard: url, job });
        },
      },
    });
    job.catch(() => undefined);
  });
  const page = await fetch(dashboard, { redirect: 'manual' });
  assert.equal(page.status, 303);
  await page.body?.cancel();
  const { port } = new URL(dashboard);
  const taken = await failureOf(launch(path('waits.ipynb'), { ...quiet, dashboard: { port: Number(port) } }));
  assert.equal(taken.code, 'ERR_HVD_SETTING');
  assert.match(taken.message, new RegExp(`launch: dashboard.*${port}`));
  await job.stop();
});

test('TensorBoard that is missing is said only if it was asked for', deadline, async () => {
  const boxOf = async (tensorboard: true | undefined) => {
    let last = '';
    await launch(path('train.ipynb'), {
      tensorboard,
      env: { HOROVOD_TENSORBOARD: path('no-such-tensorboard') },
      display: { html: (html) => (last = html) },
    });
    return last;
  };
  const [asked, byDefault] = await Promise.all([boxOf(true), boxOf(undefined)]);
  assert.match(asked, /TensorBoard is not installed/);
  assert.doesNotMatch(byDefault, /TensorBoard/);
});

test('behind JupyterHub, the first link leads through its proxy', () => {
  const url = 'http://127.0.0.1:38179/?token=ab';
  const hub = { JUPYTERHUB_SERVICE_PREFIX: '/user/ann/' };
  assert.deepEqual(
    linksTo('Dashboard', url, hub).map((link) => [link.title, link.url]),
    [
      ['Dashboard through JupyterHub', '/user/ann/proxy/38179/?token=ab'],
      ['Dashboard', url],
    ],
  );
  assert.deepEqual(linksTo('TensorBoard', url, {}), [{ title: 'TensorBoard', url }]);
});

test('from Deno, ranks run on the Node of the PATH, or scripts on Deno if asked for', () => {
  const [script, notebook] = [{ isNotebook: false }, { isNotebook: true }];
  const own = dirname(process.execPath);
  assert.equal(programOfRanks({ ...notebook, path: '/nowhere', isDeno: false }), undefined);
  assert.deepEqual(programOfRanks({ ...notebook, path: `/nowhere:${own}`, isDeno: true }), {
    execPath: join(own, 'node'),
    execArgv: [],
  });
  // Undefined: this process, which is Deno.
  assert.equal(programOfRanks({ ...script, runtime: 'deno', path: own, isDeno: true }), undefined);
  const missing = /there is no `node` in the PATH of this kernel.*finds it\.$/;
  assert.throws(() => programOfRanks({ ...notebook, path: '/nowhere', isDeno: true }), missing);
  const other = /, or pass runtime: 'deno'\.$/;
  assert.throws(() => programOfRanks({ ...script, path: '/nowhere', isDeno: true }), other);
  const unable = { ...notebook, runtime: 'deno', path: own, isDeno: true };
  assert.throws(() => programOfRanks(unable), /Deno cannot load a notebook as a module/);
});

describe('mistakes are found before anything starts', () => {
  const table: readonly [
    what: string,
    program: unknown,
    options: NotebookOptions,
    code: string,
    text: RegExp,
  ][] = [
    [
      'a file that is missing',
      'none.ipynb',
      {},
      'ERR_HVD_INVALID_ARGUMENT',
      /^launch: there is no .*none\.ipynb/,
    ],
    ['a folder', folder, {}, 'ERR_HVD_INVALID_ARGUMENT', /is a folder; expected a notebook/],
    ['no path', 7, {}, 'ERR_HVD_INVALID_ARGUMENT', /expected the path of a notebook, not 7/],
    [
      'another kind of file',
      path('notes.txt'),
      {},
      'ERR_HVD_INVALID_ARGUMENT',
      /neither a notebook \(\.ipynb\) nor a script/,
    ],
    [
      'a notebook on a server',
      'hdfs://nn/train.ipynb',
      {},
      'ERR_HVD_INVALID_ARGUMENT',
      /is on a server.*Copy it here/,
    ],
    [
      'a notebook of Python',
      path('python.ipynb'),
      {},
      'ERR_HVD_NOTEBOOK',
      /is a notebook of python \(kernel Python 3\)/,
    ],
    ['format 3', path('old.ipynb'), {}, 'ERR_HVD_NOTEBOOK', /is in notebook format 3; expected format 4/],
    [
      'names declared twice',
      path('twice.ipynb'),
      {},
      'ERR_HVD_NOTEBOOK',
      /cell 2 declares `steps`, as cell 1 does/,
    ],
    [
      'an unknown parameter',
      path('train.ipynb'),
      { parameters: { bye: 1 } },
      'ERR_HVD_NOTEBOOK',
      /no parameter bye\. Did you mean by\?/,
    ],
    [
      'a parameter of another type',
      path('train.ipynb'),
      { parameters: { by: 'x' } },
      'ERR_HVD_NOTEBOOK',
      /by is a number in cell 2/,
    ],
    [
      'a parameter that JSON does not have',
      path('train.ipynb'),
      { parameters: { sizes: [Number.NaN] } },
      'ERR_HVD_INVALID_ARGUMENT',
      /the parameter sizes\[0\] is NaN/,
    ],
    [
      'a function as a parameter',
      path('train.ipynb'),
      { parameters: { by: () => 1 } },
      'ERR_HVD_INVALID_ARGUMENT',
      /the parameter by is \[Function: by\]/,
    ],
    [
      'parameters of a script',
      path('early.ts'),
      { parameters: { by: 1 } },
      'ERR_HVD_INVALID_ARGUMENT',
      /early\.ts is a script/,
    ],
    [
      'no ranks',
      path('train.ipynb'),
      { np: 0 },
      'ERR_HVD_SETTING',
      /launch: np is 0; expected an integer ≥ 1/,
    ],
    [
      'another runtime',
      path('early.ts'),
      { runtime: 'bun' as 'deno' },
      'ERR_HVD_SETTING',
      /runtime is 'bun'/,
    ],
    [
      'Deno where there is none',
      path('early.ts'),
      { runtime: 'deno' },
      'ERR_HVD_SETTING',
      /needs the kernel of Deno, and this process is Node/,
    ],
    [
      'hosts twice',
      path('train.ipynb'),
      { hosts: 'localhost:1', hostfile: 'x' },
      'ERR_HVD_SETTING',
      /hosts and hostfile cannot be used together/,
    ],
  ];
  for (const [what, program, options, code, text] of table) {
    test(what, async () => {
      const error = await failureOf(launch(program as string, { ...quiet, ...options }));
      assert.equal(error.code, code, error.message);
      assert.match(error.detail, text);
    });
  }
});
