// What can be known about Spark without Spark: arguments, messages, what its words lead to.

import assert from 'node:assert/strict';
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { HorovodError } from '../../errors.ts';
import { ProtocolError } from '../../net/frames.ts';
import { startRun } from '../run/start-run.ts';
import { findSparkSubmit } from './find-spark-submit.ts';
import { run } from './run.ts';
import { parseEvent, type SparkEvent, type SparkLink, type SparkOrder } from './spark-messages.ts';
import { sparkPlaces } from './spark-places.ts';
import { submitArguments } from './start-spark-run.ts';

const context: SparkEvent = {
  event: 'context',
  slots: 2,
  master: 'spark://host:7077',
  applicationId: 'app-1',
  webUrl: null,
  isDynamic: false,
};

describe('spark-submit', () => {
  test('is taken as asked, from SPARK_HOME, or from the PATH', (t) => {
    const home = mkdtempSync(join(tmpdir(), 'spark-'));
    t.after(() => rmSync(home, { recursive: true }));
    mkdirSync(join(home, 'bin'));
    const program = join(home, 'bin/spark-submit');
    writeFileSync(program, '');
    assert.throws(() => findSparkSubmit(program, {}), /is not a program/);
    chmodSync(program, 0o755);
    assert.equal(findSparkSubmit(program, {}), program);
    assert.equal(findSparkSubmit(undefined, { SPARK_HOME: home }), program);
    assert.equal(findSparkSubmit(undefined, { PATH: `/nowhere:${home}/bin` }), program);
    assert.throws(
      () => findSparkSubmit(undefined, { SPARK_HOME: '/none', PATH: '' }),
      (error) => {
        assert.ok(HorovodError.is(error) && error.code === 'ERR_HVD_SETTING');
        assert.match(error.message, /neither in SPARK_HOME \(\/none\) nor on the PATH.*pip install pyspark/);
        return true;
      },
    );
  });

  test('gets master, properties, files and archives', () => {
    assert.deepEqual(
      submitArguments({
        master: 'yarn',
        conf: { 'spark.executor.memory': '2g', 'spark.executor.instances': 2 },
        files: ['a.js', 'b.js'],
        archives: ['app.tar.gz#app'],
      }),
      [
        ...['--master', 'yarn', '--conf', 'spark.executor.memory=2g', '--conf', 'spark.executor.instances=2'],
        ...['--files', 'a.js,b.js', '--archives', 'app.tar.gz#app'],
      ],
    );
    assert.deepEqual(submitArguments({}), []);
    assert.throws(() => submitArguments({ conf: { 'a=b': 1 } }), /property named "a=b"/);
    assert.throws(() => submitArguments({ conf: { a: {} as never } }), /expected a text, a number/);
    assert.throws(
      () => submitArguments({ conf: { 'spark.submit.deployMode': 'cluster' } }),
      /deploy mode cluster/,
    );
  });

  test('that is missing, and numbers that are none, are errors of run()', async () => {
    const missing = { sparkSubmit: '/nowhere/spark-submit' };
    await assert.rejects(
      run(() => 0, missing),
      /\/nowhere\/spark-submit \(sparkSubmit\) is not a program/,
    );
    await assert.rejects(
      run(() => 0, { numProc: 0 }),
      /numProc is 0; expected an integer/,
    );
    await assert.rejects(
      run(() => 0, { minNumProc: 1.5 }),
      /minNumProc is 1.5/,
    );
  });
});

describe('words of Spark', () => {
  test('are events, or nothing', () => {
    assert.deepEqual(parseEvent(JSON.stringify(context)), context);
    assert.deepEqual(parseEvent('{"event":"slots","slots":3}'), { event: 'slots', slots: 3 });
    assert.equal(parseEvent('{"event":"slots","slots":-1}'), undefined);
    assert.equal(parseEvent('{"event":"new"}'), undefined);
    assert.throws(() => parseEvent('no'), ProtocolError);
  });

  const cases: readonly (readonly [
    string,
    (link: Script) => void,
    { np?: number; minNp?: number },
    RegExp,
  ])[] = [
    [
      'dynamic allocation',
      ({ hear }) => hear({ ...context, isDynamic: true }),
      { np: 2 },
      /spark.dynamicAllocation.enabled=false.*minNumProc/,
    ],
    [
      'too few slots of a Spark that gets no more',
      ({ hear }) => hear({ ...context, master: 'local[2]' }),
      { np: 3 },
      /needs 3 slots, and local\[2\] has 2.*local\[3\]/,
    ],
    [
      'too few slots for too long',
      ({ hear }) => hear(context),
      { np: 3 },
      /has started 0 of 3 places within .*Spark has 2 slots, and the job needs 3/,
    ],
    [
      'slots that others use',
      ({ hear }) => hear({ ...context, slots: 8 }),
      { np: 3 },
      /Spark has 8 slots, which other jobs may be using/,
    ],
    [
      'a Spark job that has failed',
      ({ hear }) => {
        hear(context);
        hear({ event: 'failed', reason: 'task 1: Node was not found on executor w1.' });
      },
      { np: 2 },
      /Spark could not run the places: task 1: Node was not found on executor w1\./,
    ],
    [
      'a Spark that ends',
      ({ end }) => end('spark-submit ended with code 1. It said:\n  no such master'),
      { np: 2 },
      /there are no places: spark-submit ended with code 1[\s\S]*no such master/,
    ],
    [
      'a Spark that does not start',
      () => undefined,
      { np: 2 },
      /Spark has not started within .*Is its master running/,
    ],
  ];
  for (const [what, script, options, expected] of cases) {
    test(`${what}: the error says so, and Spark is ended`, async () => {
      let isClosed = false;
      const link: SparkLink = {
        begin(order, hear, end) {
          assert.equal(order.count, options.np);
          script({ order, hear, end });
        },
        async close(isEnding) {
          isClosed = true;
          assert.equal(isEnding, false);
        },
      };
      const env = { HOROVOD_SPARK_START_TIMEOUT: '0.3' };
      await assert.rejects(
        startRun(
          () => 0,
          { ...options, env, showOutput: false },
          sparkPlaces(() => link),
        ),
        expected,
      );
      assert.ok(isClosed);
    });
  }

  test('an order has what an executor needs, and leaves the number of ranks to Spark if none is given', async () => {
    const orders: SparkOrder[] = [];
    const link: SparkLink = {
      begin(order, _hear, end) {
        orders.push(order);
        end('enough');
      },
      close: async () => undefined,
    };
    const give = sparkPlaces(() => link);
    await assert.rejects(
      startRun(() => 0, { showOutput: false }, give),
      /enough/,
    );
    await assert.rejects(
      startRun(() => 0, { minNp: 1, maxNp: 5, showOutput: false }, give),
      /enough/,
    );
    const [fixed, elastic] = orders;
    assert.equal(fixed?.count, null);
    assert.equal(fixed?.isElastic, false);
    assert.equal(elastic?.count, 5);
    assert.ok(elastic?.isElastic && Number(elastic.defaults['spark.task.maxFailures']) > 100);
    assert.notEqual(fixed?.secret, elastic?.secret);
  });
});

interface Script {
  readonly order: SparkOrder;
  readonly hear: (event: SparkEvent) => void;
  readonly end: (how: string) => void;
}
