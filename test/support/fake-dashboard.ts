// A server that looks to the dashboard's page like the real one, for tests of the page: it serves the built page under the same
// content security policy, and sends what a test tells it to.

import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { extname, join } from 'node:path';
import type { DashboardEvents, DashboardStart, LogLine } from '../../src/observe/dashboard/messages.ts';
import { repository } from './repository.ts';

/** Named one by one, so that a change of them affects the tests of the page. */
const parts = [
  'dist/observe/dashboard/page/index.html',
  'dist/observe/dashboard/page/style.css',
  'dist/observe/dashboard/page/tables.css',
  'dist/observe/dashboard/page/app.js',
];
const builtPage = join(repository, 'dist/observe/dashboard/page');

const policy =
  "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
const types: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript',
  '.css': 'text/css',
};

export interface Order {
  readonly path: string;
  readonly type: string | undefined;
  readonly body: unknown;
}

export class FakeDashboard implements AsyncDisposable {
  readonly #server: Server;
  readonly #streams = new Set<ServerResponse>();
  #whenConnected: (() => void)[] = [];
  /** What a new connection begins with. */
  start: DashboardStart;
  /** All lines that GET logs finds, beyond those of `start`. */
  olderLogs: readonly LogLine[] = [];
  /** A stream gets this status instead of events. */
  refusesWith: number | undefined;
  readonly orders: Order[] = [];
  readonly logRequests: string[] = [];

  private constructor(start: DashboardStart) {
    this.start = start;
    this.#server = createServer((request, response) => {
      this.#answer(request, response).catch((error: unknown) => response.writeHead(500).end(String(error)));
    });
  }

  static async open(start: DashboardStart): Promise<FakeDashboard> {
    for (const part of parts)
      assert.ok(existsSync(join(repository, part)), `${part} is missing: npm run build`);
    const fake = new FakeDashboard(start);
    await new Promise<void>((resolve) => fake.#server.listen(0, '127.0.0.1', resolve));
    return fake;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/`;
  }

  /** To all pages. */
  send<K extends keyof DashboardEvents>(name: K, event: DashboardEvents[K]): void {
    for (const stream of this.#streams) write(stream, name, event);
  }

  /** Ends all streams. Pages connect again. */
  drop(): void {
    for (const stream of this.#streams) stream.destroy();
    this.#streams.clear();
  }

  /** Resolves when a page connects, after this call. */
  connected(): Promise<void> {
    return new Promise((resolve) => {
      this.#whenConnected.push(resolve);
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.drop();
    await new Promise((resolve) => {
      this.#server.close(resolve);
      this.#server.closeAllConnections();
    });
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { pathname, searchParams } = new URL(request.url ?? '/', this.url);
    if (request.method === 'POST') {
      let body = '';
      for await (const part of request.setEncoding('utf8')) body += part;
      this.orders.push({
        path: pathname,
        type: request.headers['content-type'],
        body: JSON.parse(body) as unknown,
      });
      response.writeHead(200, { 'content-type': 'application/json' }).end('{}');
    } else if (pathname === '/events') this.#stream(response);
    else if (pathname === '/logs') {
      this.logRequests.push(searchParams.toString());
      response
        .writeHead(200, { 'content-type': 'application/json' })
        .end(JSON.stringify(this.#page(searchParams)));
    } else serveFile(pathname, response);
  }

  #stream(response: ServerResponse): void {
    if (this.refusesWith !== undefined) {
      response.writeHead(this.refusesWith).end();
      return;
    }
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    this.#streams.add(response);
    response.on('close', () => this.#streams.delete(response));
    // Sooner than a browser does so by itself.
    response.write('retry: 50\n\n');
    write(response, 'start', this.start);
    const waiting = this.#whenConnected;
    this.#whenConnected = [];
    for (const resolve of waiting) resolve();
  }

  #page(query: URLSearchParams): { lines: LogLine[]; hasMore: boolean } {
    const before = Number(query.get('before') ?? Number.POSITIVE_INFINITY);
    const rank = query.get('rank');
    const search = (query.get('search') ?? '').toLowerCase();
    const found = [...this.olderLogs, ...this.start.logs].filter(
      (line) =>
        line.id < before &&
        (rank === null || line.rank === Number(rank)) &&
        line.text.toLowerCase().includes(search),
    );
    const lines = found.slice(-Number(query.get('limit')));
    return { lines, hasMore: lines.length < found.length };
  }
}

function serveFile(pathname: string, response: ServerResponse): void {
  const path = pathname === '/' ? '/index.html' : pathname;
  try {
    const content = readFileSync(join(builtPage, path));
    response.writeHead(200, {
      'content-type': types[extname(path)] ?? 'application/octet-stream',
      'content-security-policy': policy,
    });
    response.end(content);
  } catch {
    response.writeHead(404).end();
  }
}

function write<K extends keyof DashboardEvents>(
  stream: ServerResponse,
  name: K,
  event: DashboardEvents[K],
): void {
  stream.write(`event: ${name}\ndata: ${JSON.stringify(event)}\n\n`);
}
