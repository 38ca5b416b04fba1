// What members do together while their group opens: tell each other what they have prepared, connect across hosts, and
// wait until all have opened their half. Each of these waits ends when the spec's signal is aborted, and the caller closes
// what it has opened.

import { closeSync, openSync } from 'node:fs';
import { HorovodError } from '../../errors.ts';
import type { Connection } from '../../net/connection.ts';
import { connectMesh } from '../../net/mesh/connect.ts';
import type { MeshListener } from '../../net/mesh/listener.ts';
import { abortedBy, waitFor } from '../../net/wait.ts';
import type { Batch, GroupSpec, Hierarchy, Outcome, TransportGroup } from '../transport.ts';

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
  /** HOROVOD_ENCRYPT: connections between hosts are encrypted. The same on all ranks. */
  readonly isEncrypted: boolean;
}

export function hierarchyOf(spec: GroupSpec, options: ClusterOptions): Hierarchy {
  return (
    spec.hierarchy ?? { allreduce: options.hierarchicalAllreduce, allgather: options.hierarchicalAllgather }
  );
}

/** Ends the opening of a transport's groups when the transport closes. */
export class Openings {
  readonly #rank: number;
  readonly #end = new AbortController();

  constructor(rank: number) {
    this.#rank = rank;
  }

  /** The same spec, with a signal that is also aborted by close(). */
  begin(spec: GroupSpec): GroupSpec & { readonly signal: AbortSignal } {
    const { signal } = this.#end;
    const guarded = {
      ...spec,
      signal: spec.signal === undefined ? signal : AbortSignal.any([spec.signal, signal]),
    };
    checkWanted(guarded);
    return guarded;
  }

  close(): void {
    const text = `rank ${this.#rank} has shut down while a process set was being opened.`;
    this.#end.abort(new HorovodError('ERR_HVD_SHUT_DOWN', text, { rank: this.#rank }));
  }
}

/** Throws if the group is not wanted any more. After every wait: the transport may have been closed meanwhile. */
export function checkWanted({ signal, id, members }: Pick<GroupSpec, 'signal' | 'id' | 'members'>): void {
  if (signal?.aborted) throw abortedBy(signal, `opening process set ${id} of ranks ${members.join(', ')}`);
}

/** A group whose members can try which ways are faster. */
interface CalibratingGroup {
  calibrate(wanted: boolean, batch: Batch, complete: (outcome: Outcome | HorovodError) => void): void;
  close(): void;
}

/** Every member of a host that has opened its half waits for it. */
export async function waitForCalibration(
  group: CalibratingGroup,
  wanted: boolean,
  spec: GroupSpec,
): Promise<void> {
  const { id, members, signal, timeoutMs } = spec;
  const label = `opening process set ${id} of ranks ${members.join(', ')}`;
  const batch = { rounds: [], passive: false, timeoutMs, stallAfterMs: 0, label, isOpening: true };
  try {
    await waitFor<void>(
      (resolve, reject) =>
        group.calibrate(wanted, batch, (each) => (typeof each === 'string' ? resolve() : reject(each))),
      `for ranks ${members.join(', ')} to try their memory in process set ${id}`,
      { signal },
    );
    checkWanted(spec);
  } catch (error) {
    group.close();
    throw error;
  }
}

/** What a member tells the others about an error. */
interface Failure {
  readonly code: HorovodError['code'];
  readonly detail: string;
  /** The rank that the error blames. */
  readonly rank?: number | undefined;
}

/** The text for exchange() of a member that has failed before it could call it. */
export function failureText(error: unknown): string {
  return JSON.stringify(failureOf(error));
}

export function failureOf(error: unknown): Failure {
  return HorovodError.is(error)
    ? { code: error.code, detail: error.detail, rank: error.rank }
    : { code: 'ERR_HVD_NATIVE', detail: String(error) };
}

/**
 * Every member prepares something and sends it to all as JSON. If that fails on any member, all of them throw, instead of
 * waiting for the member that failed.
 */
export async function exchangePrepared<Prepared>(
  spec: GroupSpec,
  prepare: () => Prepared | Promise<Prepared>,
): Promise<Prepared[]> {
  type Message = { prepared: Prepared } | Failure;
  let message: Message;
  let failure: unknown;
  try {
    message = { prepared: await prepare() };
  } catch (error) {
    failure = error;
    message = failureOf(error);
  }
  checkWanted(spec);
  const exchanged = spec.exchange(JSON.stringify(message));
  // It may settle after the wait for it was ended.
  exchanged.catch(() => undefined);
  const what = `for what ranks ${spec.members.join(', ')} have prepared`;
  const { signal } = spec;
  const texts = await waitFor<readonly string[]>((resolve, reject) => exchanged.then(resolve, reject), what, {
    signal,
  });
  if (failure !== undefined) throw failure;
  const prepared = texts.map((text, index) => {
    const told = JSON.parse(text) as Message;
    if ('prepared' in told) return told.prepared;
    const rank = spec.members[index];
    throw new HorovodError(told.code, `rank ${rank}: ${told.detail}`, { rank });
  });
  checkWanted(spec);
  return prepared;
}

/**
 * A process without free descriptors would neither dial nor hear who dials it, and all members would wait: it fails at once.
 */
function checkDescriptors(count: number, rank: number): void {
  if (process.platform === 'win32') return;
  const opened: number[] = [];
  try {
    while (opened.length < count) opened.push(openSync('/dev/null', 'r'));
  } catch (error) {
    throw new HorovodError(
      'ERR_HVD_NATIVE',
      `rank ${rank}: ${count} connections are needed, and there are too few free descriptors ` +
        `(${(error as NodeJS.ErrnoException).code}). Raise the limit of open files (ulimit -n).`,
      { rank, cause: error },
    );
  } finally {
    for (const fd of opened) closeSync(fd);
  }
}

/** Connections that stay on this host are not encrypted: their bytes do not leave its kernel. */
export function isEncryptedWith(member: number, { members }: GroupSpec, options: ClusterOptions): boolean {
  const { isEncrypted, hosts, rank } = options;
  return isEncrypted && hosts.get(members[member] as number) !== hosts.get(rank);
}

/** Connects this member with `peers` (indices). The connections are by member; undefined for those that are no peers. */
export async function connectMembers(
  spec: GroupSpec,
  { listener, generation, candidates, hostnames }: ClusterOptions,
  peers: readonly number[],
  purpose: string,
): Promise<(Connection | undefined)[]> {
  const { members, index, signal, timeoutMs } = spec;
  checkDescriptors(peers.length, members[index] as number);
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
        const batch = { rounds, passive: false, timeoutMs, stallAfterMs: 0, label, isOpening: true };
        const result = group.submit(batch, settle);
        if (result !== undefined) resolve(result);
      },
      `for ranks ${members.join(', ')} to open process set ${id}`,
      { signal },
    );
    checkWanted(spec);
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
