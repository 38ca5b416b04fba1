// The server of the dashboard over real sockets: what browsers get, and what they cannot do.

import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { describe, type TestContext, test } from 'node:test';
import { ask, DashboardClient } from '../../../test/support/dashboard-client.ts';
import { errorOf } from '../../../test/support/error-of.ts';
import { statusOf, viewOf } from '../../../test/support/status-examples.ts';
import { HorovodError } from '../../errors.ts';
import type { JobView } from '../status/job-view.ts';
import { Dashboard, type DashboardOptions } from './dashboard.ts';
import type { LogPage } from './messages.ts';
import { DashboardServer, type DashboardServerOptions } from './server.ts';

function jobOf(ranks: number, given: Partial<JobView> = {}): JobView {
  const updatedAt = Date.now();
  return {
    id: '1a2b3c4d',
    command: 'node train.js',
    ranks: Array.from({ length: ranks }, (_, rank) =>
      viewOf({ rank, status: statusOf({ rank, updatedAt }) }),
    ),
    hosts: [],
    ...given,
  };
}

async function open(
  t: TestContext,
  given: Partial<DashboardOptions> = {},
  serving: Partial<DashboardServerOptions> = {},
) {
  const dashboard = new Dashboard({
    facts: {
      id: '',
      command: '',
      startedAt: Date.now(),
      hosts: [],
      settings: [],
      versions: [],
      links: [],
    },
    look: () => jobOf(2),
    ranks: 2,
    // Looks are taken by hand.
    periodMs: 3_600_000,
    ...given,
  });
  const server = await DashboardServer.listen(dashboard, { port: 0, flag: '--dashboard', ...serving });
  t.after(async () => {
    await server.close();
    dashboard.close();
  });
  return { dashboard, server, enter: () => DashboardClient.open(server.url) };
}

describe('the stream', () => {
  test('begins with all that is known, and goes on with what is new', async (t) => {
    const { dashboard, enter } = await open(t);
    dashboard.look();
    dashboard.logs.add(1, 'stdout', 'hello');
    dashboard.note({ kind: 'checkpoint', tone: 'good', text: 'saved' });
    const client = await enter();
    const events = client.events();
    const start = await events.start();
    assert.deepEqual(
      [start.job.id, start.job.command, start.samples.length, start.hasControl, start.end],
      ['1a2b3c4d', 'node train.js', 1, false, undefined],
    );
    assert.deepEqual(
      start.logs.map(({ rank, text }) => [rank, text]),
      [[1, 'hello']],
    );
    assert.deepEqual(
      start.news.map(({ text }) => text),
      ['saved'],
    );
    assert.equal(start.samples[0]?.ranks.length, 2);
    dashboard.logs.add(0, 'stderr', '<script>alert(1)</script>');
    dashboard.look();
    const line = await events.until('the line', (all) =>
      all.flatMap((one) => (one.event === 'logs' ? one.data : [])).find(() => true),
    );
    assert.equal(line.text, '<script>alert(1)</script>');
    await events.until('a sample', (all) => all.some(({ event }) => event === 'sample'));
    events.close();
  });

  test('tells all browsers the end, and then the port is free', async (t) => {
    const { dashboard, server, enter } = await open(t);
    const [one, two] = [(await enter()).events(), (await enter()).events()];
    await Promise.all([one.start(), two.start()]);
    assert.equal(server.browsers, 2);
    dashboard.finish({ at: Date.now(), isSuccess: false, text: 'rank 1 was killed\nThe last lines' });
    for (const events of [one, two]) {
      const end = await events.until('the end', (all) => all.find(({ event }) => event === 'end')?.data);
      assert.deepEqual(end, dashboard.end);
    }
    await server.close();
    await Promise.all([one.untilClosed(), two.untilClosed()]);
    const again = await DashboardServer.listen(dashboard, { port: server.port, flag: '--dashboard' });
    await again.close();
  });

  test('keeps its history when a browser connects again, also after the end', async (t) => {
    const { dashboard, enter } = await open(t);
    const client = await enter();
    const before = client.events();
    await before.start();
    for (let look = 0; look < 3; look++) dashboard.look();
    await before.until('three samples', (all) => all.filter(({ event }) => event === 'sample').length === 3);
    before.close();
    dashboard.look();
    dashboard.finish({ at: Date.now(), isSuccess: true, text: 'done' });
    const after = client.events();
    const start = await after.start();
    assert.equal(start.samples.length, 5);
    assert.equal(start.end?.text, 'done');
    assert.deepEqual(
      start.news.map(({ kind }) => kind),
      ['end'],
    );
    after.close();
  });

  test('of a browser that does not read is cut off, while others go on', async (t) => {
    const { dashboard, server, enter } = await open(t);
    const [sleeping, awake] = [(await enter()).events(), (await enter()).events()];
    await Promise.all([sleeping.start(), awake.start()]);
    sleeping.pause();
    const report = 'x'.repeat(100_000);
    const hasNews = (text: string) =>
      awake.until(text, (all) => all.some((one) => one.event === 'news' && one.data[0]?.text === text));
    // Kernels keep some megabytes, too.
    for (let burst = 0; server.browsers === 2; burst++) {
      assert.ok(burst < 2000, 'nobody was cut off');
      dashboard.note({ kind: 'data', tone: 'good', text: `burst ${burst}`, report });
      await hasNews(`burst ${burst}`);
      awake.received.length = 0;
    }
    assert.equal(server.browsers, 1);
    sleeping.close();
    dashboard.note({ kind: 'data', tone: 'good', text: 'still here' });
    await hasNews('still here');
    awake.close();
  });

  test('is for 16 browsers', async (t) => {
    const { enter } = await open(t);
    const client = await enter();
    const streams = Array.from({ length: 16 }, () => client.events());
    await Promise.all(streams.map((events) => events.start()));
    const { status, body } = await client.get('events');
    assert.equal(status, 503);
    assert.match(body, /16 browsers/);
    streams[0]?.close();
    for (let answer = await client.get('logs'); answer.status !== 200; ) answer = await client.get('logs');
    for (const events of streams) events.close();
  });

  test('has 64 ranks, and a job of which nothing is known yet', async (t) => {
    let view: JobView | undefined;
    const { dashboard, enter } = await open(t, { look: () => view, ranks: 64 });
    dashboard.look();
    const events = (await enter()).events();
    assert.deepEqual((await events.start()).samples, []);
    view = jobOf(64);
    dashboard.look();
    const sample = await events.sample('64 ranks', ({ ranks }) => ranks.length === 64);
    assert.deepEqual(
      sample.ranks.map(({ rank }) => rank),
      Array.from({ length: 64 }, (_, rank) => rank),
    );
    events.close();
  });

  test('does not begin anew with each look where the command is never known', async (t) => {
    const { dashboard, enter } = await open(t, { look: () => jobOf(2, { command: '' }) });
    const events = (await enter()).events();
    await events.start();
    for (let look = 0; look < 3; look++) dashboard.look();
    await events.until('three samples', (all) => all.filter(({ event }) => event === 'sample').length === 3);
    // The second has the id.
    assert.equal(events.received.filter(({ event }) => event === 'start').length, 2);
    events.close();
  });

  test('brings a link that is known later', async (t) => {
    const { dashboard, enter } = await open(t);
    const events = (await enter()).events();
    assert.deepEqual((await events.start()).job.links, []);
    const link = { title: 'TensorBoard', url: 'http://127.0.0.1:6006/' };
    dashboard.learn({ links: [link] });
    const all = await events.until('the link', (received) =>
      received
        .flatMap((one) => (one.event === 'start' ? [one.data.job.links] : []))
        .find(({ length }) => length > 0),
    );
    assert.deepEqual(all, [link]);
    events.close();
  });
});

describe('the server', () => {
  test('lets nobody in without the token, and sends its headers with every answer', async (t) => {
    const { server } = await open(t);
    for (const path of ['', 'events', 'logs', 'run.html', 'app.js', 'favicon.ico']) {
      const { status, headers } = await ask(`http://127.0.0.1:${server.port}/${path}`);
      assert.equal(status, 401, path);
      assert.match(String(headers['content-security-policy']), /default-src 'none'/);
      assert.equal(headers['x-content-type-options'], 'nosniff');
      assert.equal(headers['cache-control'], 'no-store');
      assert.equal(headers['access-control-allow-origin'], undefined);
    }
    const foreign = await ask(server.url, { headers: { host: `evil.example:${server.port}` } });
    assert.equal(foreign.status, 421);
    const put = await ask(server.url, { method: 'DELETE' });
    assert.deepEqual([put.status, put.headers.allow], [405, 'GET, HEAD, POST']);
  });

  test('enters from a link elsewhere by a page of its own, which takes the token out of the address', async (t) => {
    const { server } = await open(t);
    const link = {
      'sec-fetch-site': 'cross-site',
      'sec-fetch-mode': 'navigate',
      'sec-fetch-dest': 'document',
    };
    const { status, body, headers } = await ask(server.url, { headers: link });
    assert.equal(status, 200);
    assert.match(body, /http-equiv="refresh" content="0; url=\.\/"/);
    assert.match(String(headers['set-cookie']), /SameSite=Strict/);
  });

  test('finds lines of logs, and gives those of a rank as a file', async (t) => {
    const { dashboard, enter } = await open(t);
    for (let line = 0; line < 30; line++) dashboard.logs.add(line % 2, 'stdout', `Step ${line}`);
    const client = await enter();
    const page = async (query: string) => JSON.parse((await client.get(`logs?${query}`)).body) as LogPage;
    const found = async (query: string) => (await page(query)).lines.map(({ text }) => text);
    assert.deepEqual(await found('limit=2'), ['Step 28', 'Step 29']);
    assert.deepEqual(await found('limit=2&before=29'), ['Step 26', 'Step 27']);
    assert.deepEqual(await found('rank=1&limit=1&search=STEP'), ['Step 29']);
    assert.deepEqual(await found('search=step+1&rank=0'), [
      'Step 10',
      'Step 12',
      'Step 14',
      'Step 16',
      'Step 18',
    ]);
    assert.deepEqual([(await page('limit=30')).hasMore, (await page('limit=29')).hasMore], [false, true]);
    for (const wrong of ['rank=x', 'limit=0', 'before=1.5', 'stream=both', 'rank=-2']) {
      assert.equal((await client.get(`logs?${wrong}`)).status, 400, wrong);
    }
    const file = await client.get('logs/1.txt');
    assert.match(String(file.headers['content-type']), /^text\/plain/);
    assert.match(String(file.headers['content-disposition']), /attachment/);
    assert.equal(file.body.split('\n').length, 16);
  });

  test('saves the page in one file, in which the text of a rank ends no element', async (t) => {
    const { dashboard, enter } = await open(t);
    dashboard.look();
    dashboard.logs.add(0, 'stdout', '</script><script>alert(1)</script>');
    const { headers, body } = await (await enter()).get('run.html');
    assert.match(String(headers['content-disposition']), /attachment; filename="run\.html"/);
    assert.ok(!body.includes('</script><script>alert(1)'));
    assert.match(body, /alert\(1\)/);
  });

  test('has no files but those of the page', async (t) => {
    const client = await (await open(t)).enter();
    for (const path of [
      'server.js',
      '..%2fserver.js',
      '%2e%2e/guard.js',
      'vendor/../../guard.js',
      'logs/x.txt',
      'toString',
    ]) {
      assert.equal((await client.get(path)).status, 404, path);
    }
    assert.equal((await client.get('favicon.ico')).status, 204);
  });

  test('takes orders only with control, and only while the job runs', async (t) => {
    const watching = await (await open(t)).enter();
    const refused = await watching.post('stop', {});
    assert.equal(refused.status, 403);
    assert.match(refused.body, /--dashboard-control/);

    const orders: unknown[] = [];
    const control = {
      stop: () => void orders.push('stop'),
      async record(steps: number) {
        orders.push(steps);
        if (steps === 13) throw new HorovodError('ERR_HVD_TIMELINE', 'a timeline is running already.');
      },
    };
    const { dashboard, enter } = await open(t, { control });
    const client = await enter();
    const start = await client.events().start();
    assert.deepEqual([start.hasControl, start.canRecord], [true, true]);
    assert.equal((await client.post('record', { steps: 50 })).status, 202);
    const busy = await client.post('record', { steps: 13 });
    assert.deepEqual([busy.status, busy.body], [409, 'a timeline is running already.\n']);
    for (const steps of [0, -1, 1.5, '50', null, 1e9]) {
      assert.equal((await client.post('record', { steps })).status, 400, String(steps));
    }
    assert.equal((await client.post('record', ['x'])).status, 400);
    assert.equal((await client.post('stop', { filler: 'x'.repeat(5000) })).status, 400);
    assert.equal((await client.post('format', {})).status, 404);
    assert.equal((await client.post('stop', {})).status, 202);
    assert.deepEqual(orders, [50, 13, 'stop']);
    dashboard.finish({ at: Date.now(), isSuccess: true, text: 'done' });
    assert.equal((await client.post('stop', {})).status, 409);
  });

  test('shows files of others in a sandbox', async (t) => {
    const page = {
      type: 'text/html; charset=utf-8',
      bytes: Buffer.from('<p>picture'),
      isSandboxed: true,
    } as const;
    const { enter } = await open(
      t,
      {},
      { extraFile: async (name) => (name === 'timeline/1.html' ? page : undefined) },
    );
    const client = await enter();
    const { status, headers, body } = await client.get('timeline/1.html');
    assert.deepEqual([status, body], [200, '<p>picture']);
    assert.match(String(headers['content-security-policy']), /^sandbox allow-scripts/);
    assert.doesNotMatch(String(headers['content-security-policy']), /allow-same-origin/);
    assert.equal((await client.get('timeline/2.html')).status, 404);
  });

  test('says which flag to change if its port is taken, or its address is not of this machine', async (t) => {
    const other = createServer();
    await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve));
    t.after(() => other.close());
    const { port } = other.address() as { port: number };
    const taken = await errorOf(open(t, {}, { port }));
    assert.equal(taken.code, 'ERR_HVD_SETTING');
    assert.match(taken.message, new RegExp(`--dashboard: .*127\\.0\\.0\\.1:${port}: port ${port} is in use`));
    const elsewhere = await errorOf(open(t, {}, { bind: '192.0.2.1' }));
    assert.match(elsewhere.message, /this machine has no address 192\.0\.2\.1/);
  });

  test('answers to the name of the machine where it is bound to all addresses', async (t) => {
    const { server } = await open(t, {}, { bind: '0.0.0.0' });
    const { hostname, searchParams } = new URL(server.url);
    const by = (host: string) =>
      ask(`http://127.0.0.1:${server.port}/?token=${searchParams.get('token')}`, { headers: { host } });
    assert.equal((await by(`${hostname}:${server.port}`)).status, 303);
    assert.equal((await by(`127.0.0.1:${server.port}`)).status, 303);
    assert.equal((await by(`evil.example:${server.port}`)).status, 421);
  });
});
