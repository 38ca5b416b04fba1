// The dashboard behind a proxy that serves it in a folder and hands on the browser's Host, as jupyter-server-proxy does in a JupyterHub:
// the page, its stream, its logs and its orders work there, and only for the name that was allowed.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, request, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { Dashboard } from '../../../src/observe/dashboard/dashboard.ts';
import { DashboardServer } from '../../../src/observe/dashboard/server.ts';
import { findBrowser, startBrowser } from '../../support/browser.ts';
import { statusOf, viewOf } from '../../support/status-examples.ts';

const found = findBrowser();
const size = { width: 1300, height: 900 };

test('the dashboard works in a folder of a proxy, if its name is allowed', {
  skip: 'reason' in found && found.reason,
}, async (t) => {
  let target = 0;
  const proxy = createServer((asked, response) => {
    const path = (asked.url ?? '').replace(/^\/user\/ann\/proxy\/\d+/, '');
    const { method, headers } = asked;
    const passed = request({ host: '127.0.0.1', port: target, path, method, headers }, (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(response);
    });
    passed.on('error', () => response.destroy());
    response.on('close', () => passed.destroy());
    asked.pipe(passed);
  }).listen(0, '127.0.0.1');
  await once(proxy, 'listening');
  const { port } = proxy.address() as AddressInfo;
  let stops = 0;
  const rank = viewOf({ rank: 0, status: statusOf({ rank: 0, metrics: [['loss', 0.5]] }) });
  const dashboard = new Dashboard({
    facts: { id: '1a2b3c4d', command: 'train.ts', startedAt: Date.now(), ...noFacts },
    look: () => ({ id: '1a2b3c4d', command: 'train.ts', ranks: [rank], hosts: [] }),
    ranks: 1,
    control: { stop: () => void stops++ },
    periodMs: 100,
  });
  for (let line = 0; line < 1000; line++) dashboard.logs.add(0, 'stdout', `line ${line}`);
  const listen = (hosts: readonly string[]) =>
    DashboardServer.listen(dashboard, { port: 0, flag: '--dashboard', hosts });
  const [server, strict] = [await listen([`127.0.0.1:${port}`]), await listen([])];
  await using browser = await startBrowser('path' in found ? found.path : '');
  t.after(async () => {
    await Promise.all([server.close(), strict.close()]);
    dashboard.close();
    await closed(proxy);
  });
  const through = ({ port: own, url }: DashboardServer) =>
    `http://127.0.0.1:${port}/user/ann/proxy/${own}/${new URL(url).search}`;

  target = strict.port;
  const { page: rejected } = await browser.open(through(strict), size);
  assert.match((await rejected.textContent('body')) ?? '', /does not answer to the name "127\.0\.0\.1:\d+"/);

  target = server.port;
  const { page, problems } = await browser.open(through(server), size);
  await page.waitForSelector('tr.rank');
  assert.equal(page.url(), `http://127.0.0.1:${port}/user/ann/proxy/${server.port}/`);
  assert.equal(await page.locator('#charts canvas').count(), 1);
  await page.fill('#log-search', 'line 7');
  // Older ones come from the server.
  await page.waitForSelector('.line[data-id="8"]', { state: 'attached' });
  await page.click('#stop');
  await page.click('dialog[open] button[value="yes"]');
  await page.waitForFunction(
    () => document.getElementById('control-answer')?.textContent === 'Stopping the job …',
  );
  assert.equal(stops, 1);
  assert.deepEqual(problems, []);
});

const noFacts = { hosts: [], settings: [], versions: [], links: [] };

async function closed(server: Server): Promise<void> {
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
}
