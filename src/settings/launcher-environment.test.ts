// Who started this process, case by case, as the environments of real launchers were seen; and Slurm's lists.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { HorovodError } from '../errors.ts';
import { JobSecret } from './job-secret.ts';
import { readLauncherEnvironment } from './launcher-environment.ts';
import { expandHostList, expandTaskCounts } from './slurm-lists.ts';

const openMpi = {
  OMPI_COMM_WORLD_RANK: '3',
  OMPI_COMM_WORLD_SIZE: '4',
  OMPI_COMM_WORLD_LOCAL_RANK: '1',
  OMPI_COMM_WORLD_LOCAL_SIZE: '2',
  OMPI_MCA_orte_hnp_uri: '1234.0;tcp://10.77.0.1,172.17.0.1:5678',
  OMPI_MCA_orte_node_regex: 'host[1:1-2]@0(2)',
  OMPI_MCA_orte_precondition_transports: '7704-1560',
  PMIX_NAMESPACE: '1234567',
};
const pmi = {
  PMI_RANK: '1',
  PMI_SIZE: '3',
  PMI_FD: '8',
  MPI_LOCALRANKID: '0',
  MPI_LOCALNRANKS: '1',
};
/** Rank 2 of `srun -N 2 -n 4 -m cyclic`: the second one on the first node. */
const slurm = {
  SLURM_JOB_ID: '17',
  SLURM_STEP_ID: '3',
  SLURM_PROCID: '2',
  SLURM_LOCALID: '1',
  SLURM_NODEID: '0',
  SLURM_NTASKS: '8',
  SLURM_STEP_NUM_TASKS: '4',
  SLURM_STEP_NODELIST: 'host[1-2]',
  SLURM_STEP_TASKS_PER_NODE: '2(x2)',
  SLURM_LAUNCH_NODE_IPADDR: '10.77.0.1',
};
const alone = { kind: 'alone', rank: 0, size: 1, localRank: 0, localSize: 1, jobKey: undefined };
const unplaced = { localRank: undefined, localSize: undefined, jobKey: undefined };
const slurmResult = {
  kind: 'slurm',
  rank: 2,
  size: 4,
  localRank: 1,
  localSize: 2,
  jobKey: '17.3',
  slurm: {
    stepNodeList: ['host1', 'host2'],
    launchNodeAddress: '10.77.0.1',
    nodeId: 0,
    tasksPerNode: [2, 2],
  },
};
const openMpiResult = {
  kind: 'open-mpi',
  rank: 3,
  size: 4,
  localRank: 1,
  localSize: 2,
  jobKey: '1234567',
  openMpi: {
    hnpUri: '1234.0;tcp://10.77.0.1,172.17.0.1:5678',
    nodeRegex: 'host[1:1-2]@0(2)',
    secret: JobSecret.fromText('Open MPI 7704-1560'),
  },
};

describe('the launcher is found from the environment:', () => {
  for (const [what, env, expected] of [
    ['nothing set', {}, alone],
    ['empty variables', { HOROVOD_RANK: '', HOROVOD_SIZE: '', PMI_RANK: '' }, alone],
    [
      'horovodrun',
      {
        HOROVOD_RANK: '1',
        HOROVOD_SIZE: '4',
        HOROVOD_LOCAL_RANK: '0',
        HOROVOD_LOCAL_SIZE: '2',
        HOROVOD_RENDEZVOUS_ADDR: '10.0.0.1:4000',
        HOROVOD_JOB_ID: 'abc',
      },
      { kind: 'horovodrun', rank: 1, size: 4, localRank: 0, localSize: 2, jobKey: 'abc' },
    ],
    [
      'horovodrun inside mpirun inside Slurm',
      { ...slurm, ...pmi, ...openMpi, HOROVOD_RANK: '0', HOROVOD_SIZE: '2' },
      { kind: 'horovodrun', rank: 0, size: 2, ...unplaced },
    ],
    [
      'horovodrun where somebody has exported HOROVOD_RENDEZVOUS',
      {
        HOROVOD_RANK: '0',
        HOROVOD_SIZE: '2',
        HOROVOD_RENDEZVOUS_ADDR: '10.0.0.1:4000',
        HOROVOD_RENDEZVOUS: 'elsewhere:5000',
      },
      { kind: 'horovodrun', rank: 0, size: 2, ...unplaced },
    ],
    [
      'no launcher, ranks given',
      { HOROVOD_RENDEZVOUS: 'host1:5000', HOROVOD_RANK: '1', HOROVOD_SIZE: '2' },
      { kind: 'rendezvous', rank: 1, size: 2, ...unplaced },
    ],
    [
      'no launcher, ranks by order of arrival',
      { HOROVOD_RENDEZVOUS: 'host1:5000', HOROVOD_SIZE: '2' },
      { kind: 'rendezvous', rank: undefined, size: 2, ...unplaced },
    ],
    [
      'an indexed job of Kubernetes',
      { HOROVOD_RENDEZVOUS: 'train-0.train:5000', HOROVOD_SIZE: '3', JOB_COMPLETION_INDEX: '2' },
      { kind: 'rendezvous', rank: 2, size: 3, ...unplaced },
    ],
    [
      'an index of Kubernetes alone, for a process that takes part in nothing',
      { JOB_COMPLETION_INDEX: '2' },
      alone,
    ],
    [
      'ranks of Slurm that meet by HOROVOD_RENDEZVOUS',
      { ...slurm, HOROVOD_RENDEZVOUS: 'host1:5000' },
      { kind: 'rendezvous', rank: 2, size: 4, localRank: 1, localSize: 2, jobKey: undefined },
    ],
    ['mpirun of Open MPI', openMpi, openMpiResult],
    [
      'salloc and mpirun: on another node with the SLURM_PROCID of the daemon',
      { ...slurm, SLURM_PROCID: '0', SLURM_STEP_NUM_TASKS: '2', ...openMpi },
      openMpiResult,
    ],
    [
      'mpiexec of MPICH',
      pmi,
      {
        kind: 'pmi',
        rank: 1,
        size: 3,
        localRank: 0,
        localSize: 1,
        jobKey: undefined,
        pmi: { fd: 8 },
        slurm: undefined,
      },
    ],
    [
      'srun --mpi=pmi2',
      { ...slurm, PMI_RANK: '2', PMI_SIZE: '4', PMI_FD: '12', PMI_JOBID: '17.3' },
      {
        kind: 'pmi',
        rank: 2,
        size: 4,
        ...unplaced,
        jobKey: '17.3',
        pmi: { fd: 12 },
        slurm: slurmResult.slurm,
      },
    ],
    [
      'srun with PMI variables but nobody at the other end',
      { ...slurm, PMI_RANK: '2', PMI_SIZE: '4' },
      slurmResult,
    ],
    ['srun', slurm, slurmResult],
    [
      'srun on nodes with different numbers of tasks',
      {
        ...slurm,
        SLURM_NODEID: '2',
        SLURM_STEP_NODELIST: 'a,n[08-09]',
        SLURM_STEP_TASKS_PER_NODE: '2,1(x2)',
        SLURM_PROCID: '3',
        SLURM_LOCALID: '0',
      },
      {
        kind: 'slurm',
        rank: 3,
        size: 4,
        localRank: 0,
        localSize: 1,
        jobKey: '17.3',
        slurm: {
          stepNodeList: ['a', 'n08', 'n09'],
          launchNodeAddress: '10.77.0.1',
          nodeId: 2,
          tasksPerNode: [2, 1, 1],
        },
      },
    ],
    [
      'a plain sbatch script, which is one process',
      { SLURM_JOB_ID: '17', SLURM_PROCID: '0', SLURM_NTASKS: '4', SLURM_LOCALID: '0', SLURM_NODEID: '0' },
      alone,
    ],
    [
      'the shell of an allocation, which Slurm counts as a step',
      { ...slurm, SLURM_STEP_ID: '4294967290', SLURM_PROCID: '0' },
      alone,
    ],
    ['half of the variables of mpirun', { OMPI_COMM_WORLD_SIZE: '4' }, alone],
  ] as const) {
    test(what, () => {
      assert.deepEqual(readLauncherEnvironment(env), expected);
    });
  }
});

describe('a contradiction is an error that names its variable:', () => {
  for (const [env, expected] of [
    [{ HOROVOD_RANK: '0' }, /HOROVOD_RANK and HOROVOD_SIZE must be set together/],
    [{ HOROVOD_SIZE: '2' }, /HOROVOD_RANK and HOROVOD_SIZE must be set together/],
    [{ HOROVOD_RANK: '2', HOROVOD_SIZE: '2' }, /HOROVOD_RANK=2 must be less than HOROVOD_SIZE=2/],
    [{ HOROVOD_RENDEZVOUS: 'h:1' }, /HOROVOD_SIZE is not/],
    [
      { HOROVOD_RENDEZVOUS: 'h:1', HOROVOD_SIZE: '2', JOB_COMPLETION_INDEX: '2' },
      /JOB_COMPLETION_INDEX is 2; it must be less than HOROVOD_SIZE=2/,
    ],
    [{ ...openMpi, OMPI_COMM_WORLD_RANK: 'x' }, /OMPI_COMM_WORLD_RANK is "x"/],
    [{ ...pmi, PMI_RANK: '3' }, /PMI_RANK=3 must be less than PMI_SIZE=3/],
    [{ ...slurm, SLURM_STEP_NODELIST: 'host[1-' }, /SLURM_STEP_NODELIST is "host\[1-"/],
    [{ ...slurm, SLURM_STEP_TASKS_PER_NODE: '2(y2)' }, /SLURM_STEP_TASKS_PER_NODE is/],
  ] as const) {
    test(JSON.stringify(env), () => {
      assert.throws(
        () => readLauncherEnvironment(env),
        (error) => HorovodError.is(error) && error.code === 'ERR_HVD_SETTING' && expected.test(error.message),
      );
    });
  }
});

test('compressed lists of hosts are expanded', () => {
  for (const [text, hosts] of [
    ['host', 'host'],
    ['host[1-2,5],x', 'host1 host2 host5 x'],
    ['a,b,c', 'a b c'],
    ['n[08-11]', 'n08 n09 n10 n11'],
    ['n[1-2]-rack[3-4]', 'n1-rack3 n1-rack4 n2-rack3 n2-rack4'],
    ['n[1].example.org', 'n1.example.org'],
    ['n[099-101],m7', 'n099 n100 n101 m7'],
  ] as const) {
    assert.equal(expandHostList(text, 'list').join(' '), hosts);
  }
  for (const text of ['', 'n[1-', 'n]1[', 'n[[1]]', 'n[2-1]', 'n[a-b]', 'n[1-9999999999]', 'n[]']) {
    assert.throws(() => expandHostList(text, 'list'), /expected a list such as/, text);
  }
});

test('compressed counts are expanded', () => {
  assert.deepEqual(expandTaskCounts('2(x2),1', 'counts'), [2, 2, 1]);
  assert.deepEqual(expandTaskCounts('4', 'counts'), [4]);
  assert.throws(() => expandTaskCounts('2(x99999999999)', 'counts'), /expected a list/);
});
