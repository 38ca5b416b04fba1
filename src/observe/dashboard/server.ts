// The web server of a dashboard: its page, the stream of what is new, logs, and orders to the job. guard.ts decides who may ask.

import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { hostname, networkInterfaces } from 'node:os';
import { HorovodError } from '../../errors.ts';
import type { Dashboard } from './dashboard.ts';
import { EventStreams } from './event-streams.ts';
import { Guard, protectiveHeaders } from './guard.ts';
import { type LogQuery, launcherRank } from './log-ring.ts';
import type { LogPage } from './messages.ts';
import { type PageFile, readPageFile } from './page-files.ts';
import { savedPage } from './saved-page.ts';

export interface DashboardServerOptions {
  /** 0: any free one. */
  readonly port: number;
  /** An address of this machine. Default: loopback. */
  readonly bind?: string | undefined;
  /** More names by which browsers may call it: NAME or NAME:PORT. */
  readonly hosts?: readonly string[] | undefined;
  /** What asked for the port, for errors: '--dashboard'. */
  readonly flag: string;
  /** Files that other parts have made, such as a timeline: by their path below the page's. */
  readonly extraFile?: ((name: string) => Promise<ExtraFile | undefined>) | undefined;
}

export interface ExtraFile extends PageFile {
  /** A page of its own, with scripts in it: it gets no rights here. */
  readonly isSandboxed?: true | undefined;
  /** Saved under this name instead of being shown. */
  readonly download?: string | undefined;
}

const loopback = '127.0.0.1';
const maxBodyBytes = 1024;
/** How long a body may take. */
const bodyMs = 5000;
const defaultLines = 500;
const maxLines = 5000;
/** For browsers to read the last message. */
const closeMs = 1000;
const maxRecordedSteps = 10_000;

export class DashboardServer {
  readonly #server: Server;
  readonly #dashboard: Dashboard;
  readonly #options: DashboardServerOptions;
  readonly #streams: EventStreams;
  readonly #guard: Guard;
  readonly #port: number;

  private constructor(server: Server, dashboard: Dashboard, options: DashboardServerOptions) {
    const { port } = server.address() as AddressInfo;
    this.#server = server;
    this.#port = port;
    this.#dashboard = dashboard;
    this.#options = options;
    this.#streams = new EventStreams(dashboard);
    this.#guard = new Guard({ port, hosts: [...boundNames(options.bind, port), ...(options.hosts ?? [])] });
    server.on('request', (request: IncomingMessage, response: ServerResponse) => {
      this.#answer(request, response).catch((error: unknown) => {
        if (!response.headersSent) reply(response, 500, `${String(error)}\n`);
        else response.destroy();
      });
    });
  }

  /** Throws ERR_HVD_SETTING if it cannot listen there. */
  static async listen(dashboard: Dashboard, options: DashboardServerOptions): Promise<DashboardServer> {
    const { port, bind = loopback, flag } = options;
    const server = createServer({ requestTimeout: bodyMs, headersTimeout: bodyMs, maxHeaderSize: 16_384 });
    server.maxConnections = 64;
    await new Promise<void>((resolve, reject) => {
      server.once('error', (error: NodeJS.ErrnoException) =>
        reject(listenError(error, { port, bind, flag })),
      );
      server.listen({ port, host: bind }, resolve);
    });
    // Nothing waits for browsers.
    server.unref();
    return new DashboardServer(server, dashboard, options);
  }

  get port(): number {
    return this.#port;
  }

  /** With the token. */
  get url(): string {
    const { bind = loopback } = this.#options;
    return `http://${shownHost(bind)}:${this.#port}/?token=${this.#guard.token}`;
  }

  /** Browsers that have the page open. */
  get browsers(): number {
    return this.#streams.count;
  }

  /** Waits a moment until browsers have read the last event; then the port is free. */
  async close(): Promise<void> {
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    await this.#streams.end(closeMs);
    this.#server.closeAllConnections();
    await closed;
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    for (const [name, value] of Object.entries(protectiveHeaders)) response.setHeader(name, value);
    const { method = 'GET', url = '/', headers } = request;
    const verdict = this.#guard.judge({ method, url, headers });
    if (verdict.kind === 'rejected') {
      if (verdict.status === 405) response.setHeader('allow', 'GET, HEAD, POST');
      return reply(response, verdict.status, verdict.text);
    }
    if (verdict.kind === 'enter') {
      response.setHeader('set-cookie', verdict.cookie);
      // Strict cookies are not sent along a way that began on another site, so that a page of ours takes the last step.
      if (verdict.isFromElsewhere) return reply(response, 200, entrance, 'text/html; charset=utf-8');
      response.setHeader('location', './');
      return reply(response, 303, '');
    }
    const { pathname, searchParams } = new URL(url, 'http://dashboard');
    const name = pathname.slice(1);
    if (method === 'POST') return this.#order(name, request, response);
    // It would never end, and have no body.
    if (method === 'HEAD' && name === 'events') return reply(response, 200, '', 'text/event-stream');
    await this.#show(name, searchParams, response);
  }

  async #show(name: string, query: URLSearchParams, response: ServerResponse): Promise<void> {
    if (name === 'events') return this.#streams.open(response);
    if (name === 'favicon.ico') return reply(response, 204, '');
    if (name === 'logs') {
      const wanted = logQuery(query);
      if (typeof wanted === 'string') return reply(response, 400, wanted);
      const { limit } = wanted;
      const lines = await this.#dashboard.logs.find({ ...wanted, limit: limit + 1 });
      const page: LogPage = { lines: lines.slice(-limit), hasMore: lines.length > limit };
      return reply(response, 200, JSON.stringify(page), 'application/json');
    }
    const file = /^logs\/(launcher|\d{1,6})\.txt$/.exec(name)?.[1];
    if (file !== undefined) {
      const lines = this.#dashboard.logs.linesOf(file === 'launcher' ? launcherRank : Number(file));
      response.setHeader('content-disposition', `attachment; filename="rank-${file}.txt"`);
      return reply(response, 200, lines.map(({ text }) => `${text}\n`).join(''));
    }
    if (name === 'run.html') {
      response.setHeader('content-disposition', 'attachment; filename="run.html"');
      return reply(response, 200, savedPage(this.#dashboard.state()), 'text/html; charset=utf-8');
    }
    const page: ExtraFile | undefined =
      readPageFile(name === '' ? 'index.html' : name) ?? (await this.#options.extraFile?.(name));
    if (page === undefined) return reply(response, 404, 'There is no such page.\n');
    if (page.isSandboxed === true) response.setHeader('content-security-policy', sandbox);
    if (page.download !== undefined)
      response.setHeader('content-disposition', `attachment; filename="${page.download}"`);
    reply(response, 200, page.bytes, page.type);
  }

  async #order(name: string, request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { control } = this.#dashboard;
    if (name !== 'stop' && name !== 'record') return reply(response, 404, 'There is no such order.\n');
    if (control === undefined)
      return reply(response, 403, 'This dashboard can only watch. Start it with --dashboard-control.\n');
    if (this.#dashboard.end !== undefined) return reply(response, 409, 'The job has ended.\n');
    const body = await readBody(request);
    if (body === undefined) return reply(response, 400, 'Expected a small JSON object.\n');
    if (name === 'stop') {
      control.stop();
      return reply(response, 202, '{}', 'application/json');
    }
    const { steps } = body as { steps?: unknown };
    const isCount = typeof steps === 'number' && Number.isSafeInteger(steps);
    if (!isCount || steps < 1 || steps > maxRecordedSteps)
      return reply(response, 400, `steps must be an integer from 1 to ${maxRecordedSteps}.\n`);
    if (control.record === undefined) return reply(response, 409, 'This job cannot be recorded.\n');
    try {
      await control.record(steps);
    } catch (error) {
      if (!HorovodError.is(error)) throw error;
      return reply(response, 409, `${error.detail}\n`);
    }
    reply(response, 202, '{}', 'application/json');
  }
}

/** Goes on to the page; the cookie is set then. */
const entrance = '<!doctype html><meta http-equiv="refresh" content="0; url=./"><title>Horovod</title>';

/** For pages with scripts of their own: they are cut off from this server and from all others. */
const sandbox =
  "sandbox allow-scripts allow-downloads; default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:";

function reply(
  response: ServerResponse,
  status: number,
  body: string | Buffer,
  type = 'text/plain; charset=utf-8',
): void {
  const bytes = typeof body === 'string' ? Buffer.from(body) : body;
  response.writeHead(status, { 'content-type': type, 'content-length': bytes.length });
  response.end(bytes);
}

/** A text says what is wrong with it. */
function logQuery(query: URLSearchParams): LogQuery | string {
  const numbers: Record<string, number | undefined> = {};
  for (const [name, min] of [
    ['rank', launcherRank],
    ['before', 1],
    ['limit', 1],
  ] as const) {
    const text = query.get(name);
    if (text === null || text === '') continue;
    const value = Number(text);
    if (!Number.isSafeInteger(value) || value < min) return `${name} must be an integer ≥ ${min}.\n`;
    numbers[name] = value;
  }
  const stream = query.get('stream') ?? undefined;
  if (stream !== undefined && stream !== 'stdout' && stream !== 'stderr')
    return 'stream must be stdout or stderr.\n';
  return {
    rank: numbers['rank'],
    before: numbers['before'],
    limit: Math.min(numbers['limit'] ?? defaultLines, maxLines),
    search: query.get('search') || undefined,
    stream,
  };
}

/** An object, or undefined. */
async function readBody(request: IncomingMessage): Promise<object | undefined> {
  const pieces: Buffer[] = [];
  let length = 0;
  for await (const piece of request as AsyncIterable<Buffer>) {
    length += piece.length;
    if (length > maxBodyBytes) return undefined;
    pieces.push(piece);
  }
  try {
    const value: unknown = JSON.parse(Buffer.concat(pieces).toString('utf8'));
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

/** By which browsers call a server that listens on `bind`. */
function boundNames(bind: string | undefined, port: number): string[] {
  if (bind === undefined || bind === loopback) return [];
  const isAny = bind === '0.0.0.0' || bind === '::';
  const addresses = isAny
    ? Object.values(networkInterfaces()).flatMap((list) => (list ?? []).map(({ address }) => address))
    : [bind];
  return [...addresses.map((address) => bracketed(address)), ...(isAny ? [hostname()] : [])].map(
    (name) => `${name}:${port}`,
  );
}

function shownHost(bind: string): string {
  return bind === '0.0.0.0' || bind === '::' ? hostname() : bracketed(bind);
}

function bracketed(address: string): string {
  return address.includes(':') ? `[${address}]` : address;
}

function listenError(
  error: NodeJS.ErrnoException,
  { port, bind, flag }: { readonly port: number; readonly bind: string; readonly flag: string },
): HorovodError {
  const place = `${bracketed(bind)}:${port}`;
  const why =
    error.code === 'EADDRINUSE'
      ? `port ${port} is in use. Leave the port out of ${flag}, and a free one is taken, or name another one`
      : error.code === 'EACCES'
        ? `this user may not use port ${port}. Name one above 1023`
        : error.code === 'EADDRNOTAVAIL' || error.code === 'ENOTFOUND'
          ? `this machine has no address ${bind}`
          : error.message;
  return new HorovodError('ERR_HVD_SETTING', `${flag}: the dashboard cannot listen on ${place}: ${why}.`, {
    cause: error,
  });
}
