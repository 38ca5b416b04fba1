// Connects the members of a group with each other: of each pair the higher rank dials the lower one. All or nothing: what
// was connected is hung up if one pair cannot be, and the error says of every missing peer what was tried.

import { HorovodError } from '../../errors.ts';
import type { Connection } from '../connection.ts';
import { Dial } from '../dial.ts';
import { inSeconds, waitFor } from '../wait.ts';
import type { MeshListener } from './listener.ts';

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
export async function connectMesh(options: MeshOptions): Promise<(Connection | undefined)[]> {
  const { listener, channel, ranks, index, attemptTimeoutMs } = options;
  const wanted = [...new Set(options.peers)].filter((peer) => peer !== index);
  const connections = new Map<number, Connection>();
  // Undefined for a peer that dials us.
  const missing = new Map<number, Dial | undefined>(wanted.map((peer) => [peer, undefined]));
  const waits: (() => void)[] = [];
  const connectAll = (resolve: () => void) => {
    const take = (peer: number, connection: Connection) => {
      connections.get(peer)?.socket.destroy();
      connections.set(peer, connection);
      missing.delete(peer);
      if (missing.size === 0) resolve();
    };
    if (wanted.length === 0) resolve();
    const from = rankOf(ranks, index);
    for (const peer of wanted) {
      const onConnection = (connection: Connection) => take(peer, connection);
      const to = rankOf(ranks, peer);
      if (to > from) {
        waits.push(listener.await(channel, to, onConnection));
        continue;
      }
      const claim = { purpose: listener.purpose, from, to, channel };
      const addresses = options.candidates[peer] ?? [];
      const dial = new Dial({
        identity: listener.identity,
        claim,
        addresses,
        onConnection,
        attemptTimeoutMs,
      });
      missing.set(peer, dial);
    }
  };
  try {
    const what = `for the connections of rank ${ranks[index]} in "${channel}"`;
    await waitFor<void>(connectAll, what, options, () => timedOut(options, missing));
    return ranks.map((_, member) => connections.get(member));
  } catch (error) {
    for (const { socket } of connections.values()) socket.destroy();
    throw error;
  } finally {
    for (const end of waits) end();
    for (const dial of missing.values()) dial?.cancel();
  }
}

function rankOf(ranks: readonly number[], member: number): number {
  const rank = ranks[member];
  if (rank === undefined) throw new RangeError(`member ${member} of ${ranks.length}`);
  return rank;
}

function timedOut(options: MeshOptions, missing: ReadonlyMap<number, Dial | undefined>): HorovodError {
  const { ranks, index, listener, hostnames, timeoutMs, channel } = options;
  const nameOf = (member: number) => {
    const host = hostnames?.[member];
    return `rank ${ranks[member]}${host === undefined ? '' : ` on ${host}`}`;
  };
  const peers = [...missing].map(
    ([peer, dial]) => `${nameOf(peer)}: ${dial?.describe() ?? 'it has not connected'}`,
  );
  const isReached = [...missing.values()].every((dial) => dial?.hasAnswered === true);
  const advice = isReached
    ? 'The network is fine; look at what those ranks are doing.'
    : 'Check firewalls between the hosts, or name the network with --network-interfaces.';
  const shown = peers.slice(0, 4);
  const rest = peers.length > shown.length ? `; and ${peers.length - shown.length} more ranks` : '';
  return new HorovodError(
    'ERR_HVD_TIMEOUT',
    `${nameOf(index)} could not connect to all ranks of "${channel}" within ${inSeconds(timeoutMs)}. ` +
      `${shown.join('; ')}${rest}. This rank listens at ${listener.candidates.join(', ')}. ${advice}`,
    { rank: ranks[[...missing.keys()][0] ?? -1] },
  );
}
