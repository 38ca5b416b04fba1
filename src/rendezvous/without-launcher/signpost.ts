// Where rank 0 is, for ranks that cannot know. Open MPI tells every rank where mpirun runs, but tells the ranks beside
// mpirun nothing about other nodes. If rank 0 is elsewhere (a rankfile), it tells the first rank beside mpirun, which
// tells its neighbours.
//   keep       the first rank beside mpirun, which is not rank 0: listens until rank 0 has connected
//   ask        its neighbours: rank 0 may be here, or the signpost says where it is
//   announce   rank 0, when it is not beside mpirun

import { HorovodError } from '../../errors.ts';
import { type Address, formatAddress, parseAddresses, withoutLoopback } from '../../net/addresses.ts';
import type { WaitOptions } from '../../net/wait.ts';
import { TcpStore } from '../store/tcp-store.ts';
import { TcpStoreServer } from '../store/tcp-store-server.ts';
import { type Meeting, type MeetingPlace, meet } from './meet.ts';

export interface Signpost {
  readonly role: 'keep' | 'ask' | 'announce';
  /** Tried in turn by the one that keeps it. */
  readonly ports: readonly number[];
  /** Where the others find it. */
  readonly addresses: readonly Address[];
}

type Wait = WaitOptions & { timeoutMs: number };

const signpostJob = 'signpost';
const key = 'rank 0';

export async function meetBySignpost(place: MeetingPlace, signpost: Signpost, wait: Wait): Promise<Meeting> {
  const deadline = performance.now() + wait.timeoutMs;
  const rest = (): Wait => ({ signal: wait.signal, timeoutMs: Math.max(1, deadline - performance.now()) });
  switch (signpost.role) {
    case 'keep':
      return keep(place, signpost, rest);
    case 'ask':
      return ask(place, signpost, wait, rest);
    case 'announce':
      return announce(place, signpost, wait);
  }
}

async function keep(place: MeetingPlace, { ports }: Signpost, rest: () => Wait): Promise<Meeting> {
  const server = await startOn(place, ports);
  try {
    const candidates = await readFrom(server.store.get(key, rest())).catch((error: unknown) => {
      if (!HorovodError.is(error) || error.code !== 'ERR_HVD_TIMEOUT') throw error;
      const text = `rank ${place.own.rank} has not heard from rank 0 where it is. ${place.advice}`;
      throw new HorovodError('ERR_HVD_TIMEOUT', text, { rank: 0, cause: error });
    });
    // When this is over all ranks have met, and nobody asks here any more.
    return await meet({ ...place, candidates }, rest());
  } finally {
    await server.close();
  }
}

async function ask(place: MeetingPlace, signpost: Signpost, wait: Wait, rest: () => Wait): Promise<Meeting> {
  const over = new AbortController();
  const asking = AbortSignal.any([over.signal, ...(wait.signal === undefined ? [] : [wait.signal])]);
  const direct = meet(place, { ...wait, signal: asking });
  const elsewhere = connect(place, signpost, { ...wait, signal: asking }).then(async (store) => {
    try {
      return await readFrom(store.get(key, { ...rest(), signal: asking }));
    } finally {
      store.close();
    }
  });
  direct.catch(() => undefined);
  elsewhere.catch(() => undefined);
  try {
    // A job that was found without the signpost needs no answer from it.
    const first = await Promise.race([direct, elsewhere.catch(() => direct)]);
    return 'store' in first ? first : await meet({ ...place, candidates: first }, rest());
  } finally {
    over.abort();
  }
}

async function announce(place: MeetingPlace, signpost: Signpost, wait: Wait): Promise<Meeting> {
  const over = new AbortController();
  const onServing = (addresses: readonly string[]): void => {
    const tell = async (): Promise<void> => {
      const store = await connect(place, signpost, { ...wait, signal: over.signal });
      // The ranks that ask are on another machine. One that has nothing but loopback has no other machines.
      const outer = withoutLoopback(addresses);
      const told = outer.length === 0 ? addresses : outer;
      await store.set(key, told.join(','), { ...wait, signal: over.signal });
      store.close();
    };
    // In most jobs nobody listens there, because nobody needs to know.
    void tell().catch(() => undefined);
  };
  try {
    return await meet({ ...place, onServing }, wait);
  } finally {
    over.abort();
  }
}

async function startOn(
  { own, secret, advice }: MeetingPlace,
  ports: readonly number[],
): Promise<TcpStoreServer> {
  let last: unknown;
  for (const port of ports) {
    try {
      return await TcpStoreServer.start({
        secret,
        jobId: signpostJob,
        ranks: own.size,
        listenOn: 'all',
        port,
      });
    } catch (error) {
      last = error;
    }
  }
  const text = `rank ${own.rank} cannot listen for rank 0: ${(last as Error).message}. ${advice}`;
  throw new HorovodError('ERR_HVD_RENDEZVOUS', text, { cause: last });
}

function connect({ own, secret }: MeetingPlace, { addresses }: Signpost, wait: Wait): Promise<TcpStore> {
  const address = addresses.map(formatAddress).join(',');
  const rank = own.rank ?? 0;
  return TcpStore.connect({ secret, jobId: signpostJob, rank, address, mayComeLater: true, ...wait });
}

async function readFrom(text: Promise<string>): Promise<Address[]> {
  const addresses = parseAddresses(await text);
  if (addresses !== undefined) return addresses;
  throw new HorovodError('ERR_HVD_RENDEZVOUS', 'rank 0 has sent addresses that cannot be read.');
}
