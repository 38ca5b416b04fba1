import assert from 'node:assert/strict';
import type { ServerResponse } from 'node:http';
import { after, describe, test } from 'node:test';
import { settingsForTests } from '../../test/support/files.ts';
import {
  freePort,
  type ReceivedRequest,
  type Script,
  startScriptedServer,
} from '../../test/support/scripted-server.ts';
import { problemOf, type ReadHandle } from './file-system.ts';
import { HttpFileSystem } from './http.ts';
import { readAhead } from './read-ahead.ts';

const code = 'ERR_HVD_FILE_SYSTEM';
const content = Buffer.from(new Uint8Array(300_000).map((_, i) => i % 251));
/** So long that a busy machine answers within it, so short that a server that never answers costs little. */
const impatient = new HttpFileSystem(settingsForTests({ fileTimeoutMs: 2_000 }));
/** Long enough that only what the test provokes can end a wait. */
const patient = new HttpFileSystem(settingsForTests({ fileTimeoutMs: 30_000 }));
after(() => {
  impatient.close();
  patient.close();
});

/** A server that does what it should. */
function serve(
  { headers }: ReceivedRequest,
  response: ServerResponse,
  { body = content, etag = '"1"' }: { body?: Buffer; etag?: string } = {},
): void {
  if (headers['if-match'] !== undefined && headers['if-match'] !== etag) {
    response.writeHead(412).end();
    return;
  }
  const [, from, to] = /^bytes=(\d+)-(\d+)$/.exec(headers.range ?? '') ?? [];
  if (body.length === 0) {
    response.writeHead(416, { 'Content-Range': 'bytes */0' }).end();
    return;
  }
  const end = Math.min(Number(to), body.length - 1);
  response.writeHead(206, { ETag: etag, 'Content-Range': `bytes ${from}-${end}/${body.length}` });
  response.end(body.subarray(Number(from), end + 1));
}

async function withServer(
  script: Script,
  body: (url: string, requests: readonly ReceivedRequest[]) => Promise<void>,
): Promise<void> {
  await using server = await startScriptedServer(script);
  await body(`${server.origin}/data/file.bin?secret=xyz`, server.received);
}

const at = async (file: ReadHandle, position: number, length: number) => {
  const target = Buffer.alloc(length);
  const count = await file.read(target, position);
  return target.subarray(0, count);
};

describe('a web server that supports ranges', () => {
  test('gives any part of a file, and the parts are of one version', async () => {
    await withServer(serve, async (url, requests) => {
      await using file = await patient.open(url);
      assert.deepEqual([file.size, file.isSequential], [content.length, false]);
      assert.deepEqual(await at(file, 10, 20), content.subarray(10, 30));
      assert.equal(requests.length, 1, 'the first bytes came with the first answer');
      assert.deepEqual(await at(file, 100_000, 150_000), content.subarray(100_000, 250_000));
      assert.deepEqual(await at(file, 299_990, 100), content.subarray(299_990));
      assert.equal((await at(file, 300_000, 10)).length, 0);
      assert.equal(requests.at(-1)?.headers['if-match'], '"1"');
      const { size, etag, name } = await patient.stat(url);
      assert.deepEqual([size, etag, name], [content.length, '"1"', 'file.bin']);
    });
  });

  test('is read ahead in order', async () => {
    await withServer(serve, async (url) => {
      await using file = await patient.open(url);
      const pieces: Buffer[] = [];
      for await (const piece of readAhead(file, { pieceBytes: 70_000 })) pieces.push(Buffer.from(piece));
      assert.equal(pieces.length, 5);
      assert.deepEqual(Buffer.concat(pieces), content);
      for await (const piece of readAhead(file, { pieceBytes: 10, from: 5, to: 300_000 })) {
        assert.equal(piece.length, 10);
        break;
      }
    });
  });

  test('has empty files, and redirects', async () => {
    await withServer(
      (request, response) => serve(request, response, { body: Buffer.alloc(0) }),
      async (url) => {
        assert.equal((await patient.open(url)).size, 0);
      },
    );
    await withServer(
      (request, response) => {
        if (request.url.pathname === '/moved') return serve(request, response);
        response.writeHead(302, { Location: '/moved' }).end();
      },
      async (url) => assert.equal((await patient.open(url)).size, content.length),
    );
    await withServer(
      (_, response) => void response.writeHead(302, { Location: '/again' }).end(),
      (url) => assert.rejects(patient.open(url), { code, message: /is redirected too often/ }),
    );
  });

  test('may close connections in the middle: the rest is asked for again', async () => {
    let cuts = 2;
    await withServer(
      (request, response) => {
        if (cuts-- <= 0 || request.headers['if-match'] === undefined) return serve(request, response);
        response.writeHead(206, {
          ETag: '"1"',
          'Content-Range': 'bytes 100000-199999/300000',
          'Content-Length': '100000',
        });
        response.write(content.subarray(100_000, 150_000), () => response.destroy());
      },
      async (url) => {
        await using file = await patient.open(url);
        assert.deepEqual(await at(file, 100_000, 100_000), content.subarray(100_000, 200_000));
        assert.equal(file.retries, 1);
      },
    );
  });

  test('may be busy for a while', async () => {
    let busy = 2;
    await withServer(
      (request, response) => (busy-- > 0 ? void response.writeHead(503).end() : serve(request, response)),
      async (url) => assert.equal((await patient.open(url)).size, content.length),
    );
  });
});

describe('a bad web server', { concurrency: true }, () => {
  const reading = async (url: string, fileSystem = impatient) => {
    await using file = await fileSystem.open(url);
    await at(file, 100_000, 100_000);
  };
  /** First a good answer, then this one. */
  const later =
    (script: Script): Script =>
    (request, response) =>
      request.headers.range?.startsWith('bytes=0-') ? serve(request, response) : script(request, response);
  const range = { ETag: '"1"', 'Content-Range': 'bytes 100000-199999/300000' };
  const cases: readonly (readonly [string, Script, RegExp, string?])[] = [
    [
      'changes the file',
      later((r, s) => serve(r, s, { etag: '"2"' })),
      /has changed while it was read/,
      'changed',
    ],
    [
      'changes the file and ignores If-Match',
      later((_, s) => void s.writeHead(206, { ...range, ETag: '"2"' }).end()),
      /has changed while it was read/,
      'changed',
    ],
    [
      'sends another range',
      later((_, s) => void s.writeHead(206, { ...range, 'Content-Range': 'bytes 0-99999/300000' }).end()),
      /asked for bytes 100000-199999, the server sends bytes 0-99999\/300000/,
    ],
    [
      'sends too much',
      later((_, s) => void s.writeHead(206, range).end(Buffer.alloc(100_001))),
      /more bytes than it was asked for/,
    ],
    [
      'ends early',
      later((_, s) => void s.writeHead(206, range).end()),
      /ends early: the server sent 0 of 100000 bytes/,
      'unreachable',
    ],
    [
      'is slow to answer',
      later(() => undefined),
      /Cannot read http:\/\/127\.0\.0\.1:\d+\/data\/file\.bin\?…: 127\.0\.0\.1:\d+ sent nothing for 2 s/,
      'unreachable',
    ],
    [
      'stops in the middle',
      later((_, s) => void s.writeHead(206, range).write(Buffer.alloc(10))),
      /127\.0\.0\.1:\d+ sent nothing for 2 s/,
      'unreachable',
    ],
    [
      'forgets ranges',
      later((_, s) => void s.writeHead(200).end()),
      /no longer supports ranges \(HTTP 200\)/,
    ],
    ['has no such file', (_, s) => void s.writeHead(404).end(), /it does not exist \(HTTP 404\)/, 'missing'],
    [
      'does not allow it',
      (_, s) => void s.writeHead(403).end(),
      /does not allow it \(HTTP 403\)/,
      'forbidden',
    ],
    ['always fails', (_, s) => void s.writeHead(500).end(), /the server answers 500/, 'unreachable'],
    [
      'does not say the size',
      (_, s) => void s.writeHead(200, { 'Transfer-Encoding': 'chunked' }).end('x'),
      /does not say how large/,
    ],
    [
      'redirects elsewhere',
      (_, s) => void s.writeHead(302, { Location: 'ftp://host/x' }).end(),
      /redirected to ftp:\/\/host, which is not followed/,
    ],
  ];
  for (const [what, script, message, problem] of cases) {
    test(`that ${what} is an error`, async () => {
      await withServer(script, async (url) => {
        await assert.rejects(reading(url), (error: Error) => {
          assert.match(error.message, message);
          assert.doesNotMatch(error.message, /xyz/, 'a query may be a secret');
          assert.equal(problemOf(error), problem);
          return (error as { code?: string }).code === code;
        });
      });
    });
  }

  test('that drips is an error', async () => {
    const drip = later((_, response) => {
      response.writeHead(206, range);
      const timer = setInterval(() => response.write('x'), 5);
      response.on('close', () => clearInterval(timer));
    });
    const fileSystem = new HttpFileSystem(settingsForTests({ fileTimeoutMs: 3_000 }), 1_000);
    await withServer(drip, async (url) => {
      await assert.rejects(reading(url, fileSystem), {
        code,
        message: /127\.0\.0\.1:\d+ sent \d+ of 100000 bytes in 1 s/,
      });
    });
    fileSystem.close();
  });

  test('that nobody listens at is an error that names it', async () => {
    const url = `http://127.0.0.1:${await freePort()}/x`;
    await assert.rejects(reading(url), { code, message: /127\.0\.0\.1:\d+ refused the connection/ });
  });

  test('ends a wait when the signal says so', async () => {
    await withServer(
      () => undefined,
      async (url, requests) => {
        const controller = new AbortController();
        const opening = patient.open(url, { signal: controller.signal });
        while (requests.length === 0) await new Promise((resolve) => setImmediate(resolve));
        controller.abort();
        await assert.rejects(opening, { code: 'ERR_HVD_ABORTED' });
      },
    );
  });
});

describe('a web server without ranges', () => {
  const whole: Script = (_, response) =>
    void response.writeHead(200, { 'Content-Length': content.length }).end(content);

  test('is read in order, and only so', async () => {
    await withServer(whole, async (url) => {
      await using file = await patient.open(url);
      assert.equal(file.isSequential, true);
      assert.deepEqual(await at(file, 0, 100_000), content.subarray(0, 100_000));
      await assert.rejects(at(file, 0, 10), {
        code,
        message:
          /only from its beginning to its end, because the server does not support ranges \(asked for byte 0, was at 100000\)/,
      });
      assert.deepEqual(await at(file, 100_000, 300_000), content.subarray(100_000));
    });
  });

  test('that loses the connection ends the reading', async () => {
    await withServer(
      (_, response) => {
        response.writeHead(200, { 'Content-Length': content.length });
        response.write(content.subarray(0, 1000), () => response.destroy());
      },
      async (url) => {
        await using file = await patient.open(url);
        await assert.rejects(at(file, 0, 2000), {
          code,
          message: /closed the connection too early, after 0 of 300000 bytes.*cannot continue/,
        });
      },
    );
  });
});

test('web servers are for reading', async () => {
  const url = 'http://127.0.0.1:1/x';
  for (const action of [
    () => impatient.create(url),
    () => impatient.mkdir(url),
    () => impatient.remove(url),
    () => impatient.rename(url),
  ]) {
    await assert.rejects(action(), { code, message: /can only be read/ });
  }
  await assert.rejects(impatient.list(url), { code, message: /cannot be listed/ });
});
