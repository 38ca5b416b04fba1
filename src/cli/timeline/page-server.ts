// Serves the page of a timeline on this machine. The path begins with random letters, so that neither other users nor other pages in
// the browser find it. The page keeps a connection open, by which we know whether anybody looks: if nobody does for a while, it is over.

import { randomBytes } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { extname, join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { settingError } from '../../settings/setting.ts';

export interface PageServerOptions {
  /** 0: any free one. */
  readonly port: number;
  /** What the path of the URL shows. */
  readonly page: string;
  /** The timeline, for viewers that read it themselves: `trace.json`. */
  readonly file: string;
  /** A folder that is served as `viewer/`. */
  readonly viewerFolder?: string | undefined;
  /** How long nobody may look before the first page is opened, and after the last one was closed. */
  readonly unopenedMs?: number | undefined;
  readonly closedMs?: number | undefined;
}

const loopback = '127.0.0.1';
const defaultUnopenedMs = 10 * 60_000;
const defaultClosedMs = 60_000;

/** Part of a page: while it is open, its server stays. */
export const aliveScript = `new EventSource('alive');`;

const types: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.json': 'application/json',
  '.wasm': 'application/wasm',
  '.woff2': 'font/woff2',
  '.png': 'image/png',
  '.ico': 'image/x-icon',
  '.txt': 'text/plain; charset=utf-8',
};

export class PageServer {
  readonly url: string;
  /** Resolves when nobody has looked for so long. */
  readonly unwatched: Promise<void>;
  readonly #options: PageServerOptions;
  readonly #server: Server;
  readonly #token = randomBytes(16).toString('base64url');
  readonly #hosts: ReadonlySet<string>;
  readonly #watching = new Set<ServerResponse>();
  #resolve = () => {};
  #timer: NodeJS.Timeout;

  private constructor(server: Server, options: PageServerOptions) {
    const { port } = server.address() as AddressInfo;
    this.#server = server;
    this.#options = options;
    this.#hosts = new Set([loopback, 'localhost', '[::1]'].map((name) => `${name}:${port}`));
    this.url = `http://${loopback}:${port}/${this.#token}/`;
    this.unwatched = new Promise((resolve) => {
      this.#resolve = resolve;
    });
    this.#timer = setTimeout(this.#resolve, options.unopenedMs ?? defaultUnopenedMs);
    server.on('request', (request: IncomingMessage, response: ServerResponse) => {
      this.#answer(request, response).catch(() => response.destroy());
    });
  }

  static async listen(options: PageServerOptions): Promise<PageServer> {
    const server = createServer({ requestTimeout: 5000, headersTimeout: 5000 });
    server.maxConnections = 64;
    const { port } = options;
    await new Promise<void>((resolve, reject) => {
      server.once('error', (error: NodeJS.ErrnoException) => {
        const reason =
          error.code === 'EADDRINUSE'
            ? 'it is in use'
            : error.code === 'EACCES'
              ? 'no permission'
              : error.message;
        reject(
          settingError(
            `--port: cannot listen on port ${port} of ${loopback}: ${reason}. Leave it out, and a free one is taken.`,
          ),
        );
      });
      server.listen(port, loopback, resolve);
    });
    return new PageServer(server, options);
  }

  async close(): Promise<void> {
    clearTimeout(this.#timer);
    const closed = new Promise((resolve) => this.#server.close(resolve));
    this.#server.closeAllConnections();
    await closed;
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { method, headers, url = '' } = request;
    // A name that somebody else has made to point to this machine is not ours.
    if (!this.#hosts.has((headers.host ?? '').toLowerCase()))
      return reply(response, 421, 'Use the URL that was printed.');
    if (method !== 'GET' && method !== 'HEAD')
      return reply(response, 405, 'There is only something to read here.');
    // Browsers ask for it by themselves.
    if (url === '/favicon.ico') return void response.writeHead(204).end();
    const { pathname } = new URL(url, 'http://page');
    const root = `/${this.#token}/`;
    if (!pathname.startsWith(root)) return reply(response, 404, 'Use the URL that was printed.');
    const name = pathname.slice(root.length);
    if (name === '') return reply(response, 200, this.#options.page, '.html');
    if (name === 'alive') return this.#watch(response);
    if (name === 'trace.json') return sendFile(response, this.#options.file, method);
    const inViewer = /^viewer\/([\w][\w.-]*)$/.exec(name)?.[1];
    const { viewerFolder } = this.#options;
    if (inViewer === undefined || viewerFolder === undefined)
      return reply(response, 404, 'There is no such page.');
    return sendFile(response, join(viewerFolder, inViewer), method);
  }

  #watch(response: ServerResponse): void {
    clearTimeout(this.#timer);
    this.#watching.add(response);
    response.writeHead(200, { ...headersOf('.txt'), 'content-type': 'text/event-stream' });
    // After the end of this program, a page need not ask again soon.
    response.write('retry: 3600000\n\n');
    response.on('close', () => {
      this.#watching.delete(response);
      if (this.#watching.size > 0) return;
      clearTimeout(this.#timer);
      this.#timer = setTimeout(this.#resolve, this.#options.closedMs ?? defaultClosedMs);
    });
  }
}

async function sendFile(response: ServerResponse, path: string, method: string): Promise<void> {
  const found = await stat(path).catch(() => undefined);
  if (found === undefined || !found.isFile()) return reply(response, 404, 'There is no such file.');
  response.writeHead(200, { ...headersOf(extname(path)), 'content-length': found.size });
  if (method === 'HEAD') return void response.end();
  // A file that grows is sent as far as it was said to reach.
  const end = Math.max(0, found.size - 1);
  if (found.size === 0) response.end();
  else await pipeline(createReadStream(path, { end }), response);
}

function headersOf(extension: string): Record<string, string> {
  return {
    'content-type': types[extension] ?? 'application/octet-stream',
    'x-content-type-options': 'nosniff',
    'x-frame-options': 'SAMEORIGIN',
    'referrer-policy': 'no-referrer',
    'cross-origin-resource-policy': 'same-origin',
    'cache-control': 'no-store',
  };
}

function reply(response: ServerResponse, status: number, text: string, extension = '.txt'): void {
  response.writeHead(status, headersOf(extension)).end(text);
}
