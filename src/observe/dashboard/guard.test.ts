// Who may talk to the dashboard: one table of requests.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Guard, type GuardedRequest, protectiveHeaders } from './guard.ts';

const port = 4000;
const own = { host: `127.0.0.1:${port}` };

function guardAt(now: () => number = () => 0, hosts: readonly string[] = []) {
  const guard = new Guard({ port, hosts, now });
  const entered = new Guard({ port, hosts, now });
  const verdict = entered.judge({ method: 'GET', url: `/?token=${entered.token}`, headers: own });
  assert.equal(verdict.kind, 'enter');
  const cookie = verdict.kind === 'enter' ? (verdict.cookie.split(';', 1)[0] as string) : '';
  return { guard, entered, cookie };
}

/** 'allowed', 'enter', or the status. */
function outcome(guard: Guard, request: Partial<GuardedRequest>): string | number {
  const verdict = guard.judge({ method: 'GET', url: '/', headers: own, ...request });
  return verdict.kind === 'rejected' ? verdict.status : verdict.kind;
}

describe('the token', () => {
  test('opens the page once, and a wrong one or none does not', () => {
    const { guard } = guardAt();
    assert.match(guard.token, /^[0-9a-f]{32}$/);
    assert.equal(outcome(guard, {}), 401);
    assert.equal(outcome(guard, { url: '/?token=' }), 401);
    assert.equal(outcome(guard, { url: `/?token=${'0'.repeat(32)}` }), 401);
    assert.equal(outcome(guard, { url: `/events?token=${guard.token}` }), 401);
    assert.equal(outcome(guard, { url: `/?token=${guard.token}` }), 'enter');
  });

  test('works again for a minute, because programs that preview links use it first; then only with the cookie', () => {
    let now = 0;
    const { entered, cookie } = guardAt(() => now);
    const url = `/?token=${entered.token}`;
    now = 60_000;
    assert.equal(outcome(entered, { url }), 'enter');
    now = 60_001;
    assert.equal(outcome(entered, { url }), 401);
    assert.equal(outcome(entered, { url, headers: { ...own, cookie } }), 'enter');
  });

  test('becomes a cookie that scripts and other sites do not get, with another secret than the token', () => {
    const { guard } = guardAt();
    const verdict = guard.judge({ method: 'GET', url: `/?token=${guard.token}`, headers: own });
    const cookie = verdict.kind === 'enter' ? verdict.cookie : '';
    assert.match(cookie, /^horovod-dashboard-4000=[0-9a-f]{32}; HttpOnly; SameSite=Strict$/);
    assert.ok(!cookie.includes(guard.token));
  });
});

test('a link on another site opens the page with the right token only, and nothing else works from there', () => {
  const { guard, entered, cookie } = guardAt();
  for (const site of ['cross-site', 'same-site']) {
    const link = {
      ...own,
      'sec-fetch-site': site,
      'sec-fetch-mode': 'navigate',
      'sec-fetch-dest': 'document',
    };
    const verdict = guard.judge({ method: 'GET', url: `/?token=${guard.token}`, headers: link });
    assert.deepEqual([verdict.kind, verdict.kind === 'enter' && verdict.isFromElsewhere], ['enter', true]);
    assert.equal(outcome(guard, { url: `/?token=${'0'.repeat(32)}`, headers: link }), 401);
    assert.equal(outcome(entered, { headers: { ...link, cookie } }), 403);
    const frame = { ...link, 'sec-fetch-dest': 'iframe' };
    assert.equal(outcome(guard, { url: `/?token=${guard.token}`, headers: frame }), 403);
  }
});

test('requests with the cookie', () => {
  const { entered, cookie } = guardAt();
  const json = { 'content-type': 'application/json' };
  const cases: [string, Partial<GuardedRequest>, string | number][] = [
    ['as curl makes them', {}, 'allowed'],
    ['from the page', { url: '/events', headers: { ...own, 'sec-fetch-site': 'same-origin' } }, 'allowed'],
    ['typed into the address bar', { headers: { ...own, 'sec-fetch-site': 'none' } }, 'allowed'],
    ['by another name of this machine', { headers: { host: `localhost:${port}` } }, 'allowed'],
    ['by its address of IPv6', { headers: { host: `[::1]:${port}` } }, 'allowed'],
    ['in capitals', { headers: { host: `LocalHost:${port}` } }, 'allowed'],
    ['without a host', { headers: {} }, 421],
    ['by a name that was rebound to this address', { headers: { host: `evil.example:${port}` } }, 421],
    ['by the right name with another port', { headers: { host: '127.0.0.1:4001' } }, 421],
    ['by the right name without a port', { headers: { host: '127.0.0.1' } }, 421],
    ['from another site', { headers: { ...own, 'sec-fetch-site': 'cross-site' } }, 403],
    ['from another port of this host', { headers: { ...own, 'sec-fetch-site': 'same-site' } }, 403],
    ['a HEAD', { method: 'HEAD' }, 'allowed'],
    ['a PUT', { method: 'PUT' }, 405],
    ['an OPTIONS, which asks what other sites may do', { method: 'OPTIONS' }, 405],
    ['a POST without an origin', { method: 'POST', headers: { ...own, ...json } }, 403],
    [
      'a POST of another site',
      { method: 'POST', headers: { ...own, ...json, origin: 'http://evil.example' } },
      403,
    ],
    ['a POST of a sandboxed page', { method: 'POST', headers: { ...own, ...json, origin: 'null' } }, 403],
    [
      'a POST of a form',
      {
        method: 'POST',
        headers: {
          ...own,
          origin: `http://${own.host}`,
          'content-type': 'application/x-www-form-urlencoded',
        },
      },
      415,
    ],
    ['a POST without a type', { method: 'POST', headers: { ...own, origin: `http://${own.host}` } }, 415],
    [
      'a POST of the page',
      { method: 'POST', headers: { ...own, ...json, origin: `http://${own.host}` } },
      'allowed',
    ],
  ];
  for (const [what, request, expected] of cases) {
    const headers = { ...(request.headers ?? own), cookie: `theme=dark; ${cookie}` };
    assert.equal(outcome(entered, { ...request, headers }), expected, what);
  }
});

test('cookies that are wrong, of another port or of another dashboard are none', () => {
  const { guard, entered, cookie } = guardAt();
  const value = cookie.split('=')[1] as string;
  for (const wrong of [
    '',
    'x',
    `horovod-dashboard-4001=${value}`,
    `horovod-dashboard-4000=${value}0`,
    value,
  ]) {
    assert.equal(outcome(entered, { headers: { ...own, cookie: wrong } }), 401, wrong);
  }
  assert.equal(outcome(guard, { headers: { ...own, cookie } }), 401);
});

test('names of a proxy are added with a port, or with any that it is reached by', () => {
  const { entered, cookie } = guardAt(() => 0, ['hub.example', 'node7:9000']);
  const by = (host: string, origin?: string) =>
    outcome(entered, {
      method: origin === undefined ? 'GET' : 'POST',
      headers: {
        host,
        cookie,
        'content-type': 'application/json',
        ...(origin === undefined ? {} : { origin }),
      },
    });
  assert.deepEqual(
    [by('hub.example'), by(`hub.example:${port}`), by('node7:9000'), by('node7'), by('hub.example.evil')],
    ['allowed', 'allowed', 'allowed', 421, 421],
  );
  assert.equal(by('hub.example', 'https://hub.example'), 'allowed');
  assert.equal(by('hub.example', 'https://other.example'), 403);
});

test('pages may load nothing from elsewhere, run no script of their text, and be framed by nobody', () => {
  const policy = protectiveHeaders['content-security-policy'] ?? '';
  assert.match(policy, /^default-src 'none'; script-src 'self'; style-src 'self';/);
  assert.match(policy, /frame-ancestors 'none'/);
  assert.doesNotMatch(policy, /unsafe|http|\*/);
  assert.ok(!Object.keys(protectiveHeaders).some((name) => name.startsWith('access-control')));
  assert.equal(protectiveHeaders['referrer-policy'], 'no-referrer');
  assert.equal(protectiveHeaders['cache-control'], 'no-store');
});
