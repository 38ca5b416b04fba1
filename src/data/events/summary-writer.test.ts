import assert from 'node:assert/strict';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { after, afterEach, describe, type TestContext, test } from 'node:test';
import { startFakeHdfs } from '../../../test/support/fake-hdfs.ts';
import { decodeEvents, fieldsOf, type ReadValue, readEvents } from '../../../test/support/read-events.ts';
import { defaultFiles } from '../../context/default/default-files.ts';
import { logdir } from './logdir.ts';
import { SummaryWriter } from './summary-writer.ts';

const folder = mkdtempSync(join(tmpdir(), 'horovod-summaries-'));
after(() => rmSync(folder, { recursive: true }));
let runs = 0;
const newRun = () => join(folder, `run-${++runs}`);

const variables = ['HOROVOD_RANK', 'HOROVOD_SIZE', 'HOROVOD_TENSORBOARD_DIR', 'HOROVOD_TENSORBOARD_RUN'];
afterEach(() => {
  for (const name of variables) delete process.env[name];
});

/** The only value of the only summary in a run. */
async function onlyValue(write: (writer: SummaryWriter) => void): Promise<ReadValue> {
  const dir = newRun();
  const writer = new SummaryWriter(dir);
  write(writer);
  await writer.flush();
  const [version, event, ...others] = readEvents(dir);
  assert.equal(version?.fileVersion, 'brain.Event:2');
  assert.deepEqual(others, []);
  assert.equal(event?.values.length, 1);
  return event?.values[0] as ReadValue;
}

describe('a summary as bytes', () => {
  test('scalars have tag, value and step, and the time of the call', async () => {
    const dir = newRun();
    const writer = new SummaryWriter(dir);
    await writer.scalar('loss', 0.5, 0);
    await writer.scalars({ 'a/x': -1, 'a/y': Number.NaN }, 2 ** 40);
    const [, first, second] = readEvents(dir);
    assert.deepEqual([first?.step, first?.scalars], [0, { loss: 0.5 }]);
    assert.deepEqual([second?.step, second?.scalars], [2 ** 40, { 'a/x': -1, 'a/y': Number.NaN }]);
    assert.ok(Math.abs((first?.wallTime ?? 0) - Date.now() / 1000) < 3600);
  });

  test('a histogram is a tensor of buckets: left, right, count', async () => {
    const { tag, tensor, plugin, dataClass } = await onlyValue(
      (writer) => void writer.histogram('weights', Float32Array.of(0, 1, 2), 3, { buckets: 2 }),
    );
    assert.deepEqual([tag, plugin, dataClass], ['weights', 'histograms', 2]);
    assert.deepEqual([tensor?.dtype, tensor?.shape], [2, [2, 3]]);
    const numbers = Array.from({ length: 6 }, (_, i) => tensor?.content.readDoubleLE(i * 8));
    assert.deepEqual(numbers, [0, 1, 1, 1, 2, 2]);
  });

  test('images are width, height and PNG files', async () => {
    const black = { data: new Uint8Array(6), width: 3, height: 2 };
    const { tensor, plugin, dataClass } = await onlyValue((writer) =>
      writer.image('input', [black, black], 0),
    );
    assert.deepEqual([plugin, dataClass, tensor?.dtype, tensor?.shape], ['images', 3, 7, [4]]);
    const [width, height, ...files] = tensor?.strings ?? [];
    assert.deepEqual([String(width), String(height), files.length], ['3', '2', 2]);
    assert.equal(files[0]?.toString('latin1', 1, 4), 'PNG');
  });

  test('text is a list of one string', async () => {
    const { tensor, plugin } = await onlyValue((writer) => writer.text('note', '**größer**', 0));
    assert.deepEqual([plugin, tensor?.shape, String(tensor?.strings[0])], ['text', [1], '**größer**']);
  });

  test('a layout is categories of charts', async () => {
    const { tag, tensor, plugin } = await onlyValue(
      (writer) => void writer.layout({ Training: { loss: ['train/loss', 'validation/loss'] } }),
    );
    assert.deepEqual([tag, plugin], ['custom_scalars__config__', 'custom_scalars']);
    const [category] = fieldsOf(tensor?.strings[0] as Buffer);
    const [title, chart] = fieldsOf(category?.[1] as Buffer);
    assert.deepEqual([title?.[0], String(title?.[1])], [1, 'Training']);
    const [name, lines] = fieldsOf(chart?.[1] as Buffer);
    assert.equal(String(name?.[1]), 'loss');
    assert.deepEqual(
      fieldsOf(lines?.[1] as Buffer).map(([field, tag]) => [field, String(tag)]),
      [
        [1, 'train/loss'],
        [1, 'validation/loss'],
      ],
    );
  });

  test('hyperparameters begin a session, which close() ends', async () => {
    const dir = newRun();
    const writer = new SummaryWriter(dir);
    void writer.hparams({ lr: 0.1, optimizer: 'adam', nesterov: true }, { group: 'g' });
    await writer.close();
    const [, start, end] = readEvents(dir).map(({ values }) => values[0]);
    assert.deepEqual([start?.tag, end?.tag], ['_hparams_/session_start_info', '_hparams_/session_end_info']);
    const info = fieldsOf(start?.pluginContent as Buffer)[0];
    assert.equal(info?.[0], 3);
    const fields = fieldsOf(info?.[1] as Buffer);
    const names = fields
      .filter(([field]) => field === 1)
      .map(([, entry]) => String(fieldsOf(entry as Buffer)[0]?.[1]));
    assert.deepEqual(names, ['lr', 'optimizer', 'nesterov']);
    assert.equal(String(fields.find(([field]) => field === 4)?.[1]), 'g');
    const [status] = fieldsOf(fieldsOf(end?.pluginContent as Buffer)[0]?.[1] as Buffer);
    assert.deepEqual(status, [1, 1]);
  });
});

describe('a writer', () => {
  test('writes in the order of its calls, whether or not they are awaited, and with the values of the call', async () => {
    const dir = newRun();
    await using writer = new SummaryWriter(dir);
    const values = Float32Array.of(1);
    void writer.histogram('a', values, 0);
    values[0] = 100;
    for (let step = 1; step < 50; step++) void writer.scalar('b', step, step);
    await writer.flush();
    const [, first, ...rest] = readEvents(dir);
    assert.equal(first?.values[0]?.tensor?.content.readDoubleLE(), 0.5);
    assert.deepEqual(
      rest.map(({ step }) => step),
      Array.from({ length: 49 }, (_, i) => i + 1),
    );
  });

  test('makes no folder before the first summary', async () => {
    const dir = newRun();
    const writer = new SummaryWriter(dir);
    await writer.flush();
    await writer.close();
    assert.ok(!existsSync(dir));
  });

  test('writes on its rank alone, which is 0 if nothing else is said', async () => {
    const [byDefault, byChoice] = [newRun(), newRun()];
    Object.assign(process.env, { HOROVOD_RANK: '1', HOROVOD_SIZE: '2' });
    await new SummaryWriter(byDefault).scalar('loss', 1, 0);
    await new SummaryWriter(byChoice, { rank: 1 }).scalar('loss', 1, 0);
    assert.deepEqual([existsSync(byDefault), existsSync(byChoice)], [false, true]);
  });

  test('that is closed writes nothing more; closing it again is fine', async () => {
    const writer = new SummaryWriter(newRun());
    void writer.scalar('loss', 1, 0);
    await Promise.all([writer.close(), writer.close()]);
    assert.throws(() => writer.scalar('loss', 1, 1), { code: 'ERR_HVD_INVALID_ARGUMENT', message: /closed/ });
  });

  test('rejects what TensorBoard cannot show, at the call', () => {
    const writer = new SummaryWriter(newRun());
    const code = 'ERR_HVD_INVALID_ARGUMENT';
    const calls: [() => unknown, RegExp][] = [
      [() => writer.scalar('', 1, 0), /scalar: a tag must be a string/],
      [() => writer.scalar('loss', '1' as never, 0), /the value of "loss" must be a number, not "1"/],
      [() => writer.scalar('loss', 1, 0.5), /step must be a whole number/],
      [() => writer.scalars({}, 0), /scalars: the object is empty/],
      [() => writer.histogram('w', 3 as never, 0), /histogram: values must be an array/],
      [() => writer.histogram('w', [1], 0, { buckets: 0 }), /buckets must be from 1/],
      [() => writer.image('i', [], 0), /list of images is empty/],
      [() => writer.image('i', [pixels(2), pixels(3)], 0), /have one size, not 2 × 1 and 3 × 1/],
      [() => writer.text('t', 1 as never, 0), /expected a string/],
      [() => writer.hparams({ lr: Number.NaN }), /"lr" must be a finite number/],
      [() => writer.layout({ a: { b: 'c' as never } }), /"b" must be a list of tags/],
      [() => new SummaryWriter(''), /SummaryWriter: dir must be a folder/],
      [() => new SummaryWriter('x', { rank: -1 }), /rank must be a rank/],
    ];
    for (const [call, message] of calls) assert.throws(call, { code, message });
  });

  test('whose folder cannot be made warns once, and says so at flush(); the program goes on', async (t) => {
    const dir = newRun();
    writeFileSync(dir, 'a file is in the way');
    const lines = stderrOf(t);
    const writer = new SummaryWriter(join(dir, 'below'));
    for (const step of [0, 1, 2]) void writer.scalar('loss', 1, step);
    await assert.rejects(writer.flush(), { code: 'ERR_HVD_FILE_SYSTEM' });
    const warnings = lines().filter((line) => line.includes('Summaries for TensorBoard cannot be written'));
    assert.equal(warnings.length, 1);
    assert.match(warnings[0] ?? '', /Training goes on without them/);
    rmSync(dir);
    mkdirSync(dir);
    await writer.scalar('loss', 1, 3);
    await writer.close();
    assert.equal(readdirSync(join(dir, 'below')).length, 1);
  });

  test('appends to a file on HDFS', async () => {
    await using hdfs = await startFakeHdfs();
    process.env['HOROVOD_WEBHDFS'] = hdfs.namenode.host;
    try {
      const writer = new SummaryWriter('hdfs://nn/logs/a');
      void writer.scalar('loss', 1, 0);
      await writer.flush();
      void writer.scalar('loss', 2, 1);
      await writer.close();
    } finally {
      delete process.env['HOROVOD_WEBHDFS'];
      await defaultFiles().close();
    }
    const names = [...hdfs.files.keys()].filter((path) => path.startsWith('/logs/a/'));
    assert.equal(names.length, 1);
    const name = names[0] as string;
    assert.match(name, /tfevents/);
    assert.deepEqual(
      decodeEvents(hdfs.files.get(name) as Buffer).map(({ scalars }) => scalars),
      [{}, { loss: 1 }, { loss: 2 }],
    );
  });
});

describe('logdir()', () => {
  test('is a folder of the job, below HOROVOD_TENSORBOARD_DIR', () => {
    Object.assign(process.env, { HOROVOD_TENSORBOARD_DIR: 'here/logs', HOROVOD_TENSORBOARD_RUN: 'a-run' });
    assert.equal(logdir(), resolve('here/logs/a-run'));
    process.env['HOROVOD_TENSORBOARD_DIR'] = 'hdfs://nn/logs/';
    assert.equal(logdir(), 'hdfs://nn/logs/a-run');
  });

  test('without horovodrun has the time and the pid of the process in its name, and stays the same', () => {
    const dir = logdir();
    assert.match(dir, new RegExp(`/logs/\\d{4}-\\d\\d-\\d\\d_\\d\\d-\\d\\d-\\d\\d-${process.pid}$`));
    assert.equal(logdir(), dir);
    assert.equal(new SummaryWriter().dir, dir);
  });
});

const pixels = (width: number) => ({ data: new Uint8Array(width), width, height: 1 });

/** Catches what is logged during a test. */
function stderrOf(t: TestContext): () => string[] {
  const written: string[] = [];
  t.mock.method(process.stderr, 'write', (text: string) => {
    written.push(text);
    return true;
  });
  return () => written.join('').split('\n');
}
