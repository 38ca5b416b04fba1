// Jobs from the cells of notebooks, with the real kernels: Deno, and tslab, whose compiler knows neither `exports` nor ES modules.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, test } from 'node:test';
import { assertEnded } from '../../support/fault-job.ts';
import {
  type CellResult,
  codeCells,
  executeCells,
  type Kernel,
  kernelSkip,
  notebookFolder,
  startCells,
} from '../../support/notebook.ts';
import { notebookText } from '../../support/notebook-file.ts';
import { repository } from '../../support/repository.ts';
import { until } from '../../support/transport-world.ts';

const body = `const hvd = await import('horovod');
  await hvd.init();
  const [sum] = await hvd.allreduce(new Float32Array([hvd.rank() + by]), { op: hvd.Sum });
  const transport: string = hvd.transportName();
  console.log('rank ' + hvd.rank() + ' is here');
  await hvd.shutdown();
  return { sum, transport };`;
const module = `import * as hvd from 'horovod';
export default async function train(by: number): Promise<object> {
  ${body.replace(/^.*import.*\n/, '')}
}`;
const expected = [
  { sum: 3, transport: 'shm' },
  { sum: 3, transport: 'shm' },
];

const program = notebookText([
  "import * as hvd from 'horovod';\nawait hvd.init();",
  { tags: ['parameters'], source: 'const steps = 2;\nlet fails = false;' },
  {
    source: `for (let step = 1; step <= steps; step++) {
  const [mean] = await hvd.allreduce(Float32Array.of(step / 2), { name: 'loss' });
  hvd.logMetrics({ loss: mean! });
  hvd.markStep({ samples: 8 });
  console.log('rank ' + hvd.rank() + ' at <step> ' + step);
}
if (fails && hvd.rank() === 1) throw new RangeError('no data');`,
  },
  'await hvd.shutdown();',
]);

/** A script that launch() runs on Deno. */
const script = `import * as hvd from 'horovod';
await hvd.init();
const isDeno: boolean = process.versions.deno !== undefined;
console.log('rank ' + hvd.rank() + ' runs on Deno: ' + isDeno);
await hvd.shutdown();`;
const onDeno = `const onDeno = launch('script.ts', { np: 2, runtime: 'deno', tensorboard: false });
await onDeno;
console.log(onDeno.logs(1));`;

const waiting = notebookText([
  { tags: ['parameters'], source: 'const kernel: number = 0;' },
  `import { appendFileSync } from 'node:fs';
appendFileSync('pids', process.pid + '\\n');
if (kernel > 0) process.kill(kernel, 'SIGINT'); // as Jupyter's Stop button does
setInterval(() => undefined, 1000);`,
]);

/** What a launcher notebook has in the words of its kernel. */
const launchers = {
  deno: { imports: '', display: '' },
  tslab: { imports: "import * as tslab from 'tslab';\n", display: ', display: tslab.newDisplay()' },
} as const;

const hasMpirun = spawnSync('mpirun', ['--version']).status === 0;

/** Command lines as Horovod's documentation has them, in a cell. */
const horovodrunLine = 'npx horovodrun -np 2 -H localhost:2 train.ipynb';
const mpirunLine =
  'mpirun -np 2 -H localhost:2 -bind-to none -map-by slot -x NCCL_DEBUG=INFO -x LD_LIBRARY_PATH -x PATH ' +
  '-mca pml ob1 -mca btl ^openib node --import horovod/typescript train.ipynb';
// Open MPI otherwise wants a flag for root, as CI is.
const cellOf = (line: string) => `const done = spawnSync('${line}', { shell: true, encoding: 'utf8', env: {
  ...process.env, LD_LIBRARY_PATH: '', OMPI_ALLOW_RUN_AS_ROOT: '1', OMPI_ALLOW_RUN_AS_ROOT_CONFIRM: '1' } });
console.log(done.status === 0 ? done.stdout : done.stderr);`;

for (const kernel of ['deno', 'tslab'] as const satisfies readonly Kernel[]) {
  describe(`in ${kernel}`, { skip: kernelSkip(kernel) }, () => {
    const { imports, display } = launchers[kernel];
    const options = `tensorboard: false${display}`;

    test('run() and launch() train on two ranks, and the cells show it', async (t) => {
      const folder = notebookFolder(kernel, t);
      writeFileSync(join(folder, 'train.ts'), module);
      writeFileSync(join(folder, 'train.ipynb'), program);
      writeFileSync(join(folder, 'waits.ipynb'), waiting);
      writeFileSync(join(folder, 'script.ts'), script);
      const ofError = (call: string) => `try { ${call} } catch (error) { console.log(String(error)); }`;
      // After an error, tslab runs no further cell.
      const cells = await executeCells(kernel, folder, [
        `import * as hvd from 'horovod';\n${imports}console.log('init is a', typeof hvd.init);`,
        `const a = await hvd.run(async (by: number) => { ${body} }, { np: 2, args: [1] });\nconsole.log(JSON.stringify(a));`,
        `const b = await hvd.run('./train.ts', { np: 2, args: [1] });\nconsole.log(JSON.stringify(b));`,
        ofError(`await hvd.run(() => { throw new RangeError('this rank cannot'); }, { np: 2 });`),
        `import { launch } from 'horovod/notebook';
const job = launch('train.ipynb', { np: 2, parameters: { steps: 3 }, ${options} });
const { size, metrics } = await job;
console.log(JSON.stringify({ size, metrics }), job.logs(1));`,
        ofError(`await launch('train.ipynb', { np: 2, parameters: { fails: true }, ${options} });`),
        ofError(`await launch('train.ipynb', { np: 2, parameters: { step: 3 }, ${options} });`),
        `import { spawnSync } from 'node:child_process';\n{ ${cellOf(horovodrunLine)} }`,
        hasMpirun ? `{ ${cellOf(mpirunLine)} }` : '',
        kernel === 'deno' ? onDeno : '',
        `await launch('waits.ipynb', { np: 2, parameters: { kernel: process.pid }, ${options} });`,
      ]);
      const [first, ofFunction, ofModule, failed, launched, failing, unknown] = cells;
      const [byHorovodrun, byMpirun, ofDeno, stopped] = cells.slice(7);
      assert.equal(first?.stdout, 'init is a function\n', `${first?.error}${first?.stderr}`);
      for (const cell of [ofFunction, ofModule]) {
        assert.equal(cell?.error, '');
        const lines = (cell?.stdout ?? '').trim().split('\n').sort();
        assert.deepEqual(lines.slice(0, 2), ['[0]<stdout>:rank 0 is here', '[1]<stdout>:rank 1 is here']);
        assert.deepEqual(JSON.parse(lines[2] ?? 'null'), expected);
      }
      assert.match(failed?.stdout ?? '', /this rank cannot/);
      const steps = [1, 2, 3].map((step) => `rank 1 at <step> ${step}\n`).join('');
      const result = `${JSON.stringify({ size: 2, metrics: { loss: 1.5 } })} ${steps}\n`;
      assert.equal(launched?.stdout, result, JSON.stringify(launched));
      assert.equal(launched.displays.length, 1);
      assert.match(
        launched.displays[0]?.html ?? '',
        /train\.ipynb.*done.*step 3 · loss 1\.5.*at &lt;step&gt; 3/s,
      );
      assert.ok(kernel === 'tslab' || launched.updates >= 1, 'the box was not replaced in place');
      const quoted =
        /rank 1 failed in train\.ipynb, cell 3, line 7: RangeError: no data\n\n.*\n> 7 \| if \(fails/s;
      assert.match(failing?.stdout ?? '', quoted);
      assert.match(failing?.displays[0]?.html ?? '', /failed.*cell 3, line 7: RangeError: no data/s);
      assert.match(unknown?.stdout ?? '', /has no parameter step\. Did you mean steps\?/);
      const lines = (cell: CellResult | undefined) =>
        (cell?.stdout ?? '').split('\n').filter((line) => line.includes(' at <step> 2'));
      assert.deepEqual(
        lines(byHorovodrun).sort(),
        ['[0]<stdout>:rank 0 at <step> 2', '[1]<stdout>:rank 1 at <step> 2'],
        JSON.stringify(byHorovodrun),
      );
      if (hasMpirun)
        assert.deepEqual(
          lines(byMpirun).sort(),
          ['rank 0 at <step> 2', 'rank 1 at <step> 2'],
          JSON.stringify(byMpirun),
        );
      if (kernel === 'deno')
        assert.equal(ofDeno?.stdout, 'rank 1 runs on Deno: true\n\n', JSON.stringify(ofDeno));
      const why = kernel === 'tslab' ? /Interrupted asynchronously/ : /launch: the job was stopped/;
      assert.match(`${stopped?.error}${stopped?.stderr}`, why);
      for (const pid of pidsIn(folder)) await assertEnded(pid);
    });

    test('no rank is left when the kernel is killed', async (t) => {
      const folder = notebookFolder(kernel, t);
      writeFileSync(join(folder, 'waits.ipynb'), waiting);
      const { ended } = startCells(kernel, folder, [
        `import { writeFileSync } from 'node:fs';
${imports}import { launch } from 'horovod/notebook';
writeFileSync('pids', process.pid + '\\n');
await launch('waits.ipynb', { np: 2, ${options} });`,
      ]);
      await until(() => pidsIn(folder).length === 3, 'both ranks run');
      const [kernelPid, ...ranks] = pidsIn(folder);
      const killedAt = performance.now();
      process.kill(kernelPid as number, 'SIGKILL');
      for (const rank of ranks) await assertEnded(rank);
      t.diagnostic(`the ranks ended ${Math.round(performance.now() - killedAt)} ms after their kernel`);
      await ended;
    });
  });
}

test('the example notebooks run in deno: the program by itself on one rank, its launcher on two', {
  skip: kernelSkip('deno'),
}, async (t) => {
  const folder = notebookFolder('deno', t);
  const where = join(folder, 'notebooks');
  const few = (text: string) => text.replace('= 6000', '= 600').replace('limit: 1000', 'limit: 100');
  for (const name of ['notebooks/train.ipynb', 'notebooks/launcher.ipynb', 'data/mnist.ts']) {
    const to = join(folder, name);
    mkdirSync(dirname(to), { recursive: true });
    writeFileSync(to, few(readFileSync(join(repository, 'examples', name), 'utf8')));
  }
  const mpirun = `const ofMpirun = spawnSync('mpirun', ['--allow-run-as-root', '--oversubscribe', '-np', '2', 'node', '--import', 'horovod/typescript',
  'train.ipynb'], { encoding: 'utf8', env: { ...process.env, HOROVOD_NOTEBOOK_PARAMETERS: 'epochs=1' } });
console.log(ofMpirun.stdout, ofMpirun.stderr);`;
  const [alone, launched] = await Promise.all(
    [
      codeCells(join(where, 'train.ipynb')),
      [...codeCells(join(where, 'launcher.ipynb')), ...(hasMpirun ? [mpirun] : [])],
    ].map((cells) => startCells('deno', folder, cells, { where }).ended),
  );
  const said = (cells: readonly CellResult[] = []) =>
    cells.map(({ stdout, stderr, error }) => `${stdout}${stderr}${error}`).join('');
  assert.equal(alone?.map(({ error }) => error).join(''), '');
  assert.match(said(alone), /test accuracy \d+\.\d+ %/);
  const [, job, logs, horovodrun, byMpirun] = launched ?? [];
  assert.match(job?.stdout ?? '', /^accuracy 0\.\d+ after \d+\.\d s\n$/, said(launched));
  assert.match(
    job?.displays[0]?.html ?? '',
    /train\.ipynb<\/b> on 2 ranks.*done.*epoch 2 of 2.*loss .*val_acc/s,
  );
  assert.match(logs?.stdout ?? '', /^Epoch 1\/2 .*\nEpoch 2\/2 .*\ntest accuracy /);
  assert.match(horovodrun?.stdout ?? '', /\[0\]<stdout>:Epoch 1\/1 .*\n\[0\]<stdout>:test accuracy /);
  if (hasMpirun) assert.match(byMpirun?.stdout ?? '', /Epoch 1\/1 .*\ntest accuracy /);
});

test('a program that Deno runs has ranks over shm, from a TypeScript module', {
  skip:
    process.env['HVD_TEST_DENO'] === undefined &&
    'no HVD_TEST_DENO (npm test -- --only integrations sets it)',
}, (t) => {
  const folder = notebookFolder('deno', t);
  writeFileSync(join(folder, 'train.ts'), module);
  writeFileSync(
    join(folder, 'main.mjs'),
    `import * as hvd from 'horovod';
     console.log(JSON.stringify(await hvd.run('./train.ts', { np: 2, args: [1], showOutput: false })));`,
  );
  const { status, stdout, stderr } = spawnSync(
    process.env['HVD_TEST_DENO'] as string,
    ['run', '-A', 'main.mjs'],
    {
      cwd: folder,
      encoding: 'utf8',
      timeout: 120_000,
    },
  );
  assert.equal(status, 0, stderr);
  assert.deepEqual(JSON.parse(stdout), expected);
});

/** Of processes that have written their number. */
function pidsIn(folder: string): number[] {
  try {
    return readFileSync(join(folder, 'pids'), 'utf8').trim().split('\n').map(Number);
  } catch {
    return [];
  }
}
