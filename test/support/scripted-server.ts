// A web server in this process that does what a test tells it to, for clients that must survive it.

import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface ReceivedRequest {
  readonly method: string;
  readonly url: URL;
  readonly headers: IncomingMessage['headers'];
  readonly body: Buffer;
}

export interface ScriptedServer extends AsyncDisposable {
  readonly origin: string;
  readonly host: string;
  readonly port: number;
  readonly received: ReceivedRequest[];
}

export type Script = (request: ReceivedRequest, response: ServerResponse) => void | Promise<void>;

/** Calls the script with each request, after its body has come. */
export async function startScriptedServer(script: Script, host = '127.0.0.1'): Promise<ScriptedServer> {
  const received: ReceivedRequest[] = [];
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('error', () => undefined);
    response.on('error', () => undefined);
    request.on('end', () => {
      const url = new URL(request.url ?? '/', `http://${request.headers.host}`);
      const method = request.method ?? '';
      const each = { method, url, headers: request.headers, body: Buffer.concat(chunks) };
      received.push(each);
      Promise.resolve(script(each, response)).catch((error: Error) => {
        response.statusCode = 599;
        response.end(error.stack);
      });
    });
  });
  await new Promise<void>((resolve) => server.listen(0, host, resolve));
  const { port } = server.address() as AddressInfo;
  return {
    origin: `http://${host}:${port}`,
    host: `${host}:${port}`,
    port,
    received,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise<void>((resolve) => server.close(() => resolve()));
    },
  };
}

/** A port at which nobody listens. */
export async function freePort(): Promise<number> {
  const server = await startScriptedServer(() => undefined);
  await server[Symbol.asyncDispose]();
  return server.port;
}
