// The command line of mpirun for a job: a pure function. It contains the names of variables but not their values, so that
// no token or password shows in the process list; mpirun takes the values from its environment.

import { HorovodError } from '../../errors.ts';
import type { Slot } from '../hosts/plan-slots.ts';
import type { RankCommand } from '../spawn/rank-process.ts';
import { describeMpi, type MpiFamily } from './mpi-family.ts';
import { splitWords } from './split-words.ts';

export interface MpirunRequest {
  readonly file: string;
  readonly family: MpiFamily;
  readonly slots: readonly Slot[];
  readonly command: RankCommand;
  /** Of the ranks. */
  readonly environment: Readonly<Record<string, string>>;
  /** False: all on this host. */
  readonly hasRemoteHosts: boolean;
  readonly sshPort?: number | undefined;
  readonly sshIdentityFile?: string | undefined;
  readonly networkInterfaces?: readonly string[] | undefined;
  readonly bindingArgs?: string | undefined;
  readonly mpiArgs?: string | undefined;
}

export interface MpirunCommand {
  readonly file: string;
  readonly args: readonly string[];
  /** For mpirun itself, in addition to those of the ranks. */
  readonly environment: Readonly<Record<string, string>>;
}

/** From this number of hosts on, all daemons are started from here at once, instead of by each other. */
const manyHosts = 64;

/** Marks the rank of each line of output, for TagReader. */
export const hydraTag = '[%g,%r]<hvd>:';

export function mpirunCommand(request: MpirunRequest): MpirunCommand {
  return request.family === 'open-mpi' || request.family === 'spectrum-mpi'
    ? openMpiCommand(request)
    : hydraCommand(request);
}

function openMpiCommand(request: MpirunRequest): MpirunCommand {
  const { family, slots, command, networkInterfaces: interfaces, environment } = request;
  const hosts = hostsOf(slots);
  const isSpectrum = family === 'spectrum-mpi';
  const binding = isSpectrum
    ? ['-bind-to', 'socket', '-map-by', 'socket', '-rank-by', 'core']
    : ['-bind-to', 'none', '-map-by', 'slot'];
  const ssh = sshOptions(request).join(' ');
  const subnets = interfaces?.join(',');
  return {
    file: request.file,
    args: [
      ...['--allow-run-as-root', '--tag-output', '-np', String(slots.length)],
      ...['-H', hosts.join(',')],
      ...(request.bindingArgs === undefined ? binding : splitWords(request.bindingArgs, '--binding-args')),
      ...(isSpectrum ? ['-tcp'] : ['-mca', 'pml', 'ob1', '-mca', 'btl', '^openib']),
      ...(hosts.length >= manyHosts
        ? ['-mca', 'plm_rsh_no_tree_spawn', 'true', '-mca', 'plm_rsh_num_concurrent', String(hosts.length)]
        : []),
      ...(ssh === '' ? [] : ['-mca', 'plm_rsh_args', ssh]),
      ...(subnets === undefined
        ? []
        : ['-mca', 'btl_tcp_if_include', subnets, '-mca', 'oob_tcp_if_include', subnets]),
      ...forwardedNames(environment).flatMap((name) => ['-x', name]),
      ...(request.mpiArgs === undefined ? [] : splitWords(request.mpiArgs, '--mpi-args')),
      ...[command.file, ...command.args],
    ],
    environment: {},
  };
}

function hydraCommand(request: MpirunRequest): MpirunCommand {
  const { family, slots, command, networkInterfaces: interfaces, environment } = request;
  const ssh = sshOptions(request).join(' ');
  const name = interfaces?.[0];
  if (interfaces !== undefined && (interfaces.length > 1 || /[/:]|^\d+\.\d/.test(name ?? ''))) {
    throw new HorovodError(
      'ERR_HVD_SETTING',
      `--network-interfaces ${interfaces.join(',')}: mpirun of ${describeMpi({ family, version: undefined })} only ` +
        'accepts the name of a single interface.',
    );
  }
  return {
    file: request.file,
    args: [
      ...['-prepend-pattern', hydraTag, '-np', String(slots.length)],
      ...['-hosts', hostsOf(slots).join(',')],
      ...(request.bindingArgs === undefined ? [] : splitWords(request.bindingArgs, '--binding-args')),
      ...(name === undefined ? [] : ['-iface', name]),
      ...['-genvlist', forwardedNames(environment).join(',')],
      ...(request.mpiArgs === undefined ? [] : splitWords(request.mpiArgs, '--mpi-args')),
      ...[command.file, ...command.args],
    ],
    environment:
      ssh === ''
        ? {}
        : family === 'intel-mpi'
          ? { I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS: ssh }
          : { HYDRA_LAUNCHER_EXTRA_ARGS: ssh },
  };
}

/** BatchMode, because nobody would see a question for a password. */
function sshOptions({ hasRemoteHosts, sshPort, sshIdentityFile }: MpirunRequest): string[] {
  if (!hasRemoteHosts) return [];
  if (sshIdentityFile !== undefined && /\s/.test(sshIdentityFile)) {
    throw new HorovodError(
      'ERR_HVD_SETTING',
      `--ssh-identity-file ${JSON.stringify(sshIdentityFile)}: with --mpi, the path must not contain spaces.`,
    );
  }
  return [
    ...['-o', 'BatchMode=yes'],
    ...(sshPort === undefined ? [] : ['-p', String(sshPort)]),
    ...(sshIdentityFile === undefined ? [] : ['-i', sshIdentityFile]),
  ];
}

/** Without mpirun's own variables, and without names that it does not accept (`BASH_FUNC_x%%`). */
function forwardedNames(environment: Readonly<Record<string, string>>): string[] {
  return Object.keys(environment)
    .filter((name) => /^[A-Za-z_]\w*$/.test(name) && !/^(OMPI|PMIX|PRTE|PMI|HYDRA|HYDI|I_MPI)_/.test(name))
    .sort();
}

/** 'host1:2' */
function hostsOf(slots: readonly Slot[]): string[] {
  return slots
    .filter(({ localRank }) => localRank === 0)
    .map(({ hostname, localSize }) => `${hostname}:${localSize}`);
}
