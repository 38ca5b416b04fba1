import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { inspect } from 'node:util';
import {
  blockSize,
  type FakeHdfs,
  opOf,
  remoteException,
  startFakeHdfs,
} from '../../../test/support/fake-hdfs.ts';
import { filesForTests } from '../../../test/support/files.ts';
import { freePort, startScriptedServer } from '../../../test/support/scripted-server.ts';
import type { FileSettings } from '../../settings/table.ts';
import { writeFileAtomically } from '../atomic-write.ts';
import { type FileSystem, problemOf } from '../file-system.ts';
import { glob } from '../glob.ts';
import { readFile, readTextFile, statusOf } from '../read-file.ts';
import type { Files } from '../registry.ts';

const code = 'ERR_HVD_FILE_SYSTEM';
const content = Buffer.from(new Uint8Array(5 * blockSize + 100).map((_, i) => i % 251));
/** Only what the test provokes ends a wait. */
const patientMs = 30_000;
/** For waits that must end: a busy machine still answers within it. */
const impatientMs = 2_000;

interface World {
  readonly hdfs: FakeHdfs;
  readonly files: Files;
  readonly fs: FileSystem;
}

async function startWorld(t: TestContext, settings: Partial<FileSettings> = {}): Promise<World> {
  const hdfs = await startFakeHdfs();
  const files = filesForTests({
    webHdfs: hdfs.namenode.host,
    hadoopUser: 'hvd',
    fileTimeoutMs: patientMs,
    ...settings,
  });
  t.after(async () => {
    await files.close();
    await hdfs[Symbol.asyncDispose]();
  });
  return { hdfs, files, fs: await files.fileSystem('hdfs://nn/') };
}

describe('WebHDFS', { concurrency: true }, () => {
  test('reads ranges, and asks the namenode once for each block', async (t) => {
    const { hdfs, fs } = await startWorld(t);
    hdfs.files.set('/a b%é#.bin', content);
    await using file = await fs.open('hdfs://nn:8020/a b%é#.bin');
    assert.equal(file.size, content.length);
    const read = async (position: number, length: number) => {
      const target = Buffer.alloc(length);
      return target.subarray(0, await file.read(target, position));
    };
    assert.deepEqual(await read(10, 100), content.subarray(10, 110));
    assert.deepEqual(await read(200, 100), content.subarray(200, 300));
    assert.deepEqual(await read(blockSize - 10, 20), content.subarray(blockSize - 10, blockSize + 10));
    assert.equal(hdfs.namenode.received.filter((request) => opOf(request) === 'OPEN').length, 1);
    assert.deepEqual(await read(content.length - 5, 100), content.subarray(-5));
    assert.equal((await read(content.length, 10)).length, 0);
    const opened = hdfs.namenode.received.filter((request) => opOf(request) === 'OPEN');
    assert.equal(opened.length, 2);
    for (const { headers, url } of hdfs.namenode.received) {
      assert.ok(headers['x-xsrf-header']);
      assert.equal(url.searchParams.get('user.name'), 'hvd');
    }
  });

  test('creates, appends, renames, lists and removes', async (t) => {
    const { hdfs, files, fs } = await startWorld(t);
    await fs.mkdir('hdfs://nn/run/logs');
    await writeFileAtomically(files, 'hdfs://nn/run/model.json', 'first', { permission: 0o600 });
    await writeFileAtomically(files, 'hdfs://nn/run/model.json', 'second');
    assert.equal(
      hdfs.namenode.received.find((r) => opOf(r) === 'CREATE')?.url.searchParams.get('permission'),
      '600',
    );
    assert.equal(await readTextFile(files, 'hdfs://nn/run/model.json'), 'second');
    await fs.append?.('hdfs://nn/run/model.json', Buffer.from('!'));
    assert.equal(await readTextFile(files, new URL('hdfs://nn/run/model.json')), 'second!');
    for (const name of ['b', 'c', 'a']) await writeFileAtomically(files, `hdfs://nn/run/${name}.csv`, name);
    const names = (await fs.list('hdfs://nn/run')).map(({ name, kind, size }) => `${name} ${kind} ${size}`);
    assert.deepEqual(names, [
      'a.csv file 1',
      'b.csv file 1',
      'c.csv file 1',
      'logs folder 0',
      'model.json file 7',
    ]);
    assert.deepEqual(await glob(files, 'hdfs://nn/r*/[ab].csv'), [
      'hdfs://nn/run/a.csv',
      'hdfs://nn/run/b.csv',
    ]);
    const { modifiedMs, owner, permission } = await fs.stat('hdfs://nn/run/../run/a.csv');
    assert.deepEqual([modifiedMs, owner, permission], [1234, 'hvd', 0o644]);
    await assert.rejects(fs.remove('hdfs://nn/run'), (error) => problemOf(error) === 'exists');
    await fs.remove('hdfs://nn/run', { recursive: true });
    await fs.remove('hdfs://nn/run');
    assert.deepEqual([...hdfs.files.keys()], ['/']);
  });

  test('large files are sent while they are written; giving one up leaves nothing', async (t) => {
    const { hdfs, files, fs } = await startWorld(t);
    const large = Buffer.alloc(20 * 2 ** 20 + 3, 7);
    await writeFileAtomically(files, 'hdfs://nn/large', large);
    assert.equal(Buffer.compare(await readFile(files, 'hdfs://nn/large'), large), 0);
    {
      await using file = await fs.create('hdfs://nn/given-up');
      await file.write(large);
    }
    assert.deepEqual([...hdfs.files.keys()], ['/', '/large']);
  });

  test('the odd answers become errors with a text', async (t) => {
    const { hdfs, fs } = await startWorld(t);
    hdfs.files.set('/a', content).set('/b', content);
    const failing = (work: Promise<unknown> | undefined, message: RegExp, problem?: string) =>
      assert.rejects(work as Promise<unknown>, (error: Error) => {
        assert.match(error.message, message);
        assert.equal(problemOf(error), problem);
        return true;
      });
    await failing(fs.open('hdfs://nn/no'), /Cannot read hdfs:\/\/nn\/no: it does not exist\./, 'missing');
    await failing(fs.rename('hdfs://nn/a', 'hdfs://nn/b'), /that exists already/, 'exists');
    await failing(
      fs.rename('hdfs://nn/no', 'hdfs://nn/c'),
      /Cannot rename hdfs:\/\/nn\/no: it does not exist/,
      'missing',
    );
    await failing(fs.create('hdfs://nn/a'), /it exists already/, 'exists');
    await failing(
      fs.append?.('hdfs://nn/no', content),
      /Cannot append to hdfs:\/\/nn\/no: it does not exist/,
      'missing',
    );
    await failing(fs.list('hdfs://nn/a'), /it is not a folder/, 'not a folder');
    await failing(fs.open('hdfs://nn/'), /is a folder, not a file/);
    hdfs.atNamenode = (_, response) =>
      remoteException(
        response,
        403,
        'AccessControlException',
        'Permission denied: user=hvd, access=WRITE\n\tat java.Stack',
      );
    await failing(
      fs.mkdir('hdfs://nn/x'),
      /permission denied for user hvd \(Permission denied: user=hvd, access=WRITE\)\.$/,
      'forbidden',
    );
    hdfs.atNamenode = (_, response) => remoteException(response, 403, 'IOException', 'something else');
    await failing(fs.mkdir('hdfs://nn/x'), /answers IOException: something else\.$/);
  });

  test('servers without LISTSTATUS_BATCH are asked for everything at once', async (t) => {
    const { hdfs, fs } = await startWorld(t);
    const FileStatus = [
      {
        pathSuffix: 'x',
        type: 'FILE',
        length: 3,
        blockSize,
        modificationTime: 0,
        owner: 'o',
        permission: '644',
      },
    ];
    hdfs.atNamenode = (request, response) => {
      if (opOf(request) !== 'LISTSTATUS') return false;
      response.end(JSON.stringify({ FileStatuses: { FileStatus } }));
      return true;
    };
    hdfs.namenode.received.length = 0;
    const original = hdfs.atNamenode;
    hdfs.atNamenode = (request, response) =>
      opOf(request) === 'LISTSTATUS_BATCH'
        ? remoteException(
            response,
            400,
            'IllegalArgumentException',
            'Invalid value for webhdfs parameter "op"',
          )
        : original(request, response);
    assert.deepEqual(
      (await fs.list('hdfs://nn/')).map(({ location }) => location),
      ['hdfs://nn/x'],
    );
  });

  test('a gateway that gives the bytes itself is fine', async (t) => {
    const { hdfs, files } = await startWorld(t);
    hdfs.files.set('/a', content);
    hdfs.atNamenode = (request, response) => {
      if (opOf(request) !== 'OPEN') return false;
      response.end(content);
      return true;
    };
    assert.deepEqual(Buffer.from(await readFile(files, 'hdfs://nn/a')), content);
  });
});

describe('a bad HDFS', { concurrency: true }, () => {
  test('a standby namenode leads to the active one, which is remembered', async (t) => {
    await using standby = await startScriptedServer(
      (_, response) =>
        void remoteException(
          response,
          403,
          'StandbyException',
          'Operation category READ is not supported in state standby',
        ),
    );
    const hdfs = await startFakeHdfs();
    t.after(() => hdfs[Symbol.asyncDispose]());
    hdfs.files.set('/a', content);
    const webHdfs = `http://127.0.0.1:${await freePort()},${standby.host}, ${hdfs.namenode.host}`;
    const files = filesForTests({ webHdfs, fileTimeoutMs: patientMs });
    t.after(() => files.close());
    assert.deepEqual(Buffer.from(await readFile(files, 'hdfs://ns/a')), content);
    assert.deepEqual(Buffer.from(await readFile(files, 'hdfs://ns/a')), content);
    assert.equal(standby.received.length, 1);
    const alone = filesForTests({ webHdfs: standby.host, fileTimeoutMs: impatientMs });
    t.after(() => alone.close());
    await assert.rejects(statusOf(alone, 'hdfs://ns/a'), {
      code,
      message: /no namenode is active \(127\.0\.0\.1:\d+\)/,
    });
  });

  test('a namenode that is away is named, with the settings', async (t) => {
    // Other tests may get the free port, but none listens at this address.
    const away = `127.0.0.77:${await freePort()}`;
    const files = filesForTests({ webHdfs: away, fileTimeoutMs: impatientMs });
    t.after(() => files.close());
    await assert.rejects(statusOf(files, 'hdfs://nn:8020/a'), {
      code,
      message:
        `${code}: Cannot read hdfs://nn:8020/a: namenode ${away} refused the connection. This is the address of ` +
        'WebHDFS (dfs.namenode.http-address), not that of the URL; to set it, use HOROVOD_WEBHDFS=host:port or HADOOP_CONF_DIR.',
    });
  });

  test('safe mode is waited for', async (t) => {
    const { hdfs, fs } = await startWorld(t);
    let times = 2;
    hdfs.atNamenode = (_, response) =>
      times-- > 0 &&
      remoteException(
        response,
        403,
        'SafeModeException',
        'Cannot create directory. Name node is in safe mode.',
      );
    await fs.mkdir('hdfs://nn/x');
    assert.equal(hdfs.namenode.received.length, 3);
  });

  test('safe mode that does not end is an error', async (t) => {
    const { hdfs, fs } = await startWorld(t, { fileTimeoutMs: impatientMs });
    hdfs.atNamenode = (_, response) =>
      remoteException(response, 403, 'SafeModeException', 'Name node is in safe mode.');
    await assert.rejects(fs.mkdir('hdfs://nn/x'), {
      code,
      message: /HDFS has been in safe mode for 2 s.*HOROVOD_FILE_TIMEOUT/,
    });
  });

  test('a datanode that cannot be reached is excluded, and the read goes on', async (t) => {
    const { hdfs, files } = await startWorld(t);
    hdfs.files.set('/a', content);
    const [good, dead] = [hdfs.datanodeHost, `127.0.0.1:${await freePort()}`];
    hdfs.atNamenode = ({ url }) => {
      hdfs.datanodeHost = (url.searchParams.get('excludedatanodes') ?? '').split(',').includes(dead)
        ? good
        : dead;
      return false;
    };
    assert.deepEqual(Buffer.from(await readFile(files, 'hdfs://nn/a')), content);
    await writeFileAtomically(files, 'hdfs://nn/b', content);
    assert.deepEqual(hdfs.files.get('/b'), content);
  });

  test('if there is no other datanode, the error names it and says what to do', async (t) => {
    const { hdfs, files } = await startWorld(t, { fileTimeoutMs: impatientMs });
    hdfs.files.set('/a', content);
    hdfs.datanodeHost = `127.0.0.1:${await freePort()}`;
    await assert.rejects(readFile(files, 'hdfs://nn/a'), (error: Error) => {
      assert.match(
        error.message,
        new RegExp(
          `Cannot read hdfs://nn/a: datanode ${hdfs.datanodeHost} refused the connection\\. The namenode sends`,
        ),
      );
      assert.match(error.message, /dfs\.datanode\.hostname/);
      return problemOf(error) === 'unreachable';
    });
  });

  test('a datanode that dies in the middle of a range is replaced', async (t) => {
    const { hdfs, files } = await startWorld(t);
    hdfs.files.set('/a', content);
    let deaths = 2;
    hdfs.atDatanode = (_, response) => {
      if (deaths-- <= 0) return false;
      response.writeHead(200, { 'Content-Length': content.length });
      response.write(content.subarray(0, 1000), () => response.destroy());
      return true;
    };
    assert.deepEqual(Buffer.from(await readFile(files, 'hdfs://nn/a')), content);
  });

  const reads: readonly (readonly [string, FakeHdfs['atDatanode'], RegExp, string?])[] = [
    [
      'ends early',
      (_, r) => !!r.end(content.subarray(0, 100)),
      /hdfs:\/\/nn\/a ended at byte 100 of 5220: it has changed/,
      'changed',
    ],
    [
      'sends too much',
      (_, r) => !!r.end(Buffer.concat([content, content])),
      /datanode 127\.0\.0\.1:\d+ sends more bytes than/,
    ],
    ['is silent', () => true, /datanode 127\.0\.0\.1:\d+ sent nothing for 2 s\.$/, 'unreachable'],
    [
      'stops in the middle',
      (_, r) => !!r.writeHead(200).write('x'),
      /datanode 127\.0\.0\.1:\d+ sent nothing for 2 s\.$/,
      'unreachable',
    ],
    [
      'has lost the block',
      (_, r) => remoteException(r, 403, 'BlockMissingException', 'Could not obtain block'),
      /BlockMissingException: Could not/,
      'unreachable',
    ],
  ];
  for (const [what, script, message, problem] of reads) {
    test(`a datanode that ${what} is an error`, async (t) => {
      const { hdfs, files } = await startWorld(t, { fileTimeoutMs: impatientMs });
      hdfs.files.set('/a', content);
      hdfs.atDatanode = script;
      await assert.rejects(readFile(files, 'hdfs://nn/a'), (error: Error) => {
        assert.match(error.message, message);
        assert.equal(problemOf(error), problem);
        return true;
      });
    });
  }

  test('bytes whose answer was lost are not appended twice', async (t) => {
    const { hdfs, fs } = await startWorld(t);
    hdfs.files.set('/log', Buffer.from('a'));
    let losses = 1;
    hdfs.atDatanode = ({ body }, response) => {
      if (losses-- <= 0) return false;
      hdfs.files.set('/log', Buffer.concat([hdfs.files.get('/log') as Buffer, body]));
      response.destroy();
      return true;
    };
    await fs.append?.('hdfs://nn/log', Buffer.from('b'));
    await fs.append?.('hdfs://nn/log', Buffer.from('c'));
    assert.equal(String(hdfs.files.get('/log')), 'abc');
    losses = 1;
    hdfs.atDatanode = (_, response) => losses-- > 0 && !!response.destroy();
    await fs.append?.('hdfs://nn/log', Buffer.from('d'));
    assert.equal(String(hdfs.files.get('/log')), 'abcd');
  });

  test('a rename whose answer was lost has happened', async (t) => {
    const { hdfs, fs } = await startWorld(t);
    hdfs.files.set('/a', content);
    let losses = 1;
    hdfs.atNamenode = (request, response) => {
      if (opOf(request) !== 'RENAME' || losses-- <= 0) return false;
      hdfs.files.set('/b', content);
      hdfs.files.delete('/a');
      response.destroy();
      return true;
    };
    await fs.rename('hdfs://nn/a', 'hdfs://nn/b', { overwrite: true });
    assert.deepEqual([...hdfs.files.keys()], ['/', '/b']);
  });

  test('a datanode that rejects a large file ends the writing with its reason', async (t) => {
    const { hdfs, files } = await startWorld(t);
    hdfs.atDatanode = (_, response) =>
      remoteException(response, 403, 'DSQuotaExceededException', 'The DiskSpace quota is exceeded');
    await assert.rejects(writeFileAtomically(files, 'hdfs://nn/large', Buffer.alloc(9 * 2 ** 20)), {
      code,
      message: /DSQuotaExceededException: The DiskSpace quota is exceeded/,
    });
    await assert.rejects(writeFileAtomically(files, 'hdfs://nn/small', 'x'), {
      code,
      message: /DSQuotaExceeded/,
    });
    assert.deepEqual([...hdfs.files.keys()], ['/']);
  });
});

describe('authentication', { concurrency: true }, () => {
  const token = 'KAAKAYoBSecretTokenText';

  test('a 401 says how to get a token', async (t) => {
    const { hdfs, fs } = await startWorld(t);
    hdfs.atNamenode = (_, response) => !!response.writeHead(401, { 'WWW-Authenticate': 'Negotiate' }).end();
    await assert.rejects(fs.stat('hdfs://nn/a'), (error: Error) => {
      assert.match(error.message, /asks for authentication by Kerberos/);
      assert.ok(
        error.message.includes(
          `curl --negotiate -u : '${hdfs.namenode.origin}/webhdfs/v1/?op=GETDELEGATIONTOKEN'`,
        ),
      );
      return problemOf(error) === 'forbidden';
    });
  });

  test('a token goes to the server instead of a user name, and into no error', async (t) => {
    const { hdfs, fs, files } = await startWorld(t, { hdfsToken: token, fileTimeoutMs: impatientMs });
    hdfs.files.set('/a', content);
    assert.deepEqual(Buffer.from(await readFile(files, 'hdfs://nn/a')), content);
    for (const { url } of [...hdfs.namenode.received, ...hdfs.datanode.received]) {
      assert.equal(url.searchParams.get('delegation'), token);
      assert.equal(url.searchParams.get('user.name'), null);
    }
    const errors: Error[] = [];
    const keep = async (work: Promise<unknown>) => {
      const error = await work.then(
        () => undefined,
        (reason: Error) => reason,
      );
      assert.ok(error);
      errors.push(error);
    };
    hdfs.atNamenode = (_, response) =>
      remoteException(response, 403, 'InvalidToken', `token ${token} is expired`);
    await keep(fs.stat('hdfs://nn/a'));
    assert.match(
      errors[0]?.message ?? '',
      /does not accept the delegation token: it has expired.*token \(token\) is expired/,
    );
    hdfs.atNamenode = (_, response) =>
      remoteException(response, 403, 'AccessControlException', `no ${token}`);
    await keep(fs.stat('hdfs://nn/a'));
    hdfs.atNamenode = () => false;
    hdfs.datanodeHost = `127.0.0.1:${await freePort()}`;
    await keep(readFile(files, 'hdfs://nn/a'));
    hdfs.datanodeHost = hdfs.datanode.host;
    hdfs.atDatanode = (_, response) => !!response.destroy();
    await keep(readFile(files, 'hdfs://nn/a'));
    for (const error of errors)
      assert.ok(!inspect(error, { depth: 10, showHidden: true }).includes(token), error.message);
  });

  test('a token that was renewed in its file is taken', async (t) => {
    const folder = mkdtempSync(join(tmpdir(), 'hvd-token-'));
    t.after(() => rmSync(folder, { recursive: true }));
    const path = join(folder, 'tokens');
    const write = (password: string) => {
      const text = (value: string) => [Buffer.from([value.length]), Buffer.from(value)];
      const parts = ['alias', 'id', password, 'HDFS_DELEGATION_TOKEN', 'ha-hdfs:nn'].flatMap(text);
      writeFileSync(path, Buffer.concat([Buffer.from('HDTS\0\x01'), ...parts, Buffer.from([0])]));
    };
    write('old');
    const { hdfs, fs } = await startWorld(t, { hadoopTokenFile: path });
    hdfs.files.set('/a', content);
    await fs.stat('hdfs://nn/a');
    const old = hdfs.namenode.received[0]?.url.searchParams.get('delegation');
    hdfs.atNamenode = ({ url }, response) =>
      url.searchParams.get('delegation') === old && remoteException(response, 401, 'InvalidToken', 'expired');
    await assert.rejects(fs.stat('hdfs://nn/a'), { code, message: /does not accept the delegation token/ });
    write('new');
    await fs.stat('hdfs://nn/a');
  });
});
