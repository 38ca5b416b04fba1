// What compute workers load: modules of their own folder, if they are those of the training job.

import assert from 'node:assert/strict';
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import type { FunctionNode, PlanNode, SourceNode } from '../plan/nodes.ts';
import { firstDifference, type JobPlan, jobPlanOf, loadablePlan } from './job-plan.ts';

const folders: string[] = [];
after(async () => {
  for (const folder of folders) await rm(folder, { recursive: true });
});

async function project(files: Readonly<Record<string, string>>): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'hvd-job-plan-'));
  folders.push(folder);
  await writeFile(join(folder, 'package.json'), '{}');
  for (const [name, text] of Object.entries(files)) {
    await mkdir(join(folder, name, '..'), { recursive: true });
    await writeFile(join(folder, name), text);
  }
  return folder;
}

const files = {
  'src/augment.js': "import { scale } from './lib/scale.js';\nexport const augment = (x) => scale(x);\n",
  'src/lib/scale.js': 'export const scale = (x) => 2 * x;\n',
};

const source: SourceNode = {
  node: 'rangeDataset',
  paths: [],
  format: { start: 0, rows: 8 },
  settings: {
    shuffle: null,
    shard: 'lanes',
    rank: null,
    size: null,
    uneven: 'pad',
    interleave: null,
    index: 'auto',
    lanes: null,
  },
};

const mapNode = (module: string): PlanNode => ({
  node: 'map',
  fn: { kind: 'exported', module, name: 'augment', args: null },
});

const planIn = (folder: string): JobPlan =>
  jobPlanOf([source, mapNode(pathToFileURL(join(folder, 'src/augment.js')).href)], 0);

const moduleOf = (nodes: readonly PlanNode[]) => ((nodes[1] as FunctionNode).fn as { module: string }).module;

describe('modules of a plan', () => {
  test('travel as paths below the project, and are loaded from the folder of the worker', async () => {
    const [trainer, worker] = [await project(files), await project(files)];
    const plan = planIn(trainer);
    assert.equal(moduleOf(plan.nodes), 'src/augment.js');
    assert.deepEqual(Object.keys(plan.modules).sort(), ['src/augment.js', 'src/lib/scale.js']);
    assert.equal(moduleOf(loadablePlan(plan, worker)), pathToFileURL(join(worker, 'src/augment.js')).href);
  });

  test('are found from a folder of the project, too, and none outside of that folder is loaded', async () => {
    const [trainer, worker] = [await project(files), await project(files)];
    const plan = planIn(trainer);
    const inside = join(worker, 'src');
    assert.equal(moduleOf(loadablePlan(plan, inside)), pathToFileURL(join(inside, 'augment.js')).href);
    assert.throws(
      () => loadablePlan(plan, join(inside, 'lib')),
      (error: Error) =>
        error.message.includes(`${join(worker, 'src/augment.js')} leads out of ${join(inside, 'lib')}`),
    );
    // Names begin at the folder itself, if they are there.
    const nested = await project({
      'copy/src/augment.js': files['src/augment.js'],
      'copy/src/lib/scale.js': files['src/lib/scale.js'],
      ...files,
    });
    assert.equal(
      moduleOf(loadablePlan(plan, join(nested, 'copy'))),
      pathToFileURL(join(nested, 'copy/src/augment.js')).href,
    );
  });

  test('that differ on the worker, or are missing there, are errors that name both files', async () => {
    const trainer = await project(files);
    const other = await project({ ...files, 'src/lib/scale.js': 'export const scale = (x) => 3 * x;\n' });
    assert.throws(
      () => loadablePlan(planIn(trainer), other),
      (error: Error) => {
        assert.match(error.message, /is not the same file as/);
        return error.message.includes(join(other, 'src/lib/scale.js')) && error.message.includes(trainer);
      },
    );
    const empty = await project({});
    assert.throws(() => loadablePlan(planIn(trainer), empty), /this compute worker has no .*--modules/);
    assert.throws(() => planIn(empty), {
      code: 'ERR_HVD_INVALID_ARGUMENT',
      message: /there is no module .*augment\.js/,
    });
  });

  test('outside of the folder, below node_modules, or without a digest are refused', async () => {
    const trainer = await project(files);
    const plan = planIn(trainer);
    const named = (name: string, modules = plan.modules): JobPlan => ({
      ...plan,
      modules,
      nodes: [source, mapNode(name)],
    });
    const digest = '0'.repeat(64);
    for (const name of [
      '../escape.js',
      '/etc/passwd',
      'src/../../x.js',
      'node_modules/a/index.js',
      'a\\b.js',
      '',
    ]) {
      assert.throws(
        () => loadablePlan(named(name, { [name]: digest }), trainer),
        /not a path below a project/,
      );
      assert.throws(() => loadablePlan(named(name), trainer), /no digest of it/);
    }
    await symlink(tmpdir(), join(trainer, 'src', 'out'));
    const outside = await project({ 'x.js': '' });
    const through = `src/out/${outside.slice(tmpdir().length + 1)}/x.js`;
    assert.throws(() => loadablePlan(named(through, { [through]: digest }), trainer), /leads out of/);
    const hidden = { 'src/augment.js': plan.modules['src/augment.js'] as string };
    assert.throws(() => loadablePlan(named('src/augment.js', hidden), trainer), /no digest of it/);
  });

  test('a difference of two plans is named by its call', async () => {
    const trainer = await project(files);
    const plan = planIn(trainer);
    assert.equal(firstDifference(plan, planIn(trainer)), undefined);
    const shorter = { ...plan, nodes: plan.nodes.slice(0, 1) };
    assert.equal(firstDifference(plan, shorter), 'call 2 of the pipeline is nothing and was map()');
  });
});
