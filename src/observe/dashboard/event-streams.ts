// The streams of server-sent events, one for each browser that has the page open. Each begins with all that is known. A browser that
// reads too slowly, such as one that sleeps, is cut off: when it reads again, it connects anew and gets all that is known then.

import type { ServerResponse } from 'node:http';
import type { Dashboard } from './dashboard.ts';

const maxBrowsers = 16;
/** More than that waits for a browser: it does not read. */
const maxWaitingBytes = 2 ** 20;
/** A comment keeps proxies from closing a stream on which nothing happens. */
const aliveMs = 15_000;
/** A browser that has lost the stream connects again after this time. */
const retryMs = 1000;

export class EventStreams {
  readonly #dashboard: Dashboard;
  readonly #open = new Set<Stream>();

  constructor(dashboard: Dashboard) {
    this.#dashboard = dashboard;
  }

  get count(): number {
    return this.#open.size;
  }

  open(response: ServerResponse): void {
    if (this.#open.size >= maxBrowsers) {
      response.writeHead(503, { 'content-type': 'text/plain; charset=utf-8', 'retry-after': '10' });
      response.end(`${maxBrowsers} browsers have this page open, and more are not served.\n`);
      return;
    }
    const stream = new Stream(response, this.#dashboard, () => this.#open.delete(stream));
    this.#open.add(stream);
  }

  /** Resolves when all browsers have read everything, or after a while. */
  async end(patienceMs: number): Promise<void> {
    const streams = [...this.#open];
    await Promise.all(streams.map((stream) => stream.end(patienceMs)));
  }
}

class Stream {
  readonly #response: ServerResponse;
  readonly #forget: () => void;
  readonly #alive: NodeJS.Timeout;
  /** Of the first event, which is as long as it is. */
  #startBytes: number;

  constructor(response: ServerResponse, dashboard: Dashboard, onClosed: () => void) {
    this.#response = response;
    response.writeHead(200, {
      'content-type': 'text/event-stream; charset=utf-8',
      'x-accel-buffering': 'no',
    });
    const start = dashboard.start();
    const text = `retry: ${retryMs}\n${eventText('start', start.text, start.id)}`;
    this.#startBytes = Buffer.byteLength(text);
    response.once('drain', () => {
      this.#startBytes = 0;
    });
    response.write(text);
    this.#forget = dashboard.listen((event, json, id) => this.#send(eventText(event, json, id)));
    this.#alive = setInterval(() => this.#send(': still here\n\n'), aliveMs).unref();
    response.once('close', () => {
      this.#stop();
      onClosed();
    });
  }

  async end(patienceMs: number): Promise<void> {
    this.#stop();
    const closed = new Promise<void>((resolve) => this.#response.once('close', () => resolve()));
    this.#response.end();
    const timer = setTimeout(() => this.#response.destroy(), patienceMs);
    await closed;
    clearTimeout(timer);
  }

  #stop(): void {
    this.#forget();
    clearInterval(this.#alive);
  }

  #send(text: string): void {
    const response = this.#response;
    if (response.writableLength > this.#startBytes + maxWaitingBytes) {
      this.#stop();
      response.destroy();
      return;
    }
    response.write(text);
  }
}

function eventText(event: string, json: string, id: number): string {
  // JSON has no line breaks, so that it is one line of data.
  return `event: ${event}\nid: ${id}\ndata: ${json}\n\n`;
}
