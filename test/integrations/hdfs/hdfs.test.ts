// A real HDFS: what scripted servers cannot show. One cluster for all tests; the one that kills a datanode is the last.

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, type TestContext, test } from 'node:test';
import * as tf from '@tensorflow/tfjs';
import { BestModelCheckpoint } from '../../../src/adapters/keras/callbacks/best-model-checkpoint.ts';
import { ModelCheckpoint } from '../../../src/adapters/keras/callbacks/model-checkpoint.ts';
import { TensorBoard } from '../../../src/adapters/keras/callbacks/tensorboard.ts';
import { lastSavedEpoch } from '../../../src/adapters/keras/last-saved-epoch.ts';
import { loadModel } from '../../../src/adapters/keras/load-model.ts';
import { init, shutdown } from '../../../src/context/default/default-context.ts';
import { defaultFiles } from '../../../src/context/default/default-files.ts';
import { writeTfRecords } from '../../../src/data/tfrecord-writer.ts';
import { createAtomically, writeFileAtomically } from '../../../src/files/atomic-write.ts';
import { type FileSystem, problemOf } from '../../../src/files/file-system.ts';
import { glob } from '../../../src/files/glob.ts';
import { readAhead } from '../../../src/files/read-ahead.ts';
import { readFile, readTextFile, statusOf } from '../../../src/files/read-file.ts';
import type { Files } from '../../../src/files/registry.ts';
import { parseTokenFile } from '../../../src/files/webhdfs/tokens.ts';
import type { FileSettings } from '../../../src/settings/table.ts';
import { spawnRanks, startHorovodrun } from '../../../src/testing/spawn-ranks.ts';
import { filesForTests } from '../../support/files.ts';
import { type HdfsCluster, hadoopLib, hdfsBlockSize, killed, startHdfs } from '../../support/hdfs-cluster.ts';
import { fixturePath, repository } from '../../support/repository.ts';

const hadoop = hadoopLib();

/** Two compute workers until the test ends; returns where their config is. */
function startService(t: TestContext, env: NodeJS.ProcessEnv): string {
  const folder = mkdtempSync(join(tmpdir(), 'horovod-data-service-'));
  const path = join(folder, 'compute.json');
  const run = startHorovodrun(['-np', '2', 'horovod', 'compute-worker', path], { env, cwd: repository });
  t.after(async () => {
    run.child.kill('SIGTERM');
    await run.ended;
    rmSync(folder, { recursive: true });
  });
  return path;
}

describe('HDFS', { skip: 'reason' in hadoop && hadoop.reason }, () => {
  let cluster: HdfsCluster;
  let files: Files;
  let fs: FileSystem;
  const opened: Files[] = [];
  const filesOf = (settings: Partial<FileSettings>) => {
    const found = filesForTests({ hadoopConfDir: cluster.confDir, ...settings });
    opened.push(found);
    return found;
  };
  const content = Buffer.from(
    new Uint8Array(12 * hdfsBlockSize + 12_345).map((_, i) => (i * 31 + (i >> 10)) % 251),
  );

  before(async () => {
    cluster = await startHdfs('lib' in hadoop ? hadoop.lib : '');
    files = filesOf({ hadoopUser: 'hvd' });
    fs = await files.fileSystem('hdfs:///');
    await writeFileAtomically(files, 'hdfs:///data/large.bin', content);
  });
  after(async () => {
    await Promise.all(opened.map((each) => each.close()));
    await cluster?.[Symbol.asyncDispose]();
  });

  test('gives ranges across blocks, and nothing past the end', async () => {
    await using file = await fs.open('hdfs:///data/large.bin');
    assert.equal(file.size, content.length);
    for (const [position, length] of [
      [0, 10],
      [hdfsBlockSize - 5, 10],
      [3 * hdfsBlockSize - 1, 2 * hdfsBlockSize + 2],
      [content.length - 7, 100],
      [content.length, 100],
    ] as const) {
      const target = Buffer.alloc(length);
      const count = await file.read(target, position);
      assert.deepEqual(target.subarray(0, count), content.subarray(position, position + length));
    }
    const hash = createHash('sha256');
    for await (const piece of readAhead(file, { pieceBytes: 1_000_000 })) hash.update(piece);
    assert.equal(hash.digest('hex'), createHash('sha256').update(content).digest('hex'));
  });

  test('knows its own address: hdfs:///, host and port, and webhdfs://', async () => {
    for (const location of [
      `hdfs://${cluster.rpc}/data/large.bin`,
      `webhdfs://${cluster.webHdfs}/data/large.bin`,
    ]) {
      assert.equal((await statusOf(files, location))?.size, content.length);
    }
    const bySetting = filesOf({ hadoopConfDir: undefined, webHdfs: cluster.webHdfs });
    assert.equal((await statusOf(bySetting, 'hdfs://any:1/data/large.bin'))?.size, content.length);
  });

  test('lists many entries in batches', async () => {
    const names = Array.from({ length: 1100 }, (_, i) => `part-${String(i).padStart(5, '0')}`);
    const left = [...names];
    const make = async () => {
      for (let name = left.pop(); name !== undefined; name = left.pop())
        await fs.mkdir(`hdfs:///many/${name}/x`);
    };
    await Promise.all(Array.from({ length: 16 }, make));
    const listed = await fs.list('hdfs:///many');
    assert.deepEqual(listed.map(({ name }) => name).sort(), names);
    await fs.remove('hdfs:///many', { recursive: true });
    assert.equal(await statusOf(files, 'hdfs:///many'), undefined);
  });

  test('creates, replaces by a rename, appends, and keeps names as they are', async () => {
    const location = 'hdfs:///run/run 1%é#?.txt';
    await writeFileAtomically(files, location, 'first', { permission: 0o600 });
    assert.equal((await fs.stat(location)).permission, 0o600);
    await using next = await createAtomically(files, location);
    await next.write(Buffer.from('second'));
    assert.equal(await readTextFile(files, location), 'first');
    await next.close();
    await fs.append?.(location, Buffer.from('+'));
    await fs.append?.(location, Buffer.from('+'));
    assert.equal(await readTextFile(files, location), 'second++');
    assert.deepEqual(await glob(files, 'hdfs:///run/run*.txt'), [location]);
    await assert.rejects(fs.create(location), (error) => problemOf(error) === 'exists');
    await writeFileAtomically(files, 'hdfs:///run/empty', '');
    assert.equal((await readFile(files, 'hdfs:///run/empty')).length, 0);
    await fs.remove('hdfs:///run/empty');
    await fs.remove('hdfs:///run/empty');
    await assert.rejects(fs.remove('hdfs:///run'), (error) => problemOf(error) === 'exists');
    await fs.rename(location, 'hdfs:///run/moved');
    await assert.rejects(fs.rename(location, 'hdfs:///run/other'), (error) => problemOf(error) === 'missing');
  });

  test('says what is missing and what is forbidden, and for whom', async () => {
    await assert.rejects(fs.open('hdfs:///no'), {
      message: /Cannot read hdfs:\/\/\/no: it does not exist\./,
    });
    await assert.rejects(fs.list('hdfs:///data/large.bin'), (error) => problemOf(error) === 'not a folder');
    const stranger = filesOf({ hadoopUser: 'stranger' });
    await assert.rejects(writeFileAtomically(stranger, 'hdfs:///data/x', 'x'), (error: Error) => {
      assert.match(
        error.message,
        /permission denied for user stranger \(Permission denied: user=stranger, access=WRITE/,
      );
      return problemOf(error) === 'forbidden';
    });
    await writeFileAtomically(files, 'hdfs:///data/secret', 'x', { permission: 0o600 });
    await assert.rejects(
      readFile(stranger, 'hdfs:///data/secret'),
      (error) => problemOf(error) === 'forbidden',
    );
    await fs.mkdir('hdfs:///tmp');
    assert.equal((await fs.stat('hdfs:///tmp')).owner, 'hvd');
  });

  test('its tokens are taken, as text and from the file of a job', async () => {
    const url = `http://${cluster.webHdfs}/webhdfs/v1/?op=GETDELEGATIONTOKEN&user.name=hvd&renewer=hvd`;
    const { Token } = (await (await fetch(url)).json()) as { Token: { urlString: string } };
    const byText = filesOf({ hdfsToken: Token.urlString });
    assert.equal((await readFile(byText, 'hdfs:///data/large.bin')).length, content.length);
    const path = join(cluster.confDir, 'tokens');
    cluster.admin('org.apache.hadoop.hdfs.tools.DelegationTokenFetcher', '--renewer', 'hvd', path);
    assert.deepEqual(
      parseTokenFile(readFileSync(path)).map(({ kind }) => kind),
      ['HDFS_DELEGATION_TOKEN'],
    );
    const byFile = filesOf({ hadoopTokenFile: path });
    assert.equal((await readFile(byFile, 'hdfs:///data/large.bin')).length, content.length);
  });

  test('safe mode is waited for', async () => {
    const admin = 'org.apache.hadoop.hdfs.tools.DFSAdmin';
    cluster.admin(admin, '-safemode', 'enter');
    const short = filesOf({ hadoopUser: 'hvd', fileTimeoutMs: 2000 });
    await assert.rejects((await short.fileSystem('hdfs:///')).mkdir('hdfs:///late'), {
      message: /HDFS has been in safe mode for 2 s/,
    });
    const making = fs.mkdir('hdfs:///late');
    cluster.admin(admin, '-safemode', 'leave');
    await making;
    assert.equal((await fs.stat('hdfs:///late')).kind, 'folder');
  });

  test('checkpoints and event files of a training go there, and come back', async () => {
    process.env['HADOOP_CONF_DIR'] = cluster.confDir;
    process.env['HADOOP_USER_NAME'] = 'hvd';
    try {
      await tf.setBackend('cpu');
      await init();
      const model = tf.sequential({ layers: [tf.layers.dense({ units: 3, inputShape: [2] })] });
      model.compile({ optimizer: tf.train.adam(0.01), loss: 'meanSquaredError' });
      const root = 'hdfs:///user/hvd/training';
      await model.fit(tf.ones([8, 2]), tf.ones([8, 3]), {
        epochs: 2,
        verbose: 0,
        callbacks: [
          new ModelCheckpoint(`${root}/epoch-{epoch}`),
          new BestModelCheckpoint({ filepath: `${root}/best`, monitor: 'loss' }),
          new TensorBoard(`${root}/logs`),
        ],
      });
      assert.equal(await lastSavedEpoch(`${root}/epoch-{epoch}`), 2);
      const loaded = await loadModel(`${root}/epoch-2`);
      const weights = (of: tf.LayersModel) => of.getWeights().map((weight) => [...weight.dataSync()]);
      assert.deepEqual(weights(loaded), weights(model));
      assert.equal((await fs.list(`${root}/best`)).length, 2);
      const [events] = await glob(files, `${root}/logs/train/*tfevents*`);
      const text = Buffer.from(await readFile(files, events ?? '')).toString('latin1');
      assert.equal(text.split('epoch_loss').length - 1, 2);
    } finally {
      await shutdown();
      await defaultFiles().close();
      delete process.env['HADOOP_CONF_DIR'];
      delete process.env['HADOOP_USER_NAME'];
    }
  });

  for (const isService of [false, true]) {
    const where = isService ? ', read by two compute workers,' : '';
    test(`a training on its files${where} is killed in mid-epoch and resumes, and ends with the weights of one that was not disturbed`, async (t) => {
      const samples = Array.from({ length: 200 }, (_, i) => {
        const x = Float32Array.from({ length: 4 }, (_, at) => Math.sin(i * 4 + at));
        return { x, y: Float32Array.of((x[0] as number) - 2 * (x[3] as number)) };
      });
      const root = `hdfs:///user/hvd/resume${isService ? '-service' : ''}`;
      const hadoopEnv = { HADOOP_CONF_DIR: cluster.confDir, HADOOP_USER_NAME: 'hvd' };
      const env = { ...hadoopEnv, HOROVOD_DATA_THREADS: '1' };
      Object.assign(process.env, hadoopEnv);
      try {
        await writeTfRecords(samples, `${root}/train-{shard}.tfrecord`, { shards: 3 });
        const config = isService ? startService(t, env) : '';
        const train = (checkpoint: string, ...dying: string[]) =>
          spawnRanks(2, fixturePath('data/train-and-resume.ts'), {
            args: [`${root}/train-*.tfrecord`, `${root}/${checkpoint}/checkpoint`, config, ...dying],
            env,
          });
        const undisturbed = await train('undisturbed');
        assert.equal(undisturbed.exitCode, 0, undisturbed.stderr);
        // Of 26 steps, 13 in an epoch: in the first epoch, and in the second.
        const first = await train('disturbed', '1', '8');
        assert.notEqual(first.exitCode, 0);
        const second = await train('disturbed', '0', '12');
        assert.notEqual(second.exitCode, 0);
        const last = await train('disturbed');
        assert.equal(last.exitCode, 0, last.stderr);
        const [expected, resumed] = [undisturbed, last].map(
          ({ ranks }) =>
            JSON.parse(ranks[0]?.stdout ?? '') as { isResumed: boolean; step: number; weights: string },
        );
        assert.deepEqual([expected?.isResumed, expected?.step], [false, 26]);
        // 6 steps were saved of the first run, and 9 of the second.
        assert.deepEqual([resumed?.isResumed, resumed?.step], [true, 11]);
        assert.equal(resumed?.weights, expected?.weights);
      } finally {
        await defaultFiles().close();
        for (const name of Object.keys(hadoopEnv)) delete process.env[name];
      }
    });
  }

  test('a datanode that is killed in the middle of a file costs time, and no byte', async () => {
    await using file = await fs.open('hdfs:///data/large.bin');
    const pieces: Uint8Array[] = [];
    for await (const piece of readAhead(file, { pieceBytes: 300_000, inFlight: 4 })) {
      if (pieces.length === 3) await killed(cluster.datanodes[0] as never);
      pieces.push(piece);
    }
    assert.equal(Buffer.compare(Buffer.concat(pieces), content), 0);
    await writeFileAtomically(files, 'hdfs:///data/after', 'written by the other one');
    assert.equal(await readTextFile(files, 'hdfs:///data/after'), 'written by the other one');
  });
});
