// A registry on this machine that knows a few tarballs, and asks npm's own registry for everything else.

import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { basename } from 'node:path';

/** `packages`: { manifest, tarball }, with the path of the tarball. Resolves to { url, close }. */
export async function startRegistry(packages) {
  const upstream = execFileSync('npm', ['config', 'get', 'registry', '--loglevel=silent'], {
    encoding: 'utf8',
  }).trim();
  const server = createServer((request, response) => {
    answer(request).then(
      ({ status = 200, type = 'application/json', body }) => {
        response.writeHead(status, { 'content-type': type }).end(body);
      },
      (error) => response.writeHead(502).end(String(error)),
    );
  });

  async function answer(request) {
    const path = decodeURIComponent(new URL(request.url, 'http://registry').pathname);
    const file = packages.find(({ tarball }) => path === `/-/${basename(tarball)}`);
    if (file !== undefined) return { type: 'application/octet-stream', body: readFileSync(file.tarball) };
    const own = packages.filter(({ manifest }) => path === `/${manifest.name}`);
    if (own.length > 0) return { body: JSON.stringify(documentOf(own)) };
    const { status, headers, body } = await fetch(new URL(request.url.slice(1), upstream), {
      headers: { accept: request.headers.accept ?? '*/*' },
      signal: AbortSignal.timeout(60_000),
    }).then(async (got) => ({
      status: got.status,
      headers: got.headers,
      body: Buffer.from(await got.arrayBuffer()),
    }));
    return { status, type: headers.get('content-type') ?? 'application/json', body };
  }

  function documentOf(versions) {
    const [{ manifest: newest }] = versions;
    return {
      name: newest.name,
      'dist-tags': { latest: newest.version },
      versions: Object.fromEntries(
        versions.map(({ manifest, tarball }) => {
          const integrity = `sha512-${createHash('sha512').update(readFileSync(tarball)).digest('base64')}`;
          return [
            manifest.version,
            { ...manifest, dist: { tarball: `${url}/-/${basename(tarball)}`, integrity } },
          ];
        }),
      ),
    };
  }

  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  const url = `http://127.0.0.1:${server.address().port}`;
  return {
    url,
    close: () => {
      server.closeAllConnections();
      return new Promise((resolve) => server.close(resolve));
    },
  };
}
