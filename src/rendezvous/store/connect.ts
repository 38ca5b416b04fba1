// How a client of a store gets its connection, and what the error says if it gets none.

import { HorovodError } from '../../errors.ts';
import type { Connection } from '../../net/connection.ts';
import { Dial, type Sight } from '../../net/dial.ts';
import type { Identity } from '../../net/handshake.ts';
import { inSeconds, waitFor } from '../../net/wait.ts';

export interface ConnectOptions {
  readonly identity: Identity;
  readonly rank: number;
  readonly channel: string;
  readonly addresses: readonly string[];
  readonly timeoutMs: number;
  readonly signal: AbortSignal | undefined;
  /** What the server is called in error texts: 'the launcher'. */
  readonly server: string;
  /** What this process is called in error texts: 'rank 3'. */
  readonly client: string;
  /** Whether the server may be started after us: then nobody there, or somebody else there, is tried again. */
  readonly mayComeLater: boolean;
  /** What to do about it, in error texts, where the server is that of another kind of service. */
  readonly advice?: string | undefined;
}

/**
 * When something definite was seen at one address, silent ones get this long. So does a server that has a connection of
 * this rank: it may not have noticed yet that it has ended.
 */
const graceMs = 5000;

/** ERR_HVD_RENDEZVOUS and ERR_HVD_TIMEOUT say for each address what was seen; the secret shows in neither. */
export async function connectToStore(options: ConnectOptions): Promise<Connection> {
  const { identity, rank, channel, addresses, server, client, mayComeLater } = options;
  let dial: Dial | undefined;
  let grace: NodeJS.Timeout | undefined;
  const start = (resolve: (connection: Connection) => void, reject: (error: HorovodError) => void) => {
    let isGraceOver = false;
    const judge = () => {
      const sights = dial?.sights ?? [];
      const isHopeless = isGraceOver
        ? sights.some((sight) => isDefinite(sight) || sight?.kind === 'taken')
        : sights.every(isDefinite);
      if (!mayComeLater && isHopeless) reject(unreachable(options, dial as Dial));
    };
    const claim = { purpose: 'store', from: rank, to: 0, channel } as const;
    dial = new Dial({ identity, claim, addresses, onConnection: resolve, onSight: judge });
    grace = setTimeout(() => {
      isGraceOver = true;
      judge();
    }, graceMs);
  };
  try {
    const what = `for the connection of ${client} to ${server}`;
    return await waitFor(start, what, options, () => timedOut(options, dial as Dial));
  } finally {
    clearTimeout(grace);
    dial?.cancel();
  }
}

function isDefinite(sight: Sight | undefined): boolean {
  if (sight?.kind === 'error') return sight.error.code === 'ECONNREFUSED' || sight.error.code === 'ENOTFOUND';
  return sight !== undefined && !['silent', 'closed', 'taken'].includes(sight.kind);
}

function unreachable({ client, server, advice: given }: ConnectOptions, dial: Dial): HorovodError {
  const error = dial.sights.find((sight) => sight?.kind === 'error');
  const isRejected = dial.sights.some((sight) => sight?.kind === 'rejected' || sight?.kind === 'other');
  const isTaken = dial.sights.some((sight) => sight?.kind === 'taken');
  const advice = given ?? adviceFor({ isTaken, isRejected });
  return new HorovodError(
    'ERR_HVD_RENDEZVOUS',
    `${client} cannot connect to ${server}: ${dial.describe()}.${advice === '' ? '' : ` ${advice}`}`,
    { cause: error?.kind === 'error' ? error.error : undefined },
  );
}

function adviceFor(seen: { readonly isTaken: boolean; readonly isRejected: boolean }): string {
  if (seen.isTaken) return 'Do two processes of this job have the same HOROVOD_RANK?';
  return seen.isRejected
    ? 'Are _HOROVOD_SECRET_KEY, HOROVOD_JOB_ID and HOROVOD_RANK those of an earlier job, or changed by a wrapper script?'
    : '';
}

function timedOut(options: ConnectOptions, dial: Dial): HorovodError {
  const { client, server, timeoutMs, mayComeLater, advice: given } = options;
  const own = mayComeLater
    ? 'Has it been started, and can this machine reach that one (firewall)?'
    : 'Is horovodrun still running, and not stopped?';
  const advice = given ?? `${own} To wait longer, use --start-timeout or HOROVOD_START_TIMEOUT.`;
  return new HorovodError(
    'ERR_HVD_TIMEOUT',
    `${client} could not connect to ${server} within ${inSeconds(timeoutMs)}: ${dial.describe()}. ${advice}`,
  );
}
