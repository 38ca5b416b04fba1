// Who may talk to the dashboard. The page shows what ranks print and, with control, stops the job, so a program in a browser that runs
// on this machine or can reach it must not get at it: no other page (Host, Sec-Fetch-Site, Origin), no name that was rebound to this
// address (Host), no other user (token). The token stands in the printed URL and is exchanged for a cookie, which scripts cannot read.
// Pure but for the clock: a request goes in, a verdict comes out.

import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';

export interface GuardOptions {
  readonly port: number;
  /** Names and addresses, with or without a port, by which browsers may call this server, in addition to those of loopback. */
  readonly hosts: readonly string[];
  /** Milliseconds of a monotonic clock. */
  readonly now?: (() => number) | undefined;
}

export interface GuardedRequest {
  readonly method: string;
  /** The path with what follows it, as in the first line of the request. */
  readonly url: string;
  readonly headers: IncomingHttpHeaders;
}

export type Verdict =
  | { readonly kind: 'allowed' }
  /** The token was right: the cookie to set, and the page without the token in its address to go to. */
  | { readonly kind: 'enter'; readonly cookie: string; readonly isFromElsewhere: boolean }
  | { readonly kind: 'rejected'; readonly status: 401 | 403 | 405 | 415 | 421; readonly text: string };

/** The token may be used again for so long: programs that show previews of links use it before the user does. */
const tokenAgainMs = 60_000;
const tokenBytes = 16;

export class Guard {
  /** 128 random bits, for the URL. */
  readonly token: string = randomBytes(tokenBytes).toString('hex');
  readonly #session = randomBytes(tokenBytes).toString('hex');
  readonly #cookieName: string;
  readonly #hosts: ReadonlySet<string>;
  readonly #now: () => number;
  #tokenUsedAt: number | undefined;

  constructor({ port, hosts, now = () => performance.now() }: GuardOptions) {
    // Cookies do not know ports: two dashboards of one machine share them.
    this.#cookieName = `horovod-dashboard-${port}`;
    this.#now = now;
    const own = ['127.0.0.1', 'localhost', '[::1]'].map((name) => `${name}:${port}`);
    const more = hosts.flatMap((host) => (/:\d+$/.test(host) ? [host] : [host, `${host}:${port}`]));
    this.#hosts = new Set([...own, ...more].map((host) => host.toLowerCase()));
  }

  judge({ method, url, headers }: GuardedRequest): Verdict {
    const { host = '' } = headers;
    if (!this.#hosts.has(host.toLowerCase())) {
      return rejected(
        421,
        `This dashboard does not answer to the name ${JSON.stringify(host.slice(0, 100))}. Use the URL that was printed, or start it with --dashboard-host.`,
      );
    }
    const { pathname, searchParams } = new URL(url, 'http://dashboard');
    const token = searchParams.get('token');
    const site = headers['sec-fetch-site'];
    const isOwn = site === undefined || site === 'none' || site === 'same-origin';
    // A link in a notebook or a chat opens the page from another site. The token shows that it is the user's.
    const isLink =
      token !== null &&
      pathname === '/' &&
      method === 'GET' &&
      headers['sec-fetch-mode'] === 'navigate' &&
      headers['sec-fetch-dest'] === 'document';
    if (!isOwn && !isLink) return rejected(403, 'Other sites cannot use this dashboard.');
    if (method === 'POST') {
      if (!isOwnOrigin(headers.origin, host)) return rejected(403, 'Other sites cannot use this dashboard.');
      if (!/^application\/json\b/i.test(headers['content-type'] ?? ''))
        return rejected(415, 'Send JSON, with content-type: application/json.');
    } else if (method !== 'GET' && method !== 'HEAD') {
      return rejected(405, 'The dashboard knows GET and POST.');
    }
    const hasCookie = this.#hasCookie(headers.cookie);
    if (token !== null && pathname === '/') {
      if (hasCookie || this.#takeToken(token))
        return { kind: 'enter', cookie: this.#cookie(), isFromElsewhere: !isOwn };
      return rejected(
        401,
        'This link has been used, or it is of another job. Each link works once, in one browser: restart the dashboard for a new one.',
      );
    }
    return hasCookie
      ? { kind: 'allowed' }
      : rejected(401, 'Open the dashboard with the URL that was printed: it holds the token that is needed.');
  }

  #takeToken(token: string): boolean {
    if (!isEqual(token, this.token)) return false;
    const now = this.#now();
    this.#tokenUsedAt ??= now;
    return now - this.#tokenUsedAt <= tokenAgainMs;
  }

  #hasCookie(header = ''): boolean {
    return header.split(/; */).some((pair) => {
      const at = pair.indexOf('=');
      return pair.slice(0, at) === this.#cookieName && isEqual(pair.slice(at + 1), this.#session);
    });
  }

  /** Without a path, so that it is that of the page, also behind a proxy that serves it in a folder. */
  #cookie(): string {
    return `${this.#cookieName}=${this.#session}; HttpOnly; SameSite=Strict`;
  }
}

/** Of every answer. No header allows another site anything. */
export const protectiveHeaders: Readonly<Record<string, string>> = {
  'content-security-policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'cache-control': 'no-store',
};

function rejected(status: (Verdict & { kind: 'rejected' })['status'], text: string): Verdict {
  return { kind: 'rejected', status, text: `${text}\n` };
}

/** A proxy in front may add TLS; the name must be the same. */
function isOwnOrigin(origin: string | undefined, host: string): boolean {
  const lower = host.toLowerCase();
  return origin === `http://${lower}` || origin === `https://${lower}`;
}

/** In a time that does not depend on how much of it is right. */
function isEqual(given: string, wanted: string): boolean {
  const digest = (text: string) => createHash('sha256').update(text).digest();
  return timingSafeEqual(digest(given), digest(wanted));
}
