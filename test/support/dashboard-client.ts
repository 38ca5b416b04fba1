// A browser for tests of the dashboard, without one: it goes in with the printed URL, keeps the cookie and reads the stream of events.

import assert from 'node:assert/strict';
import { type ClientRequest, type IncomingHttpHeaders, request } from 'node:http';
import type { DashboardEvents, DashboardStart, Sample } from '../../src/observe/dashboard/messages.ts';

const patienceMs = 60_000;

export interface Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

export interface Asking {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
}

/** One request, with exactly these headers. */
export function ask(url: string | URL, { method = 'GET', headers = {}, body }: Asking = {}): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const asked = request(url, { method, headers, agent: false }, (response) => {
      const pieces: Buffer[] = [];
      response.on('data', (piece: Buffer) => pieces.push(piece));
      response.on('error', reject);
      response.on('end', () =>
        resolve({
          status: response.statusCode ?? 0,
          headers: response.headers,
          body: Buffer.concat(pieces).toString('utf8'),
        }),
      );
    });
    asked.on('error', reject);
    asked.setTimeout(patienceMs, () => asked.destroy(new Error(`no answer from ${String(url)}`)));
    asked.end(body);
  });
}

type Received = {
  readonly [E in keyof DashboardEvents]: { readonly event: E; readonly data: DashboardEvents[E] };
}[keyof DashboardEvents];

/** The stream of events, as it has come so far. */
export class EventReader {
  readonly received: Received[] = [];
  isClosed = false;
  readonly #request: ClientRequest;
  #onChange = () => {};

  constructor(url: URL, cookie: string) {
    let text = '';
    this.#request = request(url, { headers: { cookie }, agent: false }, (response) => {
      assert.equal(response.statusCode, 200);
      assert.match(String(response.headers['content-type']), /^text\/event-stream/);
      response.setEncoding('utf8').on('data', (piece: string) => {
        const blocks = (text + piece).split('\n\n');
        text = blocks.pop() ?? '';
        for (const block of blocks) this.#take(block);
      });
      response.on('error', () => undefined);
      response.once('close', () => {
        this.isClosed = true;
        this.#onChange();
      });
    });
    this.#request.on('error', () => {
      this.isClosed = true;
      this.#onChange();
    });
    this.#request.end();
  }

  /** Resolves as soon as `find` finds something in what has come. */
  until<T>(what: string, find: (received: readonly Received[]) => T | undefined | false): Promise<T> {
    return new Promise((resolve, reject) => {
      const deadline = setTimeout(() => {
        const last = JSON.stringify(this.received.slice(-3), undefined, 1).slice(0, 4000);
        reject(new Error(`${what}: never came.\n${last}`));
      }, patienceMs);
      this.#onChange = () => {
        const found = find(this.received);
        if (found === undefined || found === false) return;
        clearTimeout(deadline);
        this.#onChange = () => {};
        resolve(found);
      };
      this.#onChange();
    });
  }

  untilClosed(): Promise<true> {
    return this.until('the end of the stream', () => this.isClosed);
  }

  start(): Promise<DashboardStart> {
    return this.until('the start', (all) => all.find(isOf('start'))?.data);
  }

  sample(what: string, isSo: (sample: Sample) => boolean): Promise<Sample> {
    return this.until(what, (all) =>
      all
        .flatMap((one) =>
          one.event === 'sample' ? [one.data] : one.event === 'start' ? one.data.samples : [],
        )
        .find(isSo),
    );
  }

  /** Reads no more, and keeps the connection open. */
  pause(): void {
    this.#request.socket?.pause();
  }

  close(): void {
    this.#request.destroy();
  }

  #take(block: string): void {
    const fields = new Map(
      block.split('\n').map((line): [string, string] => {
        const at = line.indexOf(': ');
        return [line.slice(0, at), line.slice(at + 2)];
      }),
    );
    const event = fields.get('event');
    if (event === undefined) return;
    this.received.push({ event, data: JSON.parse(fields.get('data') ?? 'null') } as Received);
    this.#onChange();
  }
}

function isOf<E extends keyof DashboardEvents>(event: E) {
  return (one: Received): one is Extract<Received, { event: E }> => one.event === event;
}

export class DashboardClient {
  readonly base: URL;
  readonly cookie: string;

  private constructor(base: URL, cookie: string) {
    this.base = base;
    this.cookie = cookie;
  }

  /** With the URL that was printed. */
  static async open(url: string): Promise<DashboardClient> {
    const { status, headers } = await ask(url, { headers: { 'sec-fetch-site': 'none' } });
    assert.equal(status, 303);
    assert.equal(headers.location, './');
    const cookie = headers['set-cookie']?.[0]?.split(';', 1)[0] ?? '';
    return new DashboardClient(new URL('./', url), cookie);
  }

  get(path: string): Promise<Answer> {
    return ask(new URL(path, this.base), { headers: { cookie: this.cookie } });
  }

  post(path: string, body: unknown): Promise<Answer> {
    return ask(new URL(path, this.base), {
      method: 'POST',
      headers: { cookie: this.cookie, origin: this.base.origin, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
  }

  events(): EventReader {
    return new EventReader(new URL('events', this.base), this.cookie);
  }
}
