// Connects the members of a group with each other: of each pair the higher rank connects to the lower one. All or
// nothing: what was connected is hung up if one pair cannot, and the error says of every missing peer what was tried.

import { HorovodError } from '../../errors.ts';
import { abortedBy } from '../wait.ts';
import { Dial } from './dial.ts';
import type { MeshListener } from './listener.ts';
import type { MeshSocket } from './mesh-socket.ts';

export interface MeshOptions {
  readonly listener: MeshListener;
  /** What the connections are for; all members say the same, and never twice in one job. */
  readonly channel: string;
  /** The members' global ranks. */
  readonly ranks: readonly number[];
  /** Which of them this is. */
  readonly index: number;
  /** Indices of the members to be connected with; each of them has to name this one too. */
  readonly peers: readonly number[];
  /** `listener.candidates` of each member. */
  readonly candidates: readonly (readonly string[])[];
  /** Of each member, for error texts. */
  readonly hostnames?: readonly string[] | undefined;
  readonly signal?: AbortSignal | undefined;
  readonly timeoutMs: number;
  /** How long one address may take to answer. */
  readonly attemptTimeoutMs?: number;
}

/** By member index; undefined for this one and for those that are no peers. */
export function connectMesh(options: MeshOptions): Promise<(MeshSocket | undefined)[]> {
  const { listener, channel, ranks, index, peers, signal } = options;
  return new Promise((resolve, reject) => {
    const sockets = new Map<number, MeshSocket>();
    const missing = new Map<number, Missing>();
    const waits: (() => void)[] = [];
    const timer = setTimeout(() => fail(tooLate(options, missing)), options.timeoutMs);
    const onAbort = () => fail(aborted(options));
    signal?.addEventListener('abort', onAbort, { once: true });
    let isSettled = false;
    const settle = () => {
      isSettled = true;
      clearTimeout(timer);
      signal?.removeEventListener('abort', onAbort);
      for (const end of waits) end();
      for (const peer of missing.values()) peer.cancel();
    };
    const fail = (error: unknown) => {
      settle();
      for (const { socket } of sockets.values()) socket.destroy();
      reject(error);
    };
    const finish = () => {
      settle();
      resolve(ranks.map((_, member) => sockets.get(member)));
    };
    const take = (peer: number, socket: MeshSocket) => {
      sockets.get(peer)?.socket.destroy();
      sockets.set(peer, socket);
      missing.delete(peer);
      if (sockets.size === wanted.length) finish();
    };
    const wanted = [...new Set(peers)].filter((peer) => peer !== index);
    if (signal?.aborted) {
      onAbort();
      return;
    }
    if (wanted.length === 0) {
      finish();
      return;
    }
    const ownRank = rankOf(ranks, index);
    // Whom we wait for comes first: a connection that was parked may complete at once, the others need a moment anyway.
    for (const peer of wanted) missing.set(peer, notYetCome);
    try {
      for (const peer of wanted) {
        const rank = rankOf(ranks, peer);
        if (rank < ownRank) continue;
        const end = listener.await(channel, rank, (socket) => take(peer, socket));
        // One that was parked comes inside the call, and may have been the last.
        if (isSettled) end();
        else waits.push(end);
      }
      for (const peer of wanted) {
        const rank = rankOf(ranks, peer);
        if (rank > ownRank) continue;
        const dial = new Dial({
          ...{ identity: listener.identity, channel, rank: ownRank, wanted: rank },
          candidates: options.candidates[peer] ?? [],
          onSocket: (socket) => take(peer, socket),
          ...(options.attemptTimeoutMs === undefined ? {} : { attemptTimeoutMs: options.attemptTimeoutMs }),
        });
        missing.set(peer, dial);
      }
    } catch (error) {
      fail(error);
    }
  });
}

/** A peer that is not connected yet. */
interface Missing {
  describe(): string;
  hasAnswered(): boolean;
  cancel(): void;
}

const notYetCome: Missing = {
  describe: () => 'it has not connected',
  hasAnswered: () => false,
  cancel: () => undefined,
};

function rankOf(ranks: readonly number[], member: number): number {
  const rank = ranks[member];
  if (rank === undefined) throw new RangeError(`member ${member} of ${ranks.length}`);
  return rank;
}

function tooLate(options: MeshOptions, missing: ReadonlyMap<number, Missing>): HorovodError {
  const { ranks, index, listener, hostnames, timeoutMs, channel } = options;
  const peers = [...missing].map(([peer, wait]) => {
    const host = hostnames?.[peer];
    return `rank ${ranks[peer]}${host === undefined ? '' : ` on ${host}`}: ${wait.describe()}`;
  });
  const isReached = [...missing.values()].every((peer) => peer.hasAnswered());
  const advice = isReached
    ? 'The network is fine; look at what those ranks are doing.'
    : 'Check firewalls between the hosts, or name the network with --network-interfaces.';
  const shown = peers.slice(0, 4);
  const rest = peers.length > shown.length ? `; and ${peers.length - shown.length} ranks more` : '';
  const host = hostnames?.[index];
  const own = `rank ${ranks[index]}${host === undefined ? '' : ` on ${host}`}`;
  return new HorovodError(
    'ERR_HVD_TIMEOUT',
    `${own} could not be connected with all ranks of "${channel}" within ${timeoutMs / 1000} s. ` +
      `${shown.join('; ')}${rest}. This rank listens at ${listener.candidates.join(', ')}. ${advice}`,
    { rank: ranks[[...missing.keys()][0] ?? -1] },
  );
}

function aborted({ ranks, index, channel, signal }: MeshOptions): HorovodError {
  return abortedBy(signal, `connecting rank ${ranks[index]} with the other ranks of "${channel}"`);
}
