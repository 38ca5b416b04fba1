// Which transport a job uses: what the user asked for, or the best that every rank has. A pure function of what the ranks
// have told each other, so that all come to the same answer.

import type { AutotuneWord } from '../../engine/autotune/word.ts';
import { HorovodError } from '../../errors.ts';
import { cannotEncrypt, type TransportChoice } from '../../settings/table.ts';
import type { TransportName } from '../../transport/transport.ts';
import type { Whereabouts } from './hosts.ts';

/** What the choice of a transport depends on. */
export interface Wish {
  readonly hostname: string;
  /** HOROVOD_TRANSPORT; 'portable' for HOROVOD_NATIVE=0. */
  readonly wish: TransportChoice;
  /** Why the addon that its wish needs is not there; empty if it is. */
  readonly lack: string;
  /** HOROVOD_ENCRYPT. */
  readonly encrypt: boolean;
}

/** What a rank says of itself before anything is decided. */
export interface Introduction extends Whereabouts, Wish {
  readonly pid: number;
  /** Of the package, and of the layout of shared memory. */
  readonly version: string;
  readonly layout: number;
  /** HOROVOD_AUTOTUNE; that of the first rank counts. */
  readonly autotune?: AutotuneWord | undefined;
}

export interface TransportDecision {
  readonly transport: Exclude<TransportName, 'memory'>;
  /** Why the job does not use a faster one that it could have; the first rank logs it as a warning. */
  readonly warning?: string;
}

/** `ranks[i]` is the number of the rank that introduction i is from. */
export function decideTransport(
  introductions: readonly Wish[],
  ranks: readonly number[],
  hosts: number,
): TransportDecision {
  const wishes = new Set(introductions.map(({ wish }) => wish).filter((wish) => wish !== 'auto'));
  if (wishes.size > 1 && !wishes.has('portable')) {
    throw new HorovodError(
      'ERR_HVD_SETTING',
      `ranks ask for different transports (${[...wishes].join(', ')}); HOROVOD_TRANSPORT must be the same on all ranks.`,
    );
  }
  checkAllEncrypt(introductions, ranks);
  const demand = [...wishes].find((wish) => wish !== 'portable');
  if (demand === 'mpi' || demand === 'gloo') {
    checkAllWish(demand, introductions, ranks);
    if (introductions[0]?.encrypt === true) throw cannotEncrypt(demand);
  }
  const place = introductions.findIndex(({ lack }) => lack !== '');
  if (place < 0) {
    if (demand === 'shm' && hosts > 1) {
      throw new HorovodError(
        'ERR_HVD_SETTING',
        `HOROVOD_TRANSPORT=shm only works on one host, but this job has ${hosts}. Omit it: shared memory is used within each host anyway.`,
      );
    }
    return { transport: demand ?? (hosts > 1 ? 'tcp' : 'shm') };
  }
  const [rank, lack] = [ranks[place] as number, introductions[place]?.lack];
  if (demand !== undefined) {
    throw new HorovodError(
      'ERR_HVD_NATIVE',
      `HOROVOD_TRANSPORT=${demand}, but rank ${rank} has no ${demand === 'mpi' || demand === 'gloo' ? `${demand} addon` : 'native addon'}: ${lack}.`,
      { rank },
    );
  }
  if (wishes.has('portable')) return { transport: 'portable' };
  return {
    transport: 'portable',
    warning: `using the portable transport, which is slower, because rank ${rank} has no native addon: ${lack}.`,
  };
}

function checkAllEncrypt(introductions: readonly Wish[], ranks: readonly number[]): void {
  const told = introductions.findIndex(({ encrypt }) => encrypt);
  const untold = introductions.findIndex(({ encrypt }) => !encrypt);
  if (told < 0 || untold < 0) return;
  const nameOf = (place: number) => `rank ${ranks[place]} on ${introductions[place]?.hostname}`;
  throw new HorovodError(
    'ERR_HVD_SETTING',
    `${nameOf(told)} has HOROVOD_ENCRYPT=1, but ${nameOf(untold)} does not. Set it for all ranks, or start the job with ` +
      'horovodrun --encrypt.',
    { rank: ranks[untold] },
  );
}

/** Their addons are loaded by who wishes so: a rank that was not told cannot follow. mpirun, for one, tells ranks of other hosts little. */
function checkAllWish(
  demand: TransportChoice,
  introductions: readonly Wish[],
  ranks: readonly number[],
): void {
  const untold = introductions.findIndex(({ wish }) => wish === 'auto');
  if (untold < 0) return;
  const told = introductions.findIndex(({ wish }) => wish === demand);
  throw new HorovodError(
    'ERR_HVD_SETTING',
    `rank ${ranks[told]} on ${introductions[told]?.hostname} has HOROVOD_TRANSPORT=${demand}, but rank ${ranks[untold]} on ` +
      `${introductions[untold]?.hostname} does not. Set it for all ranks: mpirun -x HOROVOD_TRANSPORT … (Open MPI), ` +
      'mpirun -genvlist HOROVOD_TRANSPORT … (MPICH).',
    { rank: ranks[untold] },
  );
}
