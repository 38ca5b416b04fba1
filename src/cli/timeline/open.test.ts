import assert from 'node:assert/strict';
import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { get, type IncomingMessage, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { keepOutput } from '../../../test/support/command-output.ts';
import { traceOf } from '../../../test/support/trace-of-ranks.ts';
import { browserProgram } from '../../console/browser.ts';
import { run as horovod } from '../main.ts';
import { PageServer } from './page-server.ts';

const main = fileURLToPath(new URL('../main.js', import.meta.url));

interface Scope {
  after(fn: () => void | Promise<void>): void;
}

function directoryOf(t: Scope): string {
  const directory = mkdtempSync(join(tmpdir(), 'hvd-open-'));
  t.after(() => rmSync(directory, { recursive: true }));
  return directory;
}

function writeTrace(path: string): void {
  writeFileSync(path, JSON.stringify(traceOf({ ranks: 2, steps: 3 })));
}

/** `horovod timeline open` as a process, and the URL that it prints. */
async function open(
  t: Scope,
  cwd: string,
  ...args: string[]
): Promise<{
  url: string;
  child: ChildProcessByStdio<null, Readable, Readable>;
  rest: () => Promise<string>;
}> {
  const child = spawn(process.execPath, [main, 'timeline', 'open', ...args], {
    cwd,
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, DISPLAY: '', WAYLAND_DISPLAY: '', SSH_CONNECTION: 'x' },
  });
  t.after(() => void child.kill('SIGKILL'));
  let said = '';
  const closed = once(child, 'close');
  const url = await new Promise<string>((resolve, reject) => {
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding('utf8').on('data', (part: string) => {
        said += part;
        const found = /http:\/\/\S+/.exec(said)?.[0];
        if (found !== undefined) resolve(found);
      });
    }
    child.once('close', () => reject(new Error(`it ended: ${said}`)));
  });
  return { url, child, rest: () => closed.then(() => said) };
}

test('it prints a URL that nobody can guess, serves the page there, and ends on Ctrl-C', async (t) => {
  const directory = directoryOf(t);
  writeTrace(join(directory, 'trace.json'));
  const { url, child, rest } = await open(t, directory, 'trace.json');
  assert.match(url, /^http:\/\/127\.0\.0\.1:\d+\/[\w-]{22}\/$/);
  const response = await fetch(url);
  assert.equal(response.status, 200);
  const page = await response.text();
  assert.match(page, /<title>Timeline trace\.json<\/title>/);
  assert.match(page, /connect-src 'self'/);
  assert.match(page, /new EventSource\('alive'\)/);
  assert.equal((await fetch(new URL('trace.json', url))).headers.get('content-type'), 'application/json');
  child.kill('SIGINT');
  const [code] = (await once(child, 'exit')) as [number | null];
  assert.equal(code, 0);
  assert.match(
    await rest(),
    /there is no display here .*, so open the URL in a browser\..*ssh -L (\d+):127\.0\.0\.1:\1 /,
  );
  await assert.rejects(fetch(url));
});

test('without a file, it takes the newest timeline of the directory', async (t) => {
  const directory = directoryOf(t);
  for (const [name, at] of [
    ['old.json', 1000],
    ['new.json', 2000],
  ] as const) {
    writeTrace(join(directory, name));
    utimesSync(join(directory, name), at, at);
  }
  writeFileSync(join(directory, 'package.json'), '{}');
  const { url } = await open(t, directory, '--no-browser');
  assert.match(await (await fetch(url)).text(), /<title>Timeline new\.json<\/title>/);
});

test('what cannot be opened is said, with what to do', async (t) => {
  const directory = directoryOf(t);
  const [trace, other] = [join(directory, 'trace.json'), join(directory, 'other.json')];
  writeTrace(trace);
  writeFileSync(other, '{}');
  const run = async (...argv: string[]) => {
    const output = keepOutput();
    return { code: await horovod(['timeline', 'open', ...argv], output), error: output.said.error };
  };
  assert.deepEqual(await run(other), {
    code: 1,
    error: `horovod timeline open: cannot read ${other}: it is not a timeline: it does not start with "[".\n`,
  });
  const missing = await run(trace, '--speedscope');
  assert.equal(missing.code, 2);
  assert.match(missing.error, /Speedscope is not installed\. Install it with `npm install speedscope`/);
  const server = await PageServer.listen({ port: 0, page: '', file: trace });
  t.after(() => server.close());
  const { port } = new URL(server.url);
  const taken = await run(trace, '--port', port);
  assert.equal(taken.code, 2);
  assert.match(taken.error, new RegExp(`cannot listen on port ${port} of 127\\.0\\.0\\.1: it is in use`));
});

test('Speedscope is served from where the user has installed it, with the timeline', async (t) => {
  const directory = directoryOf(t);
  writeTrace(join(directory, 'trace.json'));
  const release = join(directory, 'node_modules/speedscope/dist/release');
  mkdirSync(release, { recursive: true });
  writeFileSync(
    join(directory, 'node_modules/speedscope/package.json'),
    '{"name":"speedscope","version":"1.0.0"}',
  );
  writeFileSync(join(release, 'index.html'), '<title>the viewer</title>');
  const { url } = await open(t, directory, 'trace.json', '--speedscope');
  const page = await (await fetch(url)).text();
  const [, frame = ''] = /<iframe src="([^"]+)"/.exec(page) ?? [];
  assert.match(await (await fetch(new URL(frame, url))).text(), /the viewer/);
  const [, profile = ''] = /profileURL=([^&]+)/.exec(frame) ?? [];
  const viewer = new URL('viewer/index.html', url);
  const trace = (await (await fetch(new URL(decodeURIComponent(profile), viewer))).json()) as object[];
  assert.ok(trace.length > 10);
  for (const path of ['viewer/..%2Fpackage.json', 'viewer/nothing.js', 'viewer/%2e%2e/package.json'])
    assert.equal((await fetch(new URL(path, url))).status, 404, path);
});

async function serverOf(
  t: Scope,
  waits: { unopenedMs?: number; closedMs?: number } = {},
): Promise<PageServer> {
  const server = await PageServer.listen({
    port: 0,
    page: '<p>the page</p>',
    file: '/nonexistent',
    ...waits,
  });
  t.after(() => server.close());
  return server;
}

test('other paths, names and methods get nothing', async (t) => {
  const { url } = await serverOf(t);
  const { port } = new URL(url);
  const status = (path: string, options: { host?: string; method?: string } = {}) =>
    new Promise<number | undefined>((resolve, reject) => {
      const { host = `127.0.0.1:${port}`, method = 'GET' } = options;
      request({ port, path, method, headers: { host } }, (response: IncomingMessage) => {
        response.resume();
        resolve(response.statusCode);
      })
        .once('error', reject)
        .end();
    });
  const path = new URL(url).pathname;
  assert.equal(await status(path), 200);
  assert.equal(await status(path, { host: `localhost:${port}` }), 200);
  assert.equal(await status('/'), 404);
  assert.equal(await status(`${path.slice(0, -2)}x/`), 404);
  assert.equal(await status(path, { host: `evil.example:${port}` }), 421);
  assert.equal(await status(path, { method: 'POST' }), 405);
  assert.equal(await status('/favicon.ico'), 204);
});

test('it is over when the last page has been closed for a while, and not before', async (t) => {
  const server = await serverOf(t, { unopenedMs: 1, closedMs: 1 });
  // Nobody has come.
  await server.unwatched;
  const watched = await serverOf(t, { unopenedMs: 60_000, closedMs: 50 });
  let isOver = false;
  void watched.unwatched.then(() => {
    isOver = true;
  });
  const look = () =>
    new Promise<IncomingMessage>((resolve) => {
      get(new URL('alive', watched.url), (response) => response.once('data', () => resolve(response)));
    });
  const [first, second] = [await look(), await look()];
  first.destroy();
  // A page that was loaded again.
  const third = await look();
  second.destroy();
  assert.equal((await fetch(watched.url)).status, 200);
  assert.equal(isOver, false);
  third.destroy();
  await watched.unwatched;
});

test('a browser is started where there is a display', () => {
  assert.equal(browserProgram({ DISPLAY: ':0' }, 'linux'), 'xdg-open');
  assert.equal(browserProgram({ WAYLAND_DISPLAY: 'w', BROWSER: 'firefox:w3m' }, 'linux'), 'firefox');
  assert.equal(browserProgram({}, 'linux'), undefined);
  assert.equal(browserProgram({}, 'darwin'), 'open');
});
