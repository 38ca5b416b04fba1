// --pin-cores and --pin-gpus: the plans as tables, and real ranks that ask the kernel where they may run.

import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { fixturePath } from '../../../test/support/repository.ts';
import { HorovodError } from '../../errors.ts';
import { planGpus } from '../../settings/gpus.ts';
import { spawnRanks } from '../../testing/spawn-ranks.ts';
import { CorePinning, parseCoreList, planCores } from './pin-cores.ts';

const fixture = fixturePath('launch/cores.ts');
const horovodrun = fileURLToPath(new URL('../main.js', import.meta.url));
const skip = canPin() ? false : 'there is no taskset here';

describe('which rank gets which core', () => {
  test('as many cores as ranks: one each', () => {
    assert.deepEqual(planCores([0, 1], 2), { coresOf: [[0], [1]], coreCount: 2 });
  });

  test('more cores than ranks: equal slices, and what is left over stays free', () => {
    assert.deepEqual(planCores([0, 1, 2, 5, 8, 9, 11], 3).coresOf, [
      [0, 1],
      [2, 5],
      [8, 9],
    ]);
  });

  test('fewer cores than ranks: one each, in turn', () => {
    const { coresOf, coreCount } = planCores([4, 6], 5);
    assert.deepEqual(coresOf, [[4], [6], [4], [6], [4]]);
    assert.equal(coreCount, 2);
  });

  test("the kernel's lists are read with ranges and gaps", () => {
    assert.deepEqual(parseCoreList('0-2,7,9-10\n'), [0, 1, 2, 7, 9, 10]);
    assert.deepEqual(parseCoreList('3'), [3]);
  });
});

describe('CorePinning', () => {
  const recorded = () => {
    const calls: string[] = [];
    const affinity = {
      allowed: () => [2, 3],
      confine: (cores: readonly number[]) => void calls.push(cores.join()),
    };
    return { calls, affinity };
  };

  test('confines the launcher for the start of each rank and no longer, also if it fails', () => {
    const { calls, affinity } = recorded();
    const pinning = new CorePinning(2, assert.fail, affinity);
    const place = pinning.around(1, () => calls.push('start'));
    assert.equal(place, 3);
    assert.throws(() => pinning.around(0, () => assert.fail('no start')), /no start/);
    assert.deepEqual(calls, ['2,3', '3', 'start', '2,3', '2', '2,3']);
  });

  test('says it when ranks share cores', () => {
    const said: string[] = [];
    new CorePinning(3, (text) => said.push(text), recorded().affinity);
    assert.match(said.join(), /3 ranks share 2 cores and/);
  });

  test('starts the rank all the same when a core was taken away meanwhile', () => {
    const said: string[] = [];
    let isGone = false;
    const confine = () => {
      if (isGone) throw new Error('gone');
    };
    const pinning = new CorePinning(1, (text) => said.push(text), { allowed: () => [0], confine });
    isGone = true;
    assert.equal(
      pinning.around(0, () => 'started'),
      'started',
    );
    assert.deepEqual(said, ['gone', 'gone']);
  });
});

describe('which rank gets which GPU', () => {
  test('without CUDA_VISIBLE_DEVICES: that of its local rank', () => {
    assert.deepEqual(planGpus(undefined, 3), ['0', '1', '2']);
  });

  test('with it: the entry at its local rank, whatever it is', () => {
    assert.deepEqual(planGpus('3, GPU-5f, 7', 2), ['3', 'GPU-5f']);
  });

  test('too few are an error: none, and those after an entry that ends the list', () => {
    for (const visible of ['0', '', '0,-1,1', 'a,,b']) {
      assert.throws(
        () => planGpus(visible, 2),
        (error) =>
          HorovodError.is(error) && error.code === 'ERR_HVD_SETTING' && /2 ranks/.test(error.message),
        visible,
      );
    }
  });
});

describe('horovodrun', () => {
  test('--pin-cores gives each rank cores of its own: all threads, from the start and for good', {
    skip,
  }, async () => {
    const { coresOf } = planCores(allowedHere(), 2);
    const { ranks, ...job } = await spawnRanks(2, fixture, { flags: ['--pin-cores'] });
    assert.equal(job.exitCode, 0, job.stderr);
    for (const [rank, { stdout }] of ranks.entries()) {
      const { first, last } = JSON.parse(stdout) as { first: string; last: string };
      assert.deepEqual(parseCoreList(first), coresOf[rank]);
      assert.equal(last, first);
    }
  });

  test('without it every rank may use every core', { skip }, async () => {
    const { ranks } = await spawnRanks(2, fixture);
    for (const { stdout } of ranks)
      assert.deepEqual(parseCoreList((JSON.parse(stdout) as { last: string }).last), allowedHere());
  });

  test('only cores that horovodrun itself may use are given, and too few are said', { skip }, () => {
    const only = String(allowedHere().at(-1));
    const args = ['-c', only, process.execPath, horovodrun, '-np', '2', '--pin-cores', fixture];
    const { status, stdout, stderr } = spawnSync('taskset', args, { encoding: 'utf8' });
    assert.equal(status, 0, stderr);
    assert.equal(stdout.match(new RegExp(`"first":"${only}","last":"${only}"`, 'g'))?.length, 2, stdout);
    assert.match(stderr, /--pin-cores: 2 ranks share 1 core/);
  });

  test('without taskset --pin-cores is an error, and nothing is started', () => {
    const env = { ...process.env, PATH: '/nowhere' };
    const args = [horovodrun, '-np', '2', '--pin-cores', process.execPath, '-e', 'console.log("started")'];
    const { status, stdout, stderr } = spawnSync(process.execPath, args, { env, encoding: 'utf8' });
    assert.equal(status, 2);
    assert.equal(stdout, '');
    assert.match(stderr, /--pin-cores cannot be used here: the command taskset was not found/);
  });

  test('--pin-gpus shows each rank one GPU, also from the environment and the list given', async () => {
    const seen = async (env: NodeJS.ProcessEnv, flags: string[] = []) => {
      const job = await spawnRanks(2, fixture, { flags, env });
      assert.equal(job.exitCode, 0, job.stderr);
      return job.ranks.map(({ stdout }) => (JSON.parse(stdout) as { gpus: string | null }).gpus);
    };
    assert.deepEqual(await seen({ CUDA_VISIBLE_DEVICES: '4,6,7' }, ['--pin-gpus']), ['4', '6']);
    assert.deepEqual(await seen({ HOROVOD_PIN_GPUS: '1' }), ['0', '1']);
    const config = fixturePath('launch/pin-gpus.yaml');
    assert.deepEqual(await seen({}, ['--config-file', config]), ['0', '1']);
    assert.deepEqual(await seen({}, ['--config-file', config, '--no-pin-gpus']), [null, null]);
    const few = await spawnRanks(2, fixture, { flags: ['--pin-gpus'], env: { CUDA_VISIBLE_DEVICES: '4' } });
    assert.equal(few.exitCode, 2);
    assert.match(few.stderr, /lists 1 GPU, but 2 ranks need one each/);
  });
});

function allowedHere(): number[] {
  const list = execFileSync('taskset', ['-c', '-p', String(process.pid)], { encoding: 'utf8' });
  return parseCoreList(list.split(':')[1] ?? '');
}

function canPin(): boolean {
  return spawnSync('taskset', ['-p', String(process.pid)]).status === 0;
}
