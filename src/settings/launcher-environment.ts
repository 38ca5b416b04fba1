// Who started this process, read from its environment: a pure function. The order matters, because launchers run
// inside each other: our own variables first, then Open MPI, then PMI (MPICH, Intel MPI, srun --mpi=pmi2), then Slurm.
// Traps, each of which has a test:
// - `salloc … mpirun`: ranks on other nodes have SLURM_PROCID=0, which belongs to the daemon that started them.
// - A plain sbatch script has SLURM_PROCID=0 and SLURM_NTASKS=4 but is a single process: only a step has tasks.
// - The shell of an allocation is a step as well, with a reserved number.
// - The ranks of one host need not be consecutive (-m cyclic), so local ranks say nothing about the ranks of neighbours.

import { JobSecret } from './job-secret.ts';
import { integer, type Kind } from './kinds.ts';
import { settingError } from './setting.ts';
import { expandHostList, expandTaskCounts } from './slurm-lists.ts';

interface Placement {
  readonly rank: number;
  readonly size: number;
  /** If the launcher says so. No launcher gives cross ranks; they follow from comparing hosts. */
  readonly localRank: number | undefined;
  readonly localSize: number | undefined;
  /** The same in all processes of the job, and different in every other running job. */
  readonly jobKey: string | undefined;
}

export interface SlurmPlacement {
  /** Nodes of the step, expanded. */
  readonly stepNodeList: readonly string[];
  readonly launchNodeAddress: string | undefined;
  readonly nodeId: number;
  /** By node. */
  readonly tasksPerNode: readonly number[];
}

export type LauncherEnvironment =
  /** A single process. */
  | (Placement & { readonly kind: 'alone' })
  /** horovodrun, or a user who sets HOROVOD_RANK and HOROVOD_SIZE. */
  | (Placement & { readonly kind: 'horovodrun' })
  /**
   * HOROVOD_RENDEZVOUS: no launcher, or one whose ranks are to meet there. If `rank` is undefined, ranks are numbered
   * in the order in which they arrive.
   */
  | (Omit<Placement, 'rank'> & { readonly kind: 'rendezvous'; readonly rank: number | undefined })
  | (Placement & {
      readonly kind: 'open-mpi';
      readonly openMpi: {
        /** Where mpirun listens: `1234.0;tcp://10.0.0.1,192.168.0.1:5678`. */
        readonly hnpUri: string | undefined;
        /** All nodes, `host[1:1-3]@0(3)`; ranks beside mpirun do not have it. */
        readonly nodeRegex: string | undefined;
        /** From a random key that mpirun gives to every rank. */
        readonly secret: JobSecret | undefined;
      };
    })
  | (Placement & {
      readonly kind: 'pmi';
      /** The descriptor of the connection to the process manager. */
      readonly pmi: { readonly fd: number | undefined };
      /** Where the process manager is Slurm's. */
      readonly slurm: SlurmPlacement | undefined;
    })
  | (Placement & { readonly kind: 'slurm'; readonly slurm: SlurmPlacement });

/** All but `rendezvous`. */
type Launched = Exclude<LauncherEnvironment, { kind: 'rendezvous' }>;

/** Slurm reserves steps from here on for the batch script, the shell of salloc and the like. */
const firstReservedStep = 0xffff_fff0;

/** Throws ERR_HVD_SETTING for variables that contradict each other or are not numbers. */
export function readLauncherEnvironment(env: NodeJS.ProcessEnv): LauncherEnvironment {
  const own = readHorovod(env);
  const foreign = readOpenMpi(env) ?? readPmi(env) ?? readSlurm(env);
  if (isSet(env, 'HOROVOD_RENDEZVOUS') && !isSet(env, 'HOROVOD_RENDEZVOUS_ADDR')) {
    return meet(env, own, foreign);
  }
  if (own !== undefined) return own;
  return foreign ?? { kind: 'alone', rank: 0, size: 1, localRank: 0, localSize: 1, jobKey: undefined };
}

function readHorovod(env: NodeJS.ProcessEnv): (Placement & { kind: 'horovodrun' }) | undefined {
  if (!isSet(env, 'HOROVOD_RANK') && !isSet(env, 'HOROVOD_SIZE')) return undefined;
  if (!isSet(env, 'HOROVOD_RANK') || !isSet(env, 'HOROVOD_SIZE')) {
    if (isSet(env, 'HOROVOD_RENDEZVOUS') && isSet(env, 'HOROVOD_SIZE')) return undefined;
    throw settingError('HOROVOD_RANK and HOROVOD_SIZE must be set together, but only one of them is.');
  }
  return {
    kind: 'horovodrun',
    ...pair(env, 'HOROVOD_RANK', 'HOROVOD_SIZE'),
    localRank: optionalNumber(env, 'HOROVOD_LOCAL_RANK'),
    localSize: optionalNumber(env, 'HOROVOD_LOCAL_SIZE', 1),
    jobKey: text(env, 'HOROVOD_JOB_ID'),
  };
}

/** Takes rank and size from the user, an indexed Kubernetes job or another launcher. */
function meet(
  env: NodeJS.ProcessEnv,
  own: Placement | undefined,
  foreign: Placement | undefined,
): LauncherEnvironment {
  const size = own?.size ?? optionalNumber(env, 'HOROVOD_SIZE', 1) ?? foreign?.size;
  if (size === undefined) {
    throw settingError(
      'HOROVOD_RENDEZVOUS is set, but HOROVOD_SIZE is not. Set it to the number of processes.',
    );
  }
  const index = optionalNumber(env, 'JOB_COMPLETION_INDEX');
  const rank = own?.rank ?? index ?? (foreign?.size === size ? foreign.rank : undefined);
  if (rank !== undefined && rank >= size) {
    const source = index === rank ? 'JOB_COMPLETION_INDEX' : 'the rank';
    throw settingError(`${source} is ${rank}; it must be less than HOROVOD_SIZE=${size}.`);
  }
  const { localRank, localSize } = own ?? (index === undefined ? foreign : undefined) ?? {};
  return { kind: 'rendezvous', rank, size, localRank, localSize, jobKey: text(env, 'HOROVOD_JOB_ID') };
}

function readOpenMpi(env: NodeJS.ProcessEnv): Launched | undefined {
  if (!isSet(env, 'OMPI_COMM_WORLD_SIZE') || !isSet(env, 'OMPI_COMM_WORLD_RANK')) return undefined;
  return {
    kind: 'open-mpi',
    ...pair(env, 'OMPI_COMM_WORLD_RANK', 'OMPI_COMM_WORLD_SIZE'),
    localRank: optionalNumber(env, 'OMPI_COMM_WORLD_LOCAL_RANK'),
    localSize: optionalNumber(env, 'OMPI_COMM_WORLD_LOCAL_SIZE', 1),
    jobKey: text(env, 'PMIX_NAMESPACE') ?? text(env, 'OMPI_MCA_ess_base_jobid'),
    openMpi: {
      hnpUri: text(env, 'OMPI_MCA_orte_hnp_uri'),
      nodeRegex: text(env, 'OMPI_MCA_orte_node_regex'),
      secret: openMpiSecret(env),
    },
  };
}

function openMpiSecret(env: NodeJS.ProcessEnv): JobSecret | undefined {
  const key = text(env, 'OMPI_MCA_orte_precondition_transports');
  return key === undefined ? undefined : JobSecret.fromText(`Open MPI ${key}`);
}

function readPmi(env: NodeJS.ProcessEnv): Launched | undefined {
  if (!isSet(env, 'PMI_RANK') || !isSet(env, 'PMI_SIZE')) return undefined;
  const fd = optionalNumber(env, 'PMI_FD');
  const slurm = readSlurm(env);
  // Without a connection to the process manager, Slurm's variables are more useful.
  if (fd === undefined && slurm !== undefined) return undefined;
  return {
    kind: 'pmi',
    ...pair(env, 'PMI_RANK', 'PMI_SIZE'),
    localRank: optionalNumber(env, 'MPI_LOCALRANKID'),
    localSize: optionalNumber(env, 'MPI_LOCALNRANKS', 1),
    jobKey: text(env, 'PMI_JOBID') ?? slurmJob(env),
    pmi: { fd },
    slurm: slurm?.slurm,
  };
}

function readSlurm(env: NodeJS.ProcessEnv): (Launched & { kind: 'slurm' }) | undefined {
  const step = Number(text(env, 'SLURM_STEP_ID') ?? Number.NaN);
  if (!(step < firstReservedStep) || !isSet(env, 'SLURM_PROCID')) return undefined;
  const sizeName = isSet(env, 'SLURM_STEP_NUM_TASKS') ? 'SLURM_STEP_NUM_TASKS' : 'SLURM_NTASKS';
  if (!isSet(env, sizeName)) return undefined;
  const nodeId = optionalNumber(env, 'SLURM_NODEID') ?? 0;
  const tasks = text(env, 'SLURM_STEP_TASKS_PER_NODE');
  const tasksPerNode = tasks === undefined ? [] : expandTaskCounts(tasks, 'SLURM_STEP_TASKS_PER_NODE');
  const nodes = text(env, 'SLURM_STEP_NODELIST');
  return {
    kind: 'slurm',
    ...pair(env, 'SLURM_PROCID', sizeName),
    localRank: optionalNumber(env, 'SLURM_LOCALID'),
    localSize: tasksPerNode[nodeId],
    jobKey: slurmJob(env),
    slurm: {
      stepNodeList: nodes === undefined ? [] : expandHostList(nodes, 'SLURM_STEP_NODELIST'),
      launchNodeAddress: text(env, 'SLURM_LAUNCH_NODE_IPADDR'),
      nodeId,
      tasksPerNode,
    },
  };
}

function slurmJob(env: NodeJS.ProcessEnv): string | undefined {
  const [job, step] = [text(env, 'SLURM_JOB_ID'), text(env, 'SLURM_STEP_ID')];
  return job === undefined ? undefined : `${job}.${step ?? '0'}`;
}

function pair(env: NodeJS.ProcessEnv, rankName: string, sizeName: string): { rank: number; size: number } {
  const rank = requiredNumber(env, rankName, integer());
  const size = requiredNumber(env, sizeName, integer(1));
  if (rank < size) return { rank, size };
  throw settingError(`${rankName}=${rank} must be less than ${sizeName}=${size}.`);
}

function optionalNumber(env: NodeJS.ProcessEnv, name: string, min = 0): number | undefined {
  return isSet(env, name) ? requiredNumber(env, name, integer(min)) : undefined;
}

function requiredNumber(env: NodeJS.ProcessEnv, name: string, kind: Kind<number>): number {
  const value = kind.parse(env[name] ?? '');
  if (value === undefined)
    throw settingError(`${name} is ${JSON.stringify(env[name])}; expected ${kind.accepts}.`);
  return value;
}

function text(env: NodeJS.ProcessEnv, name: string): string | undefined {
  return isSet(env, name) ? env[name] : undefined;
}

function isSet(env: NodeJS.ProcessEnv, name: string): boolean {
  return env[name] !== undefined && env[name] !== '';
}
