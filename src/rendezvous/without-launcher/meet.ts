// How processes without a launcher come together at an address that all of them know: one serves the store there, the
// others connect to it. If an earlier job is still ending at that address, they wait until it has.

import { randomInt } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { HorovodError } from '../../errors.ts';
import { type Address, formatAddress } from '../../net/addresses.ts';
import { abortedBy, type WaitOptions } from '../../net/wait.ts';
import type { JobSecret } from '../../settings/job-secret.ts';
import type { Store } from '../store/store.ts';
import { TcpStore } from '../store/tcp-store.ts';
import type { TcpStoreServerOptions } from '../store/tcp-store-server.ts';
import { type Arrival, arrivalKey, nameComer, notedKey, parseReply, replyKey } from './arrival.ts';
import { gatheringJob, JobServer, type Membership } from './job-server.ts';
import type { ElasticMeeting } from './rank-driver.ts';

export interface MeetingPlace extends Pick<TcpStoreServerOptions, 'listenOn' | 'networkInterfaces'> {
  readonly secret: JobSecret;
  readonly own: Arrival;
  /** Of a job that horovodrun has started with mpirun: no other job has this id. */
  readonly jobId?: string | undefined;
  /** Whether this process serves: 'if first' where any process of the machine may. */
  readonly serves: 'yes' | 'no' | 'if first';
  /** Tried in turn by the one that serves. */
  readonly ports: readonly number[];
  /** Where the others try. */
  readonly candidates: readonly Address[];
  /** Where the address is from, for error texts: 'HOROVOD_RENDEZVOUS=host1:7000'. */
  readonly source: string;
  /** What to do if the address cannot be reached. */
  readonly advice: string;
  /** Of an elastic job, for the process that serves. */
  readonly elastic?: ElasticMeeting | undefined;
  /** Where this process serves: called with its addresses. */
  readonly onServing?: (addresses: readonly string[]) => void;
  /** Where this process serves: called for every process that comes. */
  readonly onComer?: ((text: string) => void) | undefined;
}

export interface Meeting extends Membership {
  readonly store: Store;
}

/** A process that might serve itself tries again after this long. */
const roundMs = 500;
const pauseMs = 100;
/** The one that serves gives up a little earlier than those that come: it knows who is missing. */
const slackMs = 1000;

export async function meet(place: MeetingPlace, wait: WaitOptions & { timeoutMs: number }): Promise<Meeting> {
  const deadline = performance.now() + wait.timeoutMs;
  const remaining = (): number => Math.max(1, deadline - performance.now());
  let last: HorovodError | undefined;
  for (;;) {
    if (place.serves !== 'no') {
      const server = await tryToServe(place);
      if (server !== undefined) {
        place.onServing?.(server.addresses);
        const membership = await server.gather({ signal: wait.signal, timeoutMs: remaining() });
        return { ...membership, store: server.store };
      }
      if (place.serves === 'yes') last = inUse(place);
    }
    if (place.serves !== 'yes') {
      const limit = place.serves === 'if first' ? Math.min(roundMs, remaining()) : remaining();
      const outcome = await come(place, { signal: wait.signal, timeoutMs: limit }, remaining);
      if (!HorovodError.is(outcome)) return outcome;
      // A visit cut short by the deadline proves nothing: what an earlier one was told says more.
      const isCutShort = outcome.code === 'ERR_HVD_TIMEOUT' && limit < roundMs;
      if (last === undefined || !isCutShort) last = outcome;
    }
    if (performance.now() + pauseMs >= deadline) throw last as HorovodError;
    await pause(place, wait.signal);
  }
}

/** Undefined if somebody else listens there. */
async function tryToServe(place: MeetingPlace): Promise<JobServer | undefined> {
  const { own, jobId, secret, onComer, elastic, listenOn = 'all', networkInterfaces = [] } = place;
  for (const port of place.ports) {
    try {
      return await JobServer.start({
        own,
        jobId,
        secret,
        onComer,
        elastic,
        listenOn,
        networkInterfaces,
        port,
      });
    } catch (error) {
      const { code, message } = error as NodeJS.ErrnoException;
      if (code === 'EADDRINUSE') continue;
      // This machine does not have the address after all: another one does.
      if (code === 'EADDRNOTAVAIL' && place.serves === 'if first') continue;
      throw new HorovodError(
        'ERR_HVD_RENDEZVOUS',
        `${nameComer(own)} cannot listen for the other ranks (${place.source}): ${message}. ${place.advice}`,
        { cause: error },
      );
    }
  }
  return undefined;
}

/** One visit. An error that is returned may go away by itself; one that is thrown does not. */
async function come(
  place: MeetingPlace,
  wait: WaitOptions & { timeoutMs: number },
  remaining: () => number,
): Promise<Meeting | HorovodError> {
  const { own, secret } = place;
  const ticket = randomInt(2 ** 32 - 1);
  const client = own.rank === undefined ? `this process (${own.host}, pid ${own.pid})` : `rank ${own.rank}`;
  let store: TcpStore;
  try {
    store = await TcpStore.connect({
      secret,
      jobId: gatheringJob,
      rank: ticket,
      client,
      server: 'rank 0',
      serverRank: 0,
      ...wait,
      address: place.candidates.map(formatAddress).join(','),
      mayComeLater: true,
    });
  } catch (error) {
    if (HorovodError.is(error) && error.code === 'ERR_HVD_TIMEOUT') return withAdvice(error, place);
    throw error;
  }
  let isNoted = false;
  try {
    const patience = { signal: wait.signal, timeoutMs: remaining() + slackMs };
    const { rank: claimed, ...rest } = own;
    const arrival = claimed === undefined ? rest : own;
    // Asked first: the server may end as soon as it has answered.
    const noted = store.get(notedKey(ticket), patience).then(() => {
      isNoted = true;
    });
    noted.catch(() => undefined);
    await store.set(arrivalKey(ticket), JSON.stringify(arrival), patience);
    const reply = parseReply(await store.get(replyKey(ticket), patience));
    if (reply?.kind === 'welcome') return { store, rank: reply.rank, jobId: reply.jobId };
    const reason = reply?.reason ?? 'another version of Horovod answers there.';
    const error = new HorovodError(
      'ERR_HVD_RENDEZVOUS',
      `${client} was rejected (${place.source}): ${reason}`,
    );
    if (reply?.kind !== 'full') throw error;
    store.close();
    return error;
  } catch (error) {
    store.close();
    // The end of an earlier job's server.
    const isGone = HorovodError.is(error) && error.code === 'ERR_HVD_PEER_LOST' && error.rank === 0;
    if (isGone && !isNoted) return error;
    throw error;
  }
}

async function pause(place: MeetingPlace, signal: AbortSignal | undefined): Promise<void> {
  try {
    await sleep(pauseMs * (0.5 + Math.random()), undefined, { signal });
  } catch {
    throw abortedBy(signal, `init() of ${nameComer(place.own)}`);
  }
}

function inUse({ own, ports, source, advice }: MeetingPlace): HorovodError {
  return new HorovodError(
    'ERR_HVD_RENDEZVOUS',
    `${nameComer(own)} cannot listen for the other ranks (${source}): port ${ports.join(', ')} of this machine is in ` +
      `use, by another job or another program. ${advice}`,
  );
}

function withAdvice(error: HorovodError, { source, advice }: MeetingPlace): HorovodError {
  return new HorovodError(error.code, `${error.detail} The address is from ${source}. ${advice}`, {
    cause: error,
  });
}
