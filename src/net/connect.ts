// How a client of a store gets its connection: it tries every address the store may have, a little one after the
// other, and takes the first that proves to know the job's secret. Another machine's listener, a decoy or this
// machine's own port is no harm: it cannot prove itself, and is remembered for the error text only.

import { setMaxListeners } from 'node:events';
import { createConnection, type Socket } from 'node:net';
import { HorovodError } from '../errors.ts';
import { type Address, formatAddress } from './addresses.ts';
import { createAnswer, helloBytes, type Identity, readVerdict, verdictBytes } from './handshake.ts';
import { inSeconds } from './wait.ts';

export interface ConnectOptions extends Identity {
  readonly rank: number;
  readonly addresses: readonly Address[];
  readonly timeoutMs: number;
  readonly signal: AbortSignal | undefined;
  /** What the server is called in error texts: 'the launcher'. */
  readonly server: string;
  /** What this process is called in error texts: 'rank 3'. */
  readonly client: string;
  /** Whether the server may be started after us: then nobody there, or somebody else there, is tried again. */
  readonly mayComeLater: boolean;
}

export interface Connection {
  readonly socket: Socket;
  readonly address: string;
}

type Sight =
  | { readonly kind: 'silent' | 'closed' | 'stranger' | 'refused' | 'impostor' }
  | { readonly kind: 'error'; readonly error: NodeJS.ErrnoException };

/** What one address has shown so far. */
interface Candidate {
  readonly address: Address;
  /** The last that was seen there; undefined: nothing yet. */
  sight: Sight | undefined;
}

const staggerMs = 25;
const longestStaggerMs = 5000;
const firstPauseMs = 5;
/** The first few addresses are tried this often; each that follows less often, so that many ranks make no flood. */
const longestPauseMs = 200;
const eagerAddresses = 4;
/** A connection that is not made, or not answered, by then is made anew. */
const attemptMs = 10_000;
/** When something definite was seen at one address, silent ones get this long. */
const graceMs = 5000;

/** ERR_HVD_RENDEZVOUS or ERR_HVD_TIMEOUT say for each address what was seen; the secret shows in none. */
export async function connectToStore(options: ConnectOptions): Promise<Connection> {
  const { signal, timeoutMs } = options;
  const candidates = options.addresses.map((address): Candidate => ({ address, sight: undefined }));
  const over = new AbortController();
  setMaxListeners(0, over.signal); // one for each address
  const timers: NodeJS.Timeout[] = [];
  let onAbort: (() => void) | undefined;
  let hasWon = false;
  try {
    return await new Promise<Connection>((resolve, reject) => {
      onAbort = () => reject(aborted(options));
      if (signal?.aborted) {
        onAbort();
        return;
      }
      signal?.addEventListener('abort', onAbort, { once: true });
      timers.push(setTimeout(() => reject(tooLate(options, candidates)), timeoutMs));
      const startedAt = performance.now();
      const judge = () => {
        if (options.mayComeLater || !candidates.some(isDefinite)) return;
        const isPatient = performance.now() - startedAt < graceMs;
        if (candidates.some((one) => !isDefinite(one)) && isPatient) return;
        reject(hopeless(options, candidates));
      };
      timers.push(setTimeout(judge, graceMs));
      for (const [place, candidate] of candidates.entries()) {
        void pursue(candidate, place, options, over.signal, judge).then((socket) => {
          if (socket === undefined) return;
          if (hasWon || over.signal.aborted) {
            socket.destroy();
            return;
          }
          hasWon = true;
          resolve({ socket, address: formatAddress(candidate.address) });
        });
      }
    });
  } finally {
    over.abort();
    for (const timer of timers) clearTimeout(timer);
    if (onAbort !== undefined) signal?.removeEventListener('abort', onAbort);
  }
}

/** Tries one address until it is welcome there or all is over. */
async function pursue(
  candidate: Candidate,
  place: number,
  options: ConnectOptions,
  over: AbortSignal,
  onSight: () => void,
): Promise<Socket | undefined> {
  await pause(Math.min(place * staggerMs, longestStaggerMs), over);
  const longest = longestPauseMs * Math.max(1, place / eagerAddresses);
  for (let pauseMs = firstPauseMs; !over.aborted; pauseMs = Math.min(2 * pauseMs, longest)) {
    const outcome = await attempt(candidate.address, options, over);
    if (!('kind' in outcome)) return outcome;
    if (over.aborted) return undefined;
    if (candidate.sight === undefined || says(outcome) >= says(candidate.sight)) candidate.sight = outcome;
    onSight();
    await pause(pauseMs * (0.5 + Math.random()), over);
  }
  return undefined;
}

/** Ends early, without error, when all is over. */
function pause(ms: number, over: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (over.aborted || ms <= 0) {
      resolve();
      return;
    }
    const end = () => {
      clearTimeout(timer);
      over.removeEventListener('abort', end);
      resolve();
    };
    const timer = setTimeout(end, ms);
    over.addEventListener('abort', end, { once: true });
  });
}

/** One connection and its challenge. */
function attempt(address: Address, options: ConnectOptions, over: AbortSignal): Promise<Socket | Sight> {
  const socket = createConnection({ ...address });
  socket.setNoDelay(true);
  return new Promise<Socket | Sight>((resolve) => {
    const settle = (outcome: Socket | Sight) => {
      clearTimeout(timer);
      over.removeEventListener('abort', onOver);
      socket.removeAllListeners();
      // Whoever gets the socket adds his own; one that is being destroyed may still emit.
      socket.on('error', () => undefined);
      if ('kind' in outcome) socket.destroy();
      resolve(outcome);
    };
    const onOver = () => settle({ kind: 'silent' });
    const timer = setTimeout(() => settle({ kind: 'silent' }), attemptMs);
    over.addEventListener('abort', onOver, { once: true });
    socket.once('close', () => settle({ kind: 'closed' }));
    socket.once('error', (error: NodeJS.ErrnoException) => {
      const isClosed = error.code === 'ECONNRESET' || error.code === 'EPIPE';
      settle(isClosed ? { kind: 'closed' } : { kind: 'error', error });
    });
    let received: Buffer = Buffer.alloc(0);
    let exchange: { hello: Buffer; answer: Buffer } | undefined;
    socket.on('data', (piece) => {
      received = Buffer.concat([received, piece]);
      if (exchange === undefined && received.length >= helloBytes) {
        const hello = received.subarray(0, helloBytes);
        received = received.subarray(helloBytes);
        const answer = createAnswer(options, options.rank, hello);
        if (answer === undefined) {
          settle({ kind: 'stranger' });
          return;
        }
        exchange = { hello, answer };
        socket.write(answer);
      }
      if (exchange === undefined || received.length < verdictBytes) return;
      const { hello, answer } = exchange;
      const verdict = readVerdict(options, hello, answer, received.subarray(0, verdictBytes));
      if (verdict !== 'welcome') settle({ kind: verdict });
      else settle(received.length === verdictBytes ? socket : { kind: 'impostor' });
    });
  });
}

/**
 * How much a sight tells. A refusal says more than that nobody is there any more, and a connection that was closed
 * (pushed out by a flood of strangers, or the server is about to end) less than anything seen before.
 */
function says({ kind }: Sight): number {
  return { closed: 0, silent: 1, error: 1, stranger: 2, impostor: 3, refused: 3 }[kind];
}

function isDefinite({ sight }: Candidate): boolean {
  if (sight?.kind === 'error') return sight.error.code === 'ECONNREFUSED' || sight.error.code === 'ENOTFOUND';
  return sight?.kind === 'stranger' || sight?.kind === 'refused' || sight?.kind === 'impostor';
}

function hopeless(options: ConnectOptions, candidates: readonly Candidate[]): HorovodError {
  const [only, ...others] = candidates;
  const cause = candidates.find(({ sight }) => sight?.kind === 'error')?.sight;
  const details = cause?.kind === 'error' ? { cause: cause.error } : {};
  const text =
    only !== undefined && others.length === 0
      ? seen(only, options)
      : `${options.client} cannot reach ${options.server}. It was tried at ${listSights(candidates, options)}`;
  return new HorovodError('ERR_HVD_RENDEZVOUS', text, details);
}

function tooLate(options: ConnectOptions, candidates: readonly Candidate[]): HorovodError {
  const { client, server, timeoutMs, mayComeLater } = options;
  const hasSeen = candidates.some(({ sight }) => sight !== undefined && sight.kind !== 'silent');
  const where = candidates.map(({ address }) => formatAddress(address)).join(', ');
  const at = hasSeen && candidates.length > 1 ? '' : ` at ${where}`;
  const sights = hasSeen ? ` Seen: ${listSights(candidates, options)}` : '';
  const advice = mayComeLater
    ? 'Has it been started, and can this machine reach that one (firewall)?'
    : 'Is horovodrun still running, and not stopped?';
  return new HorovodError(
    'ERR_HVD_TIMEOUT',
    `${client} could not connect to ${server}${at} within ${inSeconds(timeoutMs)}.${sights} ${advice} ` +
      '(--start-timeout, HOROVOD_START_TIMEOUT allows for more time.)',
  );
}

function aborted({ client, server, signal, addresses }: ConnectOptions): HorovodError {
  const where = addresses.map(formatAddress).join(', ');
  const text = `connecting ${client} to ${server} at ${where} was ended by an AbortSignal.`;
  return new HorovodError('ERR_HVD_ABORTED', text, { cause: signal?.reason });
}

/** Addresses where the same was seen are told together. */
function listSights(candidates: readonly Candidate[], options: ConnectOptions): string {
  const places = new Map<string, string[]>();
  for (const one of candidates) {
    const sight = seenShortly(one, options);
    places.set(sight, [...(places.get(sight) ?? []), formatAddress(one.address)]);
  }
  return `${[...places].map(([sight, addresses]) => `${addresses.join(', ')} (${sight})`).join('; ')}.`;
}

function seenShortly({ sight }: Candidate, { server }: ConnectOptions): string {
  switch (sight?.kind) {
    case undefined:
    case 'silent':
      return 'no answer: wrong network or a firewall';
    case 'closed':
      return 'closed the connection';
    case 'error':
      return sight.error.code === 'ECONNREFUSED' ? 'connection refused: nobody listens' : sight.error.message;
    case 'stranger':
      return `something else than ${server} of Horovod listens`;
    case 'refused':
      return 'refused us: another job, or another secret';
    case 'impostor':
      return 'does not know the secret of this job';
  }
}

function seen(candidate: Candidate, { server, client }: ConnectOptions): string {
  const where = formatAddress(candidate.address);
  switch (candidate.sight?.kind) {
    case 'error':
      return `${client} cannot reach ${server} at ${where}: ${candidate.sight.error.message}.`;
    case 'stranger':
      return `what listens at ${where} is no launcher of Horovod.`;
    case 'refused':
      return (
        `${server} at ${where} refused ${client}: _HOROVOD_SECRET_KEY, HOROVOD_JOB_ID or HOROVOD_RANK is not of ` +
        'its job. Is the environment that of an earlier job, or was it changed by a wrapper script?'
      );
    case 'impostor':
      return `what listens at ${where} does not know the secret of this job; ${client} hung up.`;
    default:
      return `${client} cannot reach ${server} at ${where}.`;
  }
}
