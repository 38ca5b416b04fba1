import assert from 'node:assert/strict';
import { tmpdir } from 'node:os';
import { describe, test } from 'node:test';
import { parseComputeWorker } from './options.ts';

const parse = (words: string, environment: NodeJS.ProcessEnv = {}) =>
  parseComputeWorker(words.split(' '), environment);

describe('the options of horovod compute-worker', () => {
  test('are none but the file', () => {
    assert.deepEqual(parse('compute.json'), {
      path: 'compute.json',
      rank: 0,
      size: 1,
      dispatchers: 1,
      dispatcherSide: 'compute',
      timeout: 60,
      threads: undefined,
      memoryBytes: 512 * 2 ** 20,
      modules: process.cwd(),
      joins: false,
      isElastic: false,
    });
  });

  test('are all of them, before or after the file', () => {
    const words = `--dispatchers 2 --dispatcher-side training --timeout 1.5 --threads 0 --modules ${tmpdir()} --memory-mb 64 --rank 3 --size 4`;
    const before = parse(`${words} /tmp/compute.json`);
    assert.deepEqual(before, {
      path: '/tmp/compute.json',
      rank: 3,
      size: 4,
      dispatchers: 2,
      dispatcherSide: 'training',
      timeout: 1.5,
      threads: 0,
      memoryBytes: 64 * 2 ** 20,
      modules: tmpdir(),
      joins: false,
      isElastic: false,
    });
    assert.deepEqual(parse(`/tmp/compute.json ${words}`), before);
    assert.equal(parse('compute.json --join')?.joins, true);
    assert.equal(parse('--help'), undefined);
  });

  for (const [launcher, environment] of [
    ['horovodrun', { HOROVOD_RANK: '1', HOROVOD_SIZE: '4' }],
    ['mpirun of Open MPI', { OMPI_COMM_WORLD_RANK: '1', OMPI_COMM_WORLD_SIZE: '4' }],
    ['mpirun of MPICH', { PMI_RANK: '1', PMI_SIZE: '4', PMI_FD: '9' }],
    [
      'srun',
      {
        SLURM_PROCID: '1',
        SLURM_NTASKS: '4',
        SLURM_STEP_ID: '0',
        SLURM_STEPID: '0',
        SLURM_JOB_ID: '7',
        SLURM_STEP_NUM_TASKS: '4',
        SLURM_STEP_NODELIST: 'a,b',
        SLURM_STEP_TASKS_PER_NODE: '2(x2)',
        SLURM_NODEID: '0',
        SLURM_LOCALID: '1',
      },
    ],
  ] as const) {
    test(`take rank and size from ${launcher}; --rank and --size come before it`, () => {
      const { rank, size } = parse('f', environment) ?? {};
      assert.deepEqual([rank, size], [1, 4]);
      assert.equal(parse('f --rank 0 --size 2', environment)?.size, 2);
    });
  }

  test('take threads and memory from the settings of data', () => {
    const command = parse('f', { HOROVOD_DATA_THREADS: '3', HOROVOD_DATA_MEMORY_MB: '7' });
    assert.deepEqual([command?.threads, command?.memoryBytes], [3, 7 * 2 ** 20]);
  });

  for (const [words, message] of [
    ['--join', /FILE is missing/],
    ['a b', /unexpected b/],
    ['f --dispatchers 0', /--dispatchers is an integer ≥ 1, not "0"/],
    ['f --dispatcher-side left', /--dispatcher-side is compute or training, not "left"/],
    ['f --timeout 0', /--timeout is a number of seconds/],
    ['f --memory-mb much', /--memory-mb is an integer ≥ 1/],
    ['f --modules /no/such/folder', /--modules: \/no\/such\/folder is not a folder/],
    ['f --rank 1', /--rank and --size belong together/],
    ['f --rank 2 --size 2', /--rank 2 must be less than --size 2/],
    ['f --join --rank 0 --dispatchers 2', /--join takes no --dispatchers, --rank: FILE says that/],
    ['f --workers 3', /Unknown option '--workers'/],
  ] as const) {
    test(`are not ${words}`, () => {
      assert.throws(() => parse(words), { code: 'ERR_HVD_SETTING', message });
    });
  }

  test('say that the process is part of an elastic job, unless it has a rank of its own', () => {
    const environment = { HOROVOD_ELASTIC_WORKER: '3', HOROVOD_RANK: '1', HOROVOD_SIZE: '2' };
    assert.equal(parse('f', environment)?.isElastic, true);
    assert.equal(parse('f --rank 0 --size 1', environment)?.isElastic, false);
  });

  test('need a rank where ranks are numbered only when they meet', () => {
    const environment = { HOROVOD_RENDEZVOUS: '127.0.0.1:4000', HOROVOD_SIZE: '2' };
    assert.throws(() => parse('f', environment), /give --rank and --size/);
  });
});
