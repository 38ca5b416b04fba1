// Requests of WebHDFS: one operation at the namenodes of a cluster, and one transfer at a datanode. Standby namenodes and lost
// connections lead to the next namenode; safe mode and retriable errors to another attempt, until the deadline. Errors are told
// apart by the name of the exception, not by status. No error holds a URL of a request: its query may have a token.

import { userInfo } from 'node:os';
import type { FileSettings } from '../../settings/table.ts';
import { type FileProblem, fileError } from '../file-system.ts';
import { HttpClient, type HttpResponse, RequestFailure } from '../http-client.ts';
import { retried, TryAgain } from '../retries.ts';
import { namenodesOf, readHadoopConfiguration } from './settings.ts';
import { findToken } from './tokens.ts';
import { formatHdfsLocation, type HdfsLocation, operationUrl, type Parameters } from './url.ts';

/** The namenodes of one authority, and who we are there. */
export interface Cluster {
  readonly namenodes: readonly URL[];
  /** Which of them is active, as far as we know. */
  active: number;
  token: string | undefined;
  readonly user: string;
}

export interface Operation {
  readonly method: 'GET' | 'PUT' | 'POST' | 'DELETE';
  readonly location: HdfsLocation;
  readonly parameters: Parameters & { readonly op: string };
  /** For errors: 'read', 'list', … */
  readonly verb: string;
  readonly signal?: AbortSignal | undefined;
  /** Exceptions that another attempt may not meet. */
  readonly retriable?: readonly string[] | undefined;
}

/** Servers with protection against forged requests of browsers ask for it; others ignore it. */
const headers = { 'X-XSRF-HEADER': 'horovod', Accept: '*/*' };

const problems: Readonly<Record<string, readonly [FileProblem | undefined, string]>> = {
  FileNotFoundException: ['missing', 'it does not exist'],
  FileAlreadyExistsException: ['exists', 'it exists already'],
  PathIsNotEmptyDirectoryException: ['exists', 'the folder is not empty'],
  ParentNotDirectoryException: ['not a folder', 'a part of the path is not a folder'],
  PathIsNotDirectoryException: ['not a folder', 'a part of the path is not a folder'],
};

export class WebHdfsRequests {
  readonly client: HttpClient = new HttpClient();
  readonly #settings: FileSettings;
  readonly #clusters = new Map<string, Promise<Cluster>>();

  constructor(settings: FileSettings) {
    this.#settings = settings;
  }

  get timeoutMs(): number {
    return this.#settings.fileTimeoutMs;
  }

  cluster(location: HdfsLocation): Promise<Cluster> {
    const key = `${location.scheme}://${location.authority}`;
    let cluster = this.#clusters.get(key);
    if (cluster === undefined) {
      cluster = this.#connect(location);
      this.#clusters.set(key, cluster);
      // A file of settings may be put right.
      cluster.catch(() => this.#clusters.delete(key));
    }
    return cluster;
  }

  /** The JSON of an operation without a transfer. */
  async json<T>(operation: Operation): Promise<T> {
    return this.attempted(operation, async (send) => {
      const response = await send();
      const text = await bodyOf(response, operation);
      return (text === '' ? {} : JSON.parse(text)) as T;
    });
  }

  /**
   * Runs `attempt` until it succeeds. Its `send` makes the operation's request at the active namenode and resolves to an answer
   * that is no error: 2xx, or the redirect to a datanode.
   */
  async attempted<T>(
    operation: Operation,
    attempt: (send: (more?: Parameters) => Promise<HttpResponse>, number: number) => Promise<T>,
    timeoutMs: number = this.timeoutMs,
  ): Promise<T> {
    const cluster = await this.cluster(operation.location);
    return retried((number) => attempt((more) => this.#send(cluster, operation, more), number), {
      timeoutMs,
      signal: operation.signal,
    });
  }

  /** Throws for an answer that is an error, of a namenode or a datanode. */
  async check(response: HttpResponse, operation: Operation, host: string): Promise<HttpResponse> {
    const { status } = response;
    if (status < 400) return response;
    const cluster = await this.cluster(operation.location);
    const text = await response.text().catch(() => '');
    const { exception, message } = remoteException(text);
    const { retriable = [] } = operation;
    const failed = (reason: string, problem?: FileProblem) =>
      fileError(`Cannot ${operation.verb} ${formatHdfsLocation(operation.location)}: ${reason}`, problem);
    const said = hide(message.split('\n')[0] ?? '', cluster.token);
    if (exception === 'StandbyException') {
      cluster.active = (cluster.active + 1) % cluster.namenodes.length;
      const names = cluster.namenodes.map((url) => url.host).join(', ');
      throw new TryAgain(
        () => failed(`no namenode is active (${names}).`, 'unreachable'),
        cluster.active !== 0 && cluster.namenodes.length > 1,
      );
    }
    if (exception === 'SafeModeException') {
      throw new TryAgain(() =>
        failed(
          `HDFS has been in safe mode for ${this.timeoutMs / 1000} s. It leaves it when enough datanodes have reported; ` +
            'see hdfs dfsadmin -safemode get. To wait longer, set HOROVOD_FILE_TIMEOUT.',
          'unreachable',
        ),
      );
    }
    if (status === 401 || exception === 'InvalidToken') {
      if (await this.#hasNewToken(cluster, operation.location)) {
        throw new TryAgain(() => failed('the delegation token is not valid.', 'forbidden'), true);
      }
      throw failed(authenticationText(cluster, host, said), 'forbidden');
    }
    if (
      exception === 'RetriableException' ||
      [502, 503, 504].includes(status) ||
      retriable.includes(exception)
    ) {
      throw new TryAgain(() =>
        failed(`${host} answers ${exception || `HTTP ${status}`}: ${said}`, 'unreachable'),
      );
    }
    const [problem, reason] = problems[exception] ?? [];
    if (reason !== undefined) throw failed(`${reason}.`, problem);
    if (exception === 'AccessControlException' || exception === 'SecurityException') {
      throw failed(
        `permission denied for ${cluster.token === undefined ? `user ${cluster.user}` : 'the token'} (${said}).`,
        'forbidden',
      );
    }
    throw failed(`${host} answers ${exception || `HTTP ${status}`}${said === '' ? '' : `: ${said}`}.`);
  }

  close(): void {
    this.client.close();
  }

  async #connect(location: HdfsLocation): Promise<Cluster> {
    const configuration = await readHadoopConfiguration(this.#settings.hadoopConfDir);
    return {
      namenodes: namenodesOf(location, this.#settings, configuration),
      active: 0,
      token: await findToken(this.#settings, location.authority),
      user: this.#settings.hadoopUser ?? userInfo().username,
    };
  }

  async #send(cluster: Cluster, operation: Operation, more: Parameters = {}): Promise<HttpResponse> {
    const namenode = cluster.namenodes[cluster.active] as URL;
    const who: Parameters =
      cluster.token === undefined ? { 'user.name': cluster.user } : { delegation: cluster.token };
    const { method, location, parameters, signal } = operation;
    const url = operationUrl(namenode, location.path, { ...parameters, ...more, ...who });
    // A PUT without a body says so.
    const length: Record<string, string> =
      method === 'GET' || method === 'DELETE' ? {} : { 'Content-Length': '0' };
    let response: HttpResponse;
    try {
      response = await this.client.send({
        method,
        url,
        headers: { ...headers, ...length },
        silenceMs: this.timeoutMs,
        signal,
      });
    } catch (error) {
      if (!(error instanceof RequestFailure)) throw error;
      cluster.active = (cluster.active + 1) % cluster.namenodes.length;
      throw new TryAgain(
        () => unreachableNamenode(operation, cluster, error),
        cluster.active !== 0 && cluster.namenodes.length > 1,
      );
    }
    return this.check(response, operation, namenode.host);
  }

  /** YARN writes a new file when it has renewed the tokens. */
  async #hasNewToken(cluster: Cluster, { authority }: HdfsLocation): Promise<boolean> {
    const token = await findToken(this.#settings, authority).catch(() => undefined);
    if (token === undefined || token === cluster.token) return false;
    cluster.token = token;
    return true;
  }
}

/** The datanode's URL of a redirect; undefined for an answer that is none. */
export async function redirectOf(response: HttpResponse): Promise<URL | undefined> {
  const { status, headers: received } = response;
  if (![301, 302, 303, 307, 308].includes(status)) return undefined;
  response.discard();
  const location = String(received.location ?? '');
  if (!URL.canParse(location)) throw fileError('A namenode redirects to no URL.');
  return new URL(location);
}

export function transferHeaders(): Record<string, string> {
  return { ...headers, 'Content-Type': 'application/octet-stream' };
}

/** A datanode that cannot be reached is the most common trouble with WebHDFS. */
export function unreachableDatanode(operation: Operation, failure: RequestFailure): Error {
  const advice = failure.isBeforeSending
    ? ' The namenode sends clients to the name and port that its datanodes have registered. Make the name known here (DNS, ' +
      '/etc/hosts), open the port, or set dfs.datanode.hostname or dfs.datanode.http.address of that datanode.'
    : '';
  return fileError(
    `Cannot ${operation.verb} ${formatHdfsLocation(operation.location)}: datanode ${failure.host} ${failure.message}.${advice}`,
    'unreachable',
    failure,
  );
}

function unreachableNamenode(operation: Operation, cluster: Cluster, failure: RequestFailure): Error {
  const others =
    cluster.namenodes.length > 1 ? ` (of ${cluster.namenodes.map(({ host }) => host).join(', ')})` : '';
  return fileError(
    `Cannot ${operation.verb} ${formatHdfsLocation(operation.location)}: namenode ${failure.host} ${failure.message}${others}. ` +
      'This is the address of WebHDFS (dfs.namenode.http-address), not that of the URL; to set it, use HOROVOD_WEBHDFS=host:port ' +
      'or HADOOP_CONF_DIR.',
    'unreachable',
    failure,
  );
}

function authenticationText(cluster: Cluster, host: string, said: string): string {
  const url = new URL(cluster.namenodes[cluster.active] as URL);
  const command = `curl --negotiate -u : '${url.origin}/webhdfs/v1/?op=GETDELEGATIONTOKEN'`;
  const reason =
    cluster.token === undefined
      ? `${host} asks for authentication by Kerberos.`
      : `${host} does not accept the delegation token: it has expired, was cancelled or is for another cluster${said === '' ? '' : ` (${said})`}.`;
  return `${reason} Run kinit, get a token with ${command}, and set HOROVOD_HDFS_TOKEN to its urlString.`;
}

async function bodyOf(response: HttpResponse, operation: Operation): Promise<string> {
  try {
    return await response.text(256 * 2 ** 20);
  } catch (error) {
    if (!(error instanceof RequestFailure)) throw error;
    throw new TryAgain(() =>
      fileError(
        `Cannot ${operation.verb} ${formatHdfsLocation(operation.location)}: namenode ${error.host} ${error.message}.`,
        'unreachable',
        error,
      ),
    );
  }
}

function remoteException(text: string): { readonly exception: string; readonly message: string } {
  try {
    const { RemoteException: found } = JSON.parse(text) as {
      RemoteException?: { exception?: string; message?: string };
    };
    return { exception: found?.exception ?? '', message: found?.message ?? '' };
  } catch {
    return { exception: '', message: '' };
  }
}

function hide(text: string, token: string | undefined): string {
  return token === undefined ? text : text.replaceAll(token, '(token)');
}
