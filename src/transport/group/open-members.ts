// What members do together while their group opens: tell each other what they have prepared, connect across hosts, and
// wait until all have opened their half.

import { HorovodError } from '../../errors.ts';
import type { Connection } from '../../net/connection.ts';
import { connectMesh } from '../../net/mesh/connect.ts';
import type { MeshListener } from '../../net/mesh/listener.ts';
import { waitFor } from '../../net/wait.ts';
import type { GroupSpec, Hierarchy, Outcome, TransportGroup } from '../transport.ts';

/** Options of the transports that span several hosts. */
export interface ClusterOptions {
  readonly rank: number;
  readonly listener: MeshListener;
  /** The addresses of every rank of the job, its host's number and its host's name, by rank. */
  readonly candidates: ReadonlyMap<number, readonly string[]>;
  readonly hosts: ReadonlyMap<number, number>;
  readonly hostnames: ReadonlyMap<number, string>;
  /** Part of the names of connections: an init() after a shutdown() makes new ones. */
  readonly generation: string;
  readonly hierarchicalAllreduce: boolean;
  readonly hierarchicalAllgather: boolean;
}

export function hierarchyOf(spec: GroupSpec, options: ClusterOptions): Hierarchy {
  return (
    spec.hierarchy ?? { allreduce: options.hierarchicalAllreduce, allgather: options.hierarchicalAllgather }
  );
}

/**
 * Every member prepares something and sends it to all as JSON. If that fails on any member, all of them throw, instead of
 * waiting for the member that failed.
 */
export async function exchangePrepared<Prepared>(
  spec: GroupSpec,
  prepare: () => Prepared | Promise<Prepared>,
): Promise<Prepared[]> {
  type Message = { prepared: Prepared } | { code: HorovodError['code']; detail: string };
  let message: Message;
  let failure: unknown;
  try {
    message = { prepared: await prepare() };
  } catch (error) {
    failure = error;
    message = HorovodError.is(error)
      ? { code: error.code, detail: error.detail }
      : { code: 'ERR_HVD_NATIVE', detail: String(error) };
  }
  const texts = await spec.exchange(JSON.stringify(message));
  if (failure !== undefined) throw failure;
  return texts.map((text, index) => {
    const told = JSON.parse(text) as Message;
    if ('prepared' in told) return told.prepared;
    const rank = spec.members[index];
    throw new HorovodError(told.code, `rank ${rank}: ${told.detail}`, { rank });
  });
}

/** Connects this member with `peers` (indices). The connections are by member; undefined for those that are no peers. */
export function connectMembers(
  spec: GroupSpec,
  { listener, generation, candidates, hostnames }: ClusterOptions,
  peers: readonly number[],
  purpose: string,
): Promise<(Connection | undefined)[]> {
  const { members, index, signal, timeoutMs } = spec;
  return connectMesh({
    listener,
    channel: `${purpose}/${generation}/${spec.id}/${members.join(',')}`,
    ranks: members,
    index,
    peers: peers.filter((peer) => peer !== index),
    candidates: members.map((rank) => candidates.get(rank) ?? []),
    hostnames: members.map((rank) => hostnames.get(rank) ?? '?'),
    signal,
    timeoutMs,
  });
}

/** The first barrier of a group: when it is over, every member has opened its half. Closes the group if that fails. */
export async function waitForMembers(group: TransportGroup, spec: GroupSpec): Promise<void> {
  const { id, index, members, signal, timeoutMs } = spec;
  const label = `opening process set ${id} of ranks ${members.join(', ')}`;
  const operation = { kind: 'barrier' } as const;
  const rounds = [{ fingerprintLow: id >>> 0, fingerprintHigh: 0, operation }];
  try {
    const outcome = await waitFor<Outcome>(
      (resolve, reject) => {
        const settle = (each: Outcome | HorovodError) =>
          typeof each === 'string' ? resolve(each) : reject(each);
        const result = group.submit({ rounds, passive: false, timeoutMs, stallAfterMs: 0, label }, settle);
        if (result !== undefined) resolve(result);
      },
      `for ranks ${members.join(', ')} to open process set ${id}`,
      { signal },
    );
    if (outcome === 'done') return;
    throw new HorovodError(
      'ERR_HVD_PROCESS_SET',
      `rank ${members[index]}: ${label}: other ranks are opening another process set. ` +
        'All ranks must add and remove process sets in the same order.',
    );
  } catch (error) {
    group.close();
    throw error;
  }
}
