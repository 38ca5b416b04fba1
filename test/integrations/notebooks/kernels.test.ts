// run() in the cells of notebooks, with the real kernels: Deno, and tslab, whose compiler knows neither `exports` nor ES modules.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { executeCells, type Kernel, kernelSkip, notebookFolder } from '../../support/notebook.ts';

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

for (const kernel of ['deno', 'tslab'] as const satisfies readonly Kernel[]) {
  describe(`in ${kernel}`, { skip: kernelSkip(kernel) }, () => {
    test('run() trains a function and a module on two ranks, and the cell shows what they print', async (t) => {
      const folder = notebookFolder(kernel, t);
      writeFileSync(join(folder, 'train.ts'), module);
      const cells = await executeCells(kernel, folder, [
        `import * as hvd from 'horovod';\nconsole.log('init is a', typeof hvd.init);`,
        `const a = await hvd.run(async (by: number) => { ${body} }, { np: 2, args: [1] });\nconsole.log(JSON.stringify(a));`,
        `const b = await hvd.run('./train.ts', { np: 2, args: [1] });\nconsole.log(JSON.stringify(b));`,
        `await hvd.run(() => { throw new RangeError('this rank cannot'); }, { np: 2 });`,
      ]);
      const [first, ofFunction, ofModule, failed] = cells;
      assert.equal(first?.stdout, 'init is a function\n', `${first?.error}${first?.stderr}`);
      for (const cell of [ofFunction, ofModule]) {
        assert.equal(cell?.error, '');
        const lines = (cell?.stdout ?? '').trim().split('\n').sort();
        assert.deepEqual(lines.slice(0, 2), ['[0]<stdout>:rank 0 is here', '[1]<stdout>:rank 1 is here']);
        assert.deepEqual(JSON.parse(lines[2] ?? 'null'), expected);
      }
      assert.match(`${failed?.error}${failed?.stderr}`, /this rank cannot/);
    });
  });
}

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
